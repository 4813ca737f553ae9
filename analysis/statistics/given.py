"""Games that were played elsewhere, as the records that matches of our own have.

A table has a row for each game of two, with the columns `home`, `away`, and `result` or `winner`. Or it has
a row for each seat of a game of any number: `game`, `competitor`, and `score` (more is better) or `rank`
(less is better), in the order of `seat`. `pair` (or an opening) groups games that share their luck; without
it each game is a unit of its own. `date` is when a game was played, `count` how many equal games a row is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from storage.arrays import Floats, Indices
from storage.errors import Mistake
from storage.records import GIVEN, EndReason, MatchBatch, Outcome, Purpose, ResultBatch
from storage.suggestions import did_you_mean, or_near

_SIDES = [("home", "away"), ("white", "black"), ("left", "right"), ("first", "second")]
_SIDES += [(f"{one}{mark}{a}", f"{one}{mark}{b}")
           for one in ("model", "player", "competitor", "agent", "engine", "team")
           for mark in ("_", "", " ") for a, b in (("a", "b"), ("1", "2"), ("0", "1"))]  # fmt: skip
_SIDES += [("a", "b")]
ROLES: Mapping[str, Sequence[str]] = {
    "home": [home for home, _ in _SIDES],
    "away": [away for _, away in _SIDES],
    "result": ["result", "outcome", "points", "score"],
    "winner": ["winner"],
    "game": ["game", "game_id", "match", "match_id"],
    "seat": ["seat"],
    "competitor": ["competitor", "player", "model", "agent", "team", "name"],
    "score": ["score", "points"],
    "rank": ["rank", "position"],
    "pair": ["pair", "pair_id", "opening", "opening_id"],
    "date": ["date", "started_at", "timestamp", "tstamp"],
    "count": ["count", "games"],
}
"""Names by which the column of each role is found, in any case of letters."""
_OF_TWO, _OF_SEATS = ("home", "away"), ("game", "competitor")
_WON = {"1-0", "win", "won", "w", "1", *(home for home, _ in _SIDES)}
_LOST = {"0-1", "loss", "lost", "l", "0", *(away for _, away in _SIDES)}
_DRAWN = {"1/2-1/2", "0.5-0.5", "1/2", "0.5", "draw", "drawn", "d", "tie", "tied", "bothbad", "both_bad"}
_VOID = {"*", "0-0"}  # unfinished, or lost by both: no evidence on either
_SHOWN = "1-0, 0-1, 1/2-1/2, 1, 0, 0.5, win, loss or draw"
MOST_GAMES = 200_000_000
MOST_SEATS = 100
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800.0, 253_402_300_800.0  # of the years 1 and 9999, from 1970 on
Where = Callable[[int], str]


class _Texts(NamedTuple):
    """A column of M texts: numbers [M] of the different values, -1 where there is none."""

    number: Indices
    values: list[str]

    def at(self, row: int) -> str:
        return self.values[self.number[row]] if self.number[row] >= 0 else ""


def results_of_frame(frame: pd.DataFrame, columns: Mapping[str, str] | None = None) -> ResultBatch:
    """Return the games of a frame, as `results_of` does; messages name rows from 0."""
    names = [str(name) for name in frame]
    chosen = dict.fromkeys(columns_of(names, "frame", columns or {}).values())
    frame = frame.set_axis(names, axis=1)[list(chosen)]
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:  # values of several types in one column
        texts = {name: [None if pd.isna(v) else str(v) for v in frame[name]] for name in frame}
        table = pa.table({name: pa.array(column, pa.string()) for name, column in texts.items()})
    return results_of(table, "frame", columns or {})


def results_of(
    table: pa.Table,
    name: str,
    columns: Mapping[str, str] | None = None,
    *,
    where: Where | None = None,
    first: int = 0,
    env: str = "games",
) -> ResultBatch:
    """Return the games of `table` in its order, without those that have no result (`*`, `0-0`).

    `columns` has the column of each role that is not found by its name. Matches and pairs are numbered from
    `first` on. `where` returns the place of a row, for messages; `name` is that of the whole.

    Raise Mistake for columns that are missing or given twice, and for the first row that is not a game.
    """
    at = columns_of(table.column_names, name, columns or {})
    chosen = {role: table.column(column) for role, column in at.items()}
    for role, column in at.items():
        if pa.types.is_nested(chosen[role].type):
            raise Mistake(f"{name}: column '{column}' has {chosen[role].type}, expected text or numbers")
    place = where or (lambda row: f"{name}: row {row}")
    if not len(table):
        raise Mistake(f"{name}: found no game, expected a row for each")
    if "home" in chosen:
        row, competitors, seat, rank = _of_two(chosen, at, place)
    else:
        row, competitors, seat, rank = _of_seats(chosen, place)
    if not len(row):
        raise Mistake(f"{name}: found no game with a result, expected some; a result is {_SHOWN}")
    if "count" in chosen:
        count = _counts(chosen["count"], place)[row]
        if not 0 < count.sum() <= MOST_GAMES:
            raise Mistake(f"{name}: found {count.sum():,} games, expected from 1 to {MOST_GAMES:,}")
        row = np.repeat(row, count)
        seat, rank = np.repeat(seat, count, axis=0), np.repeat(rank, count, axis=0)
    m = len(row)
    match_id = first + np.arange(m, dtype=np.int64)
    seed = first + _units(chosen["pair"], row) if "pair" in chosen else match_id
    started_at = _seconds(chosen["date"], place)[row] if "date" in chosen else np.zeros(m)
    matches = MatchBatch(
        env=env,
        purpose=Purpose.TOURNAMENT,
        match_types=(GIVEN,),
        competitors=competitors,
        match_id=match_id,
        seed=seed,
        match_type=np.zeros(m, dtype=np.int16),
        seat=seat.astype(np.int32),
        learning=np.zeros(seat.shape, dtype=np.bool_),
    )
    best = rank == 0
    tied = best & (best.sum(axis=1, keepdims=True) > 1)
    score = (rank.shape[1] - 1 - 2.0 * rank).astype(np.float32) if seat.shape[1] > 2 else 1.0 - 2.0 * rank
    return ResultBatch(
        matches=matches,
        outcome=np.where(tied, Outcome.DRAW, np.where(best, Outcome.WIN, Outcome.LOSS)).astype(np.int8),
        score=np.where(tied.all(axis=1, keepdims=True), 0.0, score).astype(np.float32),
        rank=rank,
        env_steps=np.zeros(m, dtype=np.int32),
        reason=np.full(m, EndReason.FINISHED, dtype=np.int8),
        started_at=started_at,
        seconds=np.zeros(m, dtype=np.float32),
    )


def columns_of(names: Sequence[str], name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each role that the table `name` with columns `names` has.

    `given` are columns by role; the others are found by their names (ROLES). Raise Mistake for a role or a
    column that is not there, and where the columns of neither form are found.
    """
    twice = [column for column, times in Counter(names).items() if times > 1]
    if twice:
        raise Mistake(f"{name}: column '{twice[0]}' comes twice, expected each name once")
    for role, column in given.items():
        if role not in ROLES:
            near = or_near(role, ROLES, f", one of: {', '.join(ROLES)}")
            raise Mistake(f"--columns: found '{role}', expected what a column is{near}")
        if column not in names:
            raise Mistake(f"{name}: found no column '{column}' for {role}; {did_you_mean(column, names)}")
    known = {column.strip().lower(): column for column in reversed(names)}
    free = {lower: column for lower, column in known.items() if column not in given.values()}
    at = dict(given)
    for role, aliases in ROLES.items():
        found = next((free[alias] for alias in aliases if alias in free), None)
        if role not in at and found is not None:
            at[role] = found
    paired = [sides for sides in _SIDES if sides[0] in free and sides[1] in free]
    if paired and not {"home", "away"} & given.keys():  # both of one kind
        at["home"], at["away"] = (free[side] for side in paired[0])
    if all(role in at for role in _OF_TWO):
        if at["home"] == at["away"]:
            raise Mistake(f"{name}: column '{at['home']}' is home and away, expected a column of each")
        if "winner" not in at and "result" not in at:
            raise Mistake(_missing(name, "result or winner", names))
        of = {"home", "away", "winner" if "winner" in at and "result" not in given else "result"}
    elif all(role in at for role in _OF_SEATS):
        if "score" not in at and "rank" not in at:
            raise Mistake(_missing(name, "score or rank", names))
        of = {"game", "competitor", "seat", "rank" if "rank" in at and "score" not in given else "score"}
    else:
        raise Mistake(_missing(name, "home and away, or game and competitor", names))
    return {role: column for role, column in at.items() if role in of | {"pair", "date", "count"}}


def _missing(name: str, what: str, names: Sequence[str]) -> str:
    shown = ", ".join(map(str, names[:8])) + (", ..." if len(names) > 8 else "")
    return (
        f"{name}: found no column {what} among {shown or 'none'}; name them, as in --columns "
        "home=white,away=black,result=score"
    )


def _of_two(
    chosen: Mapping[str, pa.ChunkedArray], at: Mapping[str, str], where: Where
) -> tuple[Indices, tuple[str, ...], Indices, npt.NDArray[np.int8]]:
    """Return rows [M] with a result, competitors, seats [M, 2] and ranks [M, 2]."""
    number, sides = _named([_texts(chosen[role]) for role in _OF_TWO], [at[role] for role in _OF_TWO], where)
    home, away = sides
    same = home == away
    if same.any():
        row = int(same.argmax())
        raise Mistake(f"{where(row)}: '{number[home[row]]}' plays against itself, expected two competitors")
    role = "winner" if "winner" in chosen else "result"
    result = _texts(chosen[role])
    of_value = np.array([_points(value, role, at) for value in result.values] + [np.nan])
    points = of_value[result.number]
    if role == "winner":
        index = {name: i for i, name in enumerate(number)}
        named = np.array([index.get(value.strip(), -1) for value in result.values] + [-1])[result.number]
        points = np.select([named < 0, named == home, named == away], [points, 1.0, 0.0], points)
    odd = np.isnan(points)
    if odd.any():
        row = int(odd.argmax())
        expected = _SHOWN if role == "result" else "a competitor of the game, its column, or tie"
        raise Mistake(f"{where(row)}: {at[role]} is '{result.at(row)}', expected {expected}")
    rows = np.flatnonzero(points >= 0.0)
    points = points[rows]
    rank = np.stack([points == 0.0, points == 1.0], axis=1).astype(np.int8)
    return rows, tuple(number), np.stack([home[rows], away[rows]], axis=1), rank


def _points(value: str, role: str, at: Mapping[str, str]) -> float:
    """Return the points of home that a result means: nan if none, -1 for a game without a result."""
    plain = value.strip().lower().replace(" ", "").replace("½", "1/2").replace("–", "-")
    if plain in _VOID:
        return -1.0
    if role == "winner":
        sides = {at["home"].strip().lower(): 1.0, at["away"].strip().lower(): 0.0}
        if plain in sides:
            return sides[plain]
        if plain.startswith(("tie", "draw", "both")):
            return 0.5
        plain = "" if plain[:1].isdigit() else plain  # 1 may be the first, or the one with number 1
    for points, words in ((1.0, _WON), (0.0, _LOST), (0.5, _DRAWN)):
        if plain in words:
            return points
    try:
        number = float(plain)
    except ValueError:
        return np.nan
    return number if number in (0.0, 0.5, 1.0) else np.nan


def _of_seats(
    chosen: Mapping[str, pa.ChunkedArray], where: Where
) -> tuple[Indices, tuple[str, ...], Indices, npt.NDArray[np.int8]]:
    """Return the first row [M] of each game, competitors, seats [M, S] and ranks [M, S]."""
    game = _texts(chosen["game"])
    if (game.number < 0).any():
        raise Mistake(f"{where(int((game.number < 0).argmax()))}: game is empty, expected the id of a game")
    size = np.bincount(game.number)
    _, first = np.unique(game.number, return_index=True)
    odd = size[game.number] != size[game.number[0]]
    if odd.any():
        row = int(first[game.number[odd.argmax()]])
        raise Mistake(
            f"{where(row)}: game '{game.at(row)}' has {size[game.number[row]]} seats, expected "
            f"{size[game.number[0]]} as in the first game; rate games of other sizes by themselves"
        )
    seats = int(size[0])
    if not 2 <= seats <= MOST_SEATS:
        raise Mistake(f"{where(0)}: game '{game.at(0)}' has {seats} seats, expected from 2 to {MOST_SEATS}")
    (names, (who,)) = _named([_texts(chosen["competitor"])], ["competitor"], where)
    role = "rank" if "rank" in chosen else "score"
    value = _numbers(chosen[role], role, where)
    if "seat" in chosen:
        texts = _texts(chosen["seat"])
        place = np.array([_as_number(text) for text in texts.values] + [np.nan])[texts.number]
        if np.isnan(place).any():  # names of seats, such as north
            place = np.argsort(np.argsort(texts.values)).astype(np.float64)[texts.number]
        order = np.lexsort((place, game.number))
        again = (np.diff(place[order]) == 0.0) & (np.diff(game.number[order]) == 0)
        if again.any():
            row = int(order[again.argmax() + 1])
            raise Mistake(f"{where(row)}: seat '{texts.at(row)}' comes twice in game '{game.at(row)}'")
    else:
        order = np.argsort(game.number, kind="stable")
    by_game = order.reshape(-1, seats)[np.argsort(first, kind="stable")]
    seat, worth = who[by_game], value[by_game]
    twice = np.diff(np.sort(seat, axis=1), axis=1) == 0
    if twice.any():
        row = int(by_game[twice.any(axis=1).argmax(), 0])
        raise Mistake(f"{where(row)}: game '{game.at(row)}' names a competitor twice, expected each once")
    worth = worth if role == "rank" else -worth
    rank = np.zeros(worth.shape, dtype=np.int8)
    for other in range(seats):
        rank += (worth[:, [other]] < worth).astype(np.int8)
    return by_game[:, 0], tuple(names), seat, rank


def _named(texts: Sequence[_Texts], columns: Sequence[str], where: Where) -> tuple[list[str], list[Indices]]:
    """Return all names, and the numbers [M] of those in each column. Raise Mistake for an empty one."""
    index: dict[str, int] = {}
    found = []
    for column, own in zip(columns, texts, strict=True):
        number = np.array([index.setdefault(value.strip(), len(index)) for value in own.values] + [-1])
        found.append(number[own.number])
        empty = (found[-1] < 0) | (found[-1] == index.get("", -1))
        if empty.any():
            raise Mistake(
                f"{where(int(empty.argmax()))}: {column} is empty, expected the name of a competitor"
            )
    return list(index), found


def _texts(column: pa.ChunkedArray) -> _Texts:
    if not pa.types.is_dictionary(column.type):
        column = pc.cast(column, pa.string()).dictionary_encode()
    whole = column.unify_dictionaries()
    if not whole.num_chunks:
        return _Texts(np.zeros(0, dtype=np.int64), [])
    parts = [pc.fill_null(chunk.indices, -1).to_numpy(zero_copy_only=False) for chunk in whole.chunks]
    return _Texts(
        np.concatenate(parts).astype(np.int64), list(map(str, whole.chunk(0).dictionary.to_pylist()))
    )


def _as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _numbers(column: pa.ChunkedArray, role: str, where: Where) -> Floats:
    """Return a column as numbers [M]. Raise Mistake for other values."""
    number: Floats
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        number = column.cast(pa.float64()).fill_null(np.nan).to_numpy()
        if np.isfinite(number).all():
            return number
    texts = _texts(column)
    number = np.array([*map(_as_number, texts.values), np.nan])[texts.number]
    odd = ~np.isfinite(number)
    if odd.any():
        row = int(odd.argmax())
        raise Mistake(f"{where(row)}: {role} is '{texts.at(row)}', expected a number")
    return number


def _counts(column: pa.ChunkedArray, where: Where) -> Indices:
    number = _numbers(column, "count", where)
    odd = (number < 0) | (number != np.rint(number)) | (number > MOST_GAMES)
    if odd.any():
        row = int(odd.argmax())
        raise Mistake(f"{where(row)}: count is {number[row]:g}, expected a whole number of games")
    return number.astype(np.int64)


def _units(column: pa.ChunkedArray, row: Indices) -> Indices:
    """Return the number [M] of the first game with the same pair; those without one are alone."""
    number = _texts(column).number[row]
    _, first, group = np.unique(number, return_index=True, return_inverse=True)
    return np.where(number < 0, np.arange(len(row)), first[group])


def _seconds(column: pa.ChunkedArray, where: Where) -> Floats:
    """Return dates [M] as seconds since the epoch, 0 where there is none."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        number: Floats = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        odd = ~((number >= _FIRST_SECOND) & (number < _LAST_SECOND))
        if odd.any():
            row = int(odd.argmax())
            raise Mistake(f"{where(row)}: date is {number[row]:g}, expected seconds since 1970")
        return number
    texts = _texts(column)
    plain = [
        value.strip().replace(".", "-", 2) if value[4:5] == "." else value.strip() for value in texts.values
    ]
    blank = np.array([not value or "?" in value for value in plain] + [True])
    times = pd.to_datetime(pd.Series([*plain, ""]).mask(blank), errors="coerce", utc=True, format="ISO8601")
    odd = (times.isna().to_numpy() & ~blank)[texts.number]
    if odd.any():
        row = int(odd.argmax())
        raise Mistake(f"{where(row)}: date is '{texts.at(row)}', expected one such as 2026-11-26")
    since = times.dt.as_unit("us") - pd.Timestamp(0, tz="UTC").as_unit("us")  # nanoseconds begin in 1677
    seconds = since / pd.Timedelta(seconds=1)
    return np.asarray(seconds.fillna(0.0), dtype=np.float64)[texts.number]
