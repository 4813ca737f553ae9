"""Where stored games come from: a run folder, a PGN, histories of OpenSpiel, a Parquet file of others.

A Parquet file has a row for each decision, in columns named as ours (`games`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from league.envs import registry
from league.envs.base import is_legal
from league.teaching.games import OUTCOMES, Games, GamesFile, Spaces, card_of, episodes_of, readable
from league.teaching.played import recorded_games
from league.teaching.states import CHESS, history_lines, pgn_lines, state_games
from storage.errors import Mistake

KINDS = (".parquet", ".pgn", ".txt")
ROWS = 2**16  # at a time
NEEDED = ("match", "observation", "action")
KNOWN = ("seat", "mask", "reward", "outcome", "score", "player", "rating")
_GOT = dict(zip(OUTCOMES, (1.0, 0.0, -1.0, -1.0), strict=True))


def games_of(
    source: Path, env: tuple[str, Mapping[str, Any]] | None, where: str | None = None
) -> tuple[Spaces, Iterator[Games]]:
    """Return the games of a source, which is a run folder or a file of one of KINDS.

    `env`: id and options of their game; a run and a file of ours know their own. `where`: of a run, see
    `recorded_games`. Raise Mistake for a source that is no such thing, or of another game.
    """
    if source.is_dir():
        spaces, games = recorded_games(source, where)
        _check_env(source, spaces, env)
        return spaces, games
    kind = source.suffix.lower()
    if not source.is_file() or kind not in KINDS:
        found = "a file of another kind" if source.is_file() else "nothing there"
        raise Mistake(
            f"{source}: found {found}, expected a run folder or a file of games: .parquet, .pgn, or .txt "
            "with a history of OpenSpiel in each line"
        )
    if where is not None:
        raise Mistake(f"--where: found it beside {source}, expected a run whose matches it selects")
    if kind == ".parquet" and card_of(source) is not None:
        spaces = GamesFile(source).spaces
        _check_env(source, spaces, env)
        return spaces, table_games(source, spaces)
    if kind == ".pgn" and env is None:
        env = (CHESS, {})
    if env is None:
        raise Mistake(f"{source}: does not say of which game it is, expected --env ID beside it")
    spaces = Spaces.of(*env)
    if kind == ".parquet":
        return spaces, table_games(source, spaces)
    wanted = CHESS if kind == ".pgn" else "openspiel:"
    if not spaces.env["id"].startswith(wanted):
        raise Mistake(f"{source}: found env '{spaces.env['id']}', expected {wanted} for a file {kind}")
    lines = pgn_lines(source, spaces) if kind == ".pgn" else history_lines(source)
    return spaces, state_games(spaces, lines)


def _check_env(source: Path, spaces: Spaces, env: tuple[str, Mapping[str, Any]] | None) -> None:
    if env is not None and env[0] != spaces.env["id"]:
        raise Mistake(f"{source}: games of '{spaces.env['id']}', expected those of '{env[0]}'")


def table_games(path: Path, spaces: Spaces) -> Iterator[Games]:
    """Yield the games of a Parquet file with the columns NEEDED, and those KNOWN that are there.

    Rows are sorted by match, those of a seat in order of time. `outcome` is a word, or what the seat got.
    Raise Mistake for the first row that does not fit.
    """
    with readable(path):
        file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    for name in (*NEEDED, *KNOWN):
        count = names.count(name)
        if count > 1 or (name in NEEDED and not count):
            found = f"two columns {name}" if count else f"no column {name}"
            raise Mistake(
                f"{path}: found {found} among {', '.join(names)}; expected {', '.join(NEEDED)}, and as far "
                f"as they are known {', '.join(KNOWN)}"
            )
    columns = [name for name in names if name in (*NEEDED, *KNOWN)]
    seats = registry.make(spaces.env["id"], 1, **spaces.env["options"]).num_seats
    rest, first = None, 0
    for batch in _batches(path, file, columns):
        rows = batch if rest is None else pa.concat_tables([rest, batch])
        match = _numbers(path, first, rows, "match", np.int64)
        for row in np.flatnonzero(np.diff(match) < 0)[:1]:
            raise Mistake(
                f"{path}: row {first + row + 1}: match {match[row + 1]} comes after match {match[row]}, "
                "expected rows that are sorted by match"
            )
        whole = int(np.searchsorted(match, match[-1]))  # the last match may go on
        if whole:
            yield _games(path, first, rows.slice(0, whole), spaces, seats)
        rest, first = rows.slice(whole), first + whole
    if rest is not None:
        yield _games(path, first, rest, spaces, seats)


def _batches(path: Path, file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.Table]:
    """Yield the rows of a file, ROWS at a time: tensors as lists, categories as what they name."""
    batches = file.iter_batches(ROWS, columns=columns)
    while True:
        with readable(path):
            batch = next(batches, None)
        if batch is None:
            return
        if len(batch):
            plain = [each.storage if isinstance(each, pa.ExtensionArray) else each for each in batch.columns]
            plain = [
                each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in plain
            ]
            yield pa.table(plain, names=batch.schema.names)


def _numbers(
    path: Path, first: int, rows: pa.Table, name: str, kind: npt.DTypeLike, width: int | None = None
) -> npt.NDArray:
    """Return a column as numbers [N]; with a `width`, one of lists as [N, width].

    Real numbers that are not in lists may be NaN: not known. `first`: the number of the first of `rows`.
    Raise Mistake for the first row that does not fit.
    """
    column, size = rows[name].combine_chunks(), 1 if width is None else width
    ends = np.arange(len(rows) + 1)  # of the numbers of each row
    while width is not None and hasattr(column.type, "value_type"):  # lists, of one of many kinds
        length = pc.list_value_length(column).fill_null(0).to_numpy()
        ends = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])[ends]
        column = column.flatten()
    for row in np.flatnonzero(np.diff(ends) != size)[:1]:
        raise Mistake(
            f"{path}: row {first + row}: found {name} of {ends[row + 1] - ends[row]} numbers, expected {size}"
        )
    real = np.issubdtype(kind, np.floating)
    exact = pc.CastOptions(pa.from_numpy_dtype(kind), allow_float_truncate=real)

    def cast(part: pa.Array) -> npt.NDArray | None:
        try:
            found = part.cast(options=exact)
        except pa.ArrowException:
            return None
        values: npt.NDArray = found.to_numpy(zero_copy_only=False)
        known = np.isfinite(values) if width is not None else ~np.isinf(values)
        return values if (known.all() if real else not found.null_count) else None

    values = cast(column)
    if values is None:
        parts = (column.slice(row * size, size) for row in range(len(rows)))
        row = next(row for row, part in enumerate(parts) if cast(part) is None)
        found = str(rows[name][row].as_py())
        shown = found[:60] + "..." * (len(found) > 60)
        raise Mistake(f"{path}: row {first + row}: found {name} {shown}, expected {np.dtype(kind)} numbers")
    return values if width is None else values.reshape(-1, width)


def _games(path: Path, first: int, rows: pa.Table, spaces: Spaces, seats: int) -> Games:
    """Return the games of these rows, whose first one is row `first` of the file."""
    n, action = len(rows), spaces.action

    def numbers(name: str, kind: npt.DTypeLike, width: int | None = None) -> npt.NDArray:
        return _numbers(path, first, rows, name, kind, width)

    def known(name: str) -> npt.NDArray:
        return numbers(name, np.float64) if name in rows.column_names else np.full(n, np.nan)

    match = numbers("match", np.int64)
    seat = numbers("seat", np.int64) if "seat" in rows.column_names else np.zeros(n, np.int64)
    for row in np.flatnonzero((seat < 0) | (seat >= seats))[:1]:
        raise Mistake(f"{path}: row {first + row}: found seat {seat[row]}, expected 0 to {seats - 1}")
    mask = np.ones((n, action.mask_width), np.bool_)
    if "mask" in rows.column_names:
        mask = numbers("mask", np.bool_, action.mask_width)
    taken = numbers("action", action.dtype, max(1, len(action.sizes) + len(action.low)))
    for row in np.flatnonzero(~is_legal(action, mask, taken.reshape(n, *action.shape)))[:1]:
        raise Mistake(
            f"{path}: row {first + row}, match {match[row]}: action {taken[row].tolist()} is not "
            "legal, expected one that its mask allows"
        )
    columns = {
        "match": match,
        "seat": seat,
        "rating": known("rating"),
        "player": _words(path, rows, "player"),
    }
    if _is_number(rows, "outcome"):  # what the seat got
        got = known("outcome")
        words = np.array([OUTCOMES[1 - int(np.sign(each))] if each == each else None for each in got])
    else:
        words = _words(path, rows, "outcome")
        for row in np.flatnonzero([each is not None and each not in _GOT for each in words])[:1]:
            raise Mistake(
                f"{path}: row {first + row}: found outcome {words[row]}, expected {', '.join(OUTCOMES)}, or "
                "what the seat got"
            )
        got = np.array([_GOT.get(each, np.nan) for each in words])
    score = known("score")
    columns |= {"outcome": words, "score": np.where(np.isnan(score), got, score)}
    seats_of = pd.DataFrame(columns).groupby(["match", "seat"])
    facts = seats_of.first().reset_index()  # the first that is known of each
    offset = np.concatenate([[0], np.cumsum(seats_of.size())])
    order = np.lexsort((seat, match))
    reward = np.nan_to_num(known("reward"))[order]
    if "reward" not in rows.column_names:
        reward[offset[1:] - 1] = np.nan_to_num(facts["score"])
    steps = {"observation": numbers("observation", spaces.observation.dtype, spaces.observation.size)}
    steps = {name: each[order] for name, each in {**steps, "mask": mask, "action": taken}.items()}
    texts = {name: facts[name].fillna("").to_numpy(object) for name in ("player", "outcome")}
    return Games(
        episodes_of(
            spaces, offset, facts["match"].to_numpy(), facts["seat"].to_numpy(), steps | {"reward": reward}
        ),
        rating=facts["rating"].to_numpy(np.float32),
        score=facts["score"].to_numpy(np.float32),
        **texts,
    )


def _is_number(rows: pa.Table, name: str) -> bool:
    kind = rows.schema.field(name).type if name in rows.column_names else pa.null()
    return any(of(kind) for of in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _words(path: Path, rows: pa.Table, name: str) -> npt.NDArray:
    """Return a column as texts; `None`: not known. Raise Mistake for one of lists or records."""
    if name not in rows.column_names:
        return np.full(len(rows), None)
    try:
        return np.array(rows[name].cast(pa.string()).to_pylist(), object)
    except pa.ArrowException:
        found = rows.schema.field(name).type
        raise Mistake(f"{path}: found {name} of {found}, expected texts") from None
