"""Where stored games come from: recorded matches, matches played for them, histories, PGN, other Parquet files.

Matches of runs are played again from their actions, so that what was seen need not have been stored.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from league.arena.arena import Arena
from league.arena.matches import drawn_seed
from league.competitors.names import name_of
from league.envs import registry
from league.envs.base import BatchedGame, Decisions, Transition, is_legal
from league.models.actor import Chosen
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.openings import Openings
from league.rollout.seats import Taken
from league.rollout.traces.recorder import Recorder
from league.teaching.games import OUTCOMES, Games, Spaces, arrays_of
from league.watching.replay import Recorded, play_again, recorded
from storage import open_reader, query
from storage.errors import Mistake
from storage.records import EndReason, Outcome, Purpose

SLOTS = 1024  # matches at a time
MATCHES = 4096  # played in one request
GAMES = 256  # of OpenSpiel in one chunk
ROWS = 2**16  # of a Parquet file of others at a time
CHESS = "chess"
_SHOWN = 60  # characters of a line in a message
_WHITE = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}  # what White gets


class _Seen:
    """Decisions of all seats of k matches that are played again; not those of an opening, or illegal ones."""

    def __init__(self, game: BatchedGame, found: Recorded, opening: npt.NDArray[np.int64] | int) -> None:
        """`opening` [k]: the number of first decisions of each match that were drawn at random."""
        spec = PolicySpec(PolicySettings(), game.observation_specs[0], game.action_specs[0])
        self._game = game
        self._recorder = Recorder(game, "", 0, spec)
        self._learns = np.ones((game.num_slots, game.num_seats), np.bool_)
        self._opening = np.broadcast_to(np.asarray(opening), len(found.recordings))

    def decided(
        self, blocks: Sequence[Decisions], actions: Sequence[npt.NDArray], match_of: npt.NDArray[np.int64]
    ) -> None:
        for block, action in zip(blocks, actions, strict=True):
            number = self._game.env_steps[block.slot]
            number = number + np.arange(len(block)) - np.searchsorted(block.slot, block.slot)
            spec = self._game.action_specs[0]
            chosen = is_legal(spec, block.mask, action) & (number >= self._opening[match_of[block.slot]])
            rows = np.flatnonzero(chosen)
            seen, raw = block.observation[rows], action[rows]
            made = Chosen(raw, np.zeros(len(rows), np.float32), seen, raw)
            taken = Taken(block.slot[rows], block.seat[rows], block.mask[rows], made)
            self._recorder.decided(taken, match_of, self._learns)

    def stepped(self, transition: Transition, match_of: npt.NDArray[np.int64]) -> None:
        self._recorder.rewarded(transition.rewards)
        self._recorder.ended(transition, match_of, self._game.look)

    def games(self, found: Recorded, spaces: Spaces, ratings: Mapping[str, float]) -> Games:
        """Return what was seen, of the matches that did not crash."""
        results = found.results
        rows = found.recordings.row
        made = self._recorder.episodes(results.matches.take(rows))
        row = rows[np.searchsorted(results.matches.match_id[rows], made.match_id)]
        whole = np.flatnonzero(results.reason[row] != EndReason.CRASH)
        made, row = made.take(whole), row[whole]
        names = np.array(results.matches.competitors, dtype=object)
        player = names[results.matches.seat[row, made.seat]]
        words = np.array([outcome.name.lower() for outcome in Outcome], dtype=object)
        return Games.of(
            spaces, made.offset, made.match_id, made.seat, made.arrays(),
            player=player,
            rating=np.array([ratings.get(name, np.nan) for name in player], np.float32),
            outcome=words[results.outcome[row, made.seat]],
            score=results.score[row, made.seat],
        )  # fmt: skip


def recorded_games(run: Path, where: str | None = None) -> tuple[Spaces, Iterator[Games]]:
    """Return the games of `run` that were recorded action by action, those of its own env.

    `where`: an SQL condition on the columns of `matches`. Raise as `league.watching.replay.recorded`.
    """
    env = open_reader(run).env()
    spaces, ratings = Spaces.of(env["id"], env["options"]), _ratings(run)

    def found() -> Iterator[Games]:
        game: BatchedGame | None = None
        for each in recorded(run, where):
            if each.results.matches.env != env["id"]:
                continue
            game = each.make_game(SLOTS) if game is None else game
            opening = 0
            if each.results.matches.purpose == Purpose.TRAINING:
                drawn = Openings(**_opening_of(each.config))
                opening = drawn.random_plies(each.results.matches.seed[each.recordings.row])
            yield _seen(game, each, spaces, ratings, opening)
        if game is None:
            which = "" if where is None else f" where {where}"
            raise Mistake(
                f"{run}: no match of '{env['id']}'{which} was recorded action by action; set rollout.record before "
                f"a run is trained, or name competitors that play now: league games {run} best --to FILE"
            )

    return spaces, found()


def played_games(
    run: Path, names: Sequence[str], matches: int, *, seed: int = 0, plies: int = 0
) -> tuple[Spaces, Iterator[Games]]:
    """Return games that competitors of `run` play now: one in all seats, or one for each seat or team.

    `plies`: random first moves of each match, which are left out. Raise as `Arena.seat`, and Mistake for
    another number of competitors.
    """
    arena = Arena.of_runs(run, slots=SLOTS, record=1.0)
    agreed, openings = arena.agreed, Openings(plies)
    names = list(names) * agreed.num_teams if len(names) == 1 else list(names)
    if len(names) != agreed.num_teams:
        raise Mistake(
            f"games: found {len(names)} competitors, expected one, which takes all seats, or "
            f"{agreed.num_teams}: one for each seat or team of '{agreed.env_id}'"
        )
    spaces, ratings = Spaces.of(agreed.env_id, agreed.env_options, agreed.game), _ratings(run)
    openings.check(agreed.game)
    seated = arena.seat(*names)
    if plies:
        seated = type(seated)(seated.sources, seated.envs, seated.brings, openings)
    table = arena.table("games", seed, Purpose.TOURNAMENT)
    plain = tuple(name_of(source) for source in seated.sources.values())  # without the number of a double

    def found() -> Iterator[Games]:
        game = registry.make(agreed.env_id, SLOTS, step_limit=agreed.step_limit, **agreed.env_options)
        size = MATCHES // table.games
        for first in range(0, -(-matches // table.games), size):
            pairing = np.tile(np.arange(agreed.num_teams), (size, 1))
            batch = table.pairs(seated.names, pairing, first)
            for results in arena.play(seated, batch, drawn_seed(seed, first)):
                assert results.recordings is not None
                each = Recorded({}, results, results.recordings)
                games = _seen(game, each, spaces, ratings, plies)
                called = dict(zip(seated.names, plain, strict=True))
                yield Games(
                    games.episodes,
                    np.array([called[name] for name in games.player], dtype=object),
                    np.array([ratings.get(called[name], np.nan) for name in games.player], np.float32),
                    games.outcome,
                    games.score,
                )

    return spaces, found()


def _seen(
    game: BatchedGame,
    found: Recorded,
    spaces: Spaces,
    ratings: Mapping[str, float],
    opening: npt.NDArray[np.int64] | int,
) -> Games:
    seen = _Seen(game, found, opening)
    play_again(game, found, seen)
    return seen.games(found, spaces, ratings)


def _opening_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return share and plies of the random first moves of training matches, by a recorded config."""
    opening = config.get("opening") or {}
    share = float(opening.get("share") or 0.0)
    return {"share": share, "plies": int(opening.get("plies") or 1)}


def _ratings(run: Path) -> dict[str, float]:
    """Return the newest rating of each competitor of a run, its mu."""
    rows = query(run, "SELECT competitor, max_by(mu, seq) AS mu FROM ratings GROUP BY competitor")
    return dict(zip(rows["competitor"].to_pylist(), rows["mu"].to_pylist(), strict=True))


# ---------------------------------------------------------------------- games of OpenSpiel


class Line(NamedTuple):
    """A game as a line of actions of OpenSpiel."""

    where: str  # of the file: "games.txt: game 3"
    actions: Sequence[int]
    players: Sequence[str] = ()  # by seat
    ratings: Sequence[float] = ()  # by seat; NaN: not known
    returns: Sequence[float] | None = None  # None: those of the game at its end
    start: str | None = None  # position that it begins with, as text; None: that of the game
    goes_beyond: bool = False  # whether it may go on beyond an end that the library sees


def state_games(spaces: Spaces, lines: Iterable[Line]) -> Iterator[Games]:
    """Yield the games of `lines`, a few hundred at a time. Raise Mistake for the first that is none."""
    game = registry.make(spaces.env["id"], 1, **spaces.env["options"])
    numbered = enumerate(lines)
    while chunk := list(itertools.islice(numbered, GAMES)):
        parts = [part for number, line in chunk for part in _play(game, number, line)]
        if not parts:
            continue
        steps = {
            name: np.concatenate([np.asarray(part[name]) for part in parts])
            for name in ("observation", "mask", "action", "reward")
        }
        offset = np.cumsum([0, *(len(part["action"]) for part in parts)])
        columns = {
            name: np.array([part[name] for part in parts], dtype=kind)
            for name, kind in (("player", object), ("rating", np.float32), ("outcome", object))
        }
        score = np.array([part["score"] for part in parts], np.float32)
        match, seat = (np.array([part[name] for part in parts], np.int64) for name in ("match", "seat"))
        yield Games.of(spaces, offset, match, seat, steps, score=score, **columns)


def _play(game: Any, number: int, line: Line) -> list[dict[str, Any]]:
    """Return a part for each seat that decided in a game. Raise Mistake for an action that is not legal."""
    n, actions = game.num_seats, list(line.actions)
    state = game.game.new_initial_state(*(() if line.start is None else (line.start,)))
    pays = game.game.get_type().reward_model.name != "TERMINAL"
    parts = [
        {"match": number, "seat": seat, "observation": [], "mask": [], "action": [], "reward": []}
        for seat in range(n)
    ]
    before, ply = np.zeros(n), 0
    while ply < len(actions):
        seats = range(n) if state.is_simultaneous_node() else [state.current_player()]
        if state.is_terminal():
            if line.goes_beyond:
                break
            raise Mistake(f"{line.where}: over after ply {ply}, and the line goes on with {actions[ply]}")
        taken = actions[ply : ply + len(seats)]
        for seat, action in zip(seats, taken, strict=False):
            legal = [o for o, _ in state.chance_outcomes()] if seat < 0 else state.legal_actions(seat)
            if action not in legal and (legal or len(seats) == 1):
                shown = ", ".join(map(str, legal[:12])) + ", ..." * (len(legal) > 12)
                raise Mistake(
                    f"{line.where}: ply {ply + 1}: action {action} is not legal there, expected one of {shown}"
                )
            if seat >= 0 and legal:
                own = parts[seat]
                own["observation"].append(game.seen_in(state, seat).copy())
                mask = np.zeros(game.action_specs[0].mask_width, np.bool_)
                mask[legal] = True
                own["mask"].append(mask)
                own["action"].append(action)
                own["reward"].append(0.0)
            ply += 1
        if len(seats) > 1:
            state.apply_actions([*taken, *[0] * (n - len(taken))])
        else:
            state.apply_action(taken[0])
        if pays or state.is_terminal():
            before = _pay(parts, before, np.array(state.returns()))
    if line.returns is not None:
        _pay(parts, before, np.array(line.returns, dtype=np.float64))
        before = np.array(line.returns, dtype=np.float64)
    elif not state.is_terminal():
        raise Mistake(
            f"{line.where}: not over after {len(actions)} actions, expected a whole game, or its returns"
        )
    for seat, own in enumerate(parts):
        others = np.delete(before, seat).max(initial=-np.inf) if n > 1 else 0.0
        word = OUTCOMES[1 - int(np.sign(before[seat] - others))]
        rating = line.ratings[seat] if line.ratings else np.nan
        own |= {"player": line.players[seat] if line.players else "", "rating": rating}
        own |= {"outcome": word, "score": before[seat]}
    return [own for own in parts if own["action"]]


def _pay(parts: list[dict[str, Any]], before: npt.NDArray, returns: npt.NDArray) -> npt.NDArray:
    """Add what each seat gained to its last decision; return what all have now."""
    for own, gained in zip(parts, (returns - before).tolist(), strict=True):
        if own["reward"]:
            own["reward"][-1] += gained
    return returns


def history_lines(path: Path, num_seats: int) -> Iterator[Line]:
    """Yield a game from each line: its actions, or JSON with `history` and what else is known of it.

    JSON may have `returns`, `players` and `ratings`, one for each seat. Raise Mistake for another line.
    """
    for number, text in _texts(path):
        where = f"{path}: line {number}"
        try:
            if text.startswith("{"):
                fields: dict[str, Any] = json.loads(text)
                known = {key: fields.get(key) for key in ("players", "ratings", "returns")}
                if any(value is not None and len(value) != num_seats for value in known.values()):
                    raise ValueError
                actions = [int(action) for action in fields["history"]]
                ratings = [np.nan if r is None else float(r) for r in known["ratings"] or ()]
                returns = None if known["returns"] is None else [float(r) for r in known["returns"]]
                yield Line(where, actions, [str(p) for p in known["players"] or ()], ratings, returns)
                continue
            yield Line(where, [int(each) for each in re.split(r"[\s,;\[\]]+", text) if each])
        except (ValueError, KeyError, TypeError):
            raise Mistake(
                f"{where}: found '{text[:_SHOWN]}', expected the actions of a game, such as 3, 2, 4, or "
                f'{{"history": [3, 2, 4], "returns": [...], "players": [...], "ratings": [...]}} with '
                f"{num_seats} of each"
            ) from None


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from ((number, line.strip()) for number, line in enumerate(file, 1) if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise Mistake(f"{path}: cannot be read ({said}), expected games as text in UTF-8") from None


# ---------------------------------------------------------------------- PGN of chess


def pgn_lines(path: Path, spaces: Spaces) -> Iterator[Line]:
    """Yield the games of a PGN that have a result, as actions of `openspiel:chess`.

    Raise Mistake for a file that is no PGN, for a move that is not legal, and without python-chess.
    """
    try:
        import chess.pgn
    except ImportError:
        raise Mistake(
            f"{path}: PGN needs python-chess, expected: pip install 'checkpoint-league[chess]'"
        ) from None
    game = registry.make(spaces.env["id"], 1, **spaces.env["options"])

    class Strict(chess.pgn.GameBuilder):  # type: ignore[misc, type-arg, unused-ignore]
        def handle_error(self, error: Exception) -> None:
            raise ValueError(f"ply {self.variation_stack[-1].ply() + 1}: {error}")

    found = 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number in itertools.count(1):
                where = f"{path}: game {number}"
                try:
                    read = chess.pgn.read_game(file, Visitor=Strict)
                except ValueError as error:
                    raise Mistake(f"{where}, {error}; expected legal moves") from None
                if read is None:
                    break
                moves, tags = list(read.mainline_moves()), read.headers
                if tags.get("Result") not in _WHITE or not moves:
                    continue
                found += 1
                yield _chess_line(where, game.game, read.board().fen(), moves, tags)
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{path}: cannot be read ({error}), expected a PGN in UTF-8") from None
    if not found:
        raise Mistake(f"{path}: found no game with moves and a result, expected a PGN of whole games")


def _chess_line(where: str, game: Any, fen: str, moves: Sequence[Any], tags: Mapping[str, str]) -> Line:
    """Return a game of chess that python-chess has read as actions of OpenSpiel."""
    state, actions = game.new_initial_state(fen), list[int]()
    white = state.current_player() if " w " in fen else 1 - state.current_player()
    for move in moves:
        if state.is_terminal():
            break
        actions.append(state.parse_move_to_action(move.uci()))
        state.apply_action(actions[-1])
    colours = ("White", "Black") if white == 0 else ("Black", "White")
    elo = [tags.get(f"{colour}Elo", "") for colour in colours]
    sign = 1.0 if white == 0 else -1.0
    gained = sign * _WHITE[tags["Result"]]
    return Line(
        where,
        actions,
        [tags.get(colour, "") for colour in colours],
        [float(each) if each.isdigit() else np.nan for each in elo],
        (gained, -gained),
        fen,
        goes_beyond=True,
    )


# ---------------------------------------------------------------------- Parquet files of others


def table_games(path: Path, spaces: Spaces) -> Iterator[Games]:
    """Yield the games of a Parquet file of others: a row for each decision, those of a match together.

    It has the columns match, observation and action, and as far as they are known seat, mask, reward, outcome
    (a word, or what the seat got), score, player and rating. Raise Mistake for the first row that does not
    fit.
    """
    file = pq.ParquetFile(path)
    for name in ("match", "observation", "action"):
        if name not in file.schema_arrow.names:
            raise Mistake(
                f"{path}: found columns {', '.join(file.schema_arrow.names)}, expected match, observation and "
                "action, and as far as they are known seat, mask, reward, outcome, score, player, rating"
            )
    rest, first = file.schema_arrow.empty_table(), 0
    for batch in file.iter_batches(ROWS):
        rows = pa.concat_tables([rest, pa.Table.from_batches([batch])])
        match = rows["match"].to_numpy()
        for row in np.flatnonzero(np.diff(match) < 0)[:1]:
            raise Mistake(
                f"{path}: row {first + row + 1}: match {match[row + 1]} comes after match {match[row]}, "
                "expected rows that are sorted by match"
            )
        whole = int(np.searchsorted(match, match[-1]))  # the last match may go on
        if whole:
            yield _of_table(path, first, rows.slice(0, whole), spaces)
        rest, first = rows.slice(whole), first + whole
    if len(rest):
        yield _of_table(path, first, rest, spaces)


def _of_table(path: Path, first: int, table: pa.Table, spaces: Spaces) -> Games:
    """Return the games of these rows, whose first one is row `first` of the file."""
    n, names = len(table), table.column_names

    def fail(row: int, found: str, expected: str) -> Mistake:
        where = f"{path}: row {first + row} (match {table['match'][row].as_py()})"
        return Mistake(f"{where}: {found}, expected {expected}")

    def numbers(name: str, width: int, dtype: npt.DTypeLike) -> npt.NDArray:
        column = table[name].combine_chunks()
        depth = 0
        while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
            column, depth = column.flatten(), depth + 1
        if len(column) != n * width:
            lengths = [np.size(np.array(row)) for row in table[name].slice(0, 1).to_pylist()]
            raise fail(0, f"{name} has {lengths[0]} numbers", f"{width}, as in '{spaces.env['id']}'")
        try:
            return column.to_numpy(zero_copy_only=False).astype(dtype).reshape(n, width)
        except (ValueError, TypeError):
            raise fail(0, f"{name} is {column.type}", f"numbers of {np.dtype(dtype)}") from None

    def known(name: str, dtype: Any, default: Any) -> npt.NDArray:
        if name not in names:
            return np.full(n, default, dtype=dtype)
        found = [default if value is None else value for value in table[name].to_pylist()]
        return np.array(found, dtype=dtype)

    action = spaces.action
    steps = {
        "observation": numbers("observation", spaces.observation.size, spaces.observation.dtype),
        "mask": numbers("mask", action.mask_width, np.bool_)
        if "mask" in names
        else np.ones((n, action.mask_width), np.bool_),
        "action": numbers("action", action.width if action.low else max(1, len(action.sizes)), action.dtype),
    }
    taken = steps["action"].reshape(n, *action.shape)
    legal = is_legal(action, steps["mask"], taken)
    if not legal.all():
        row = int(np.argmin(legal))
        raise fail(row, f"action {taken[row].tolist()} is not legal", "one that its mask allows")
    match, seat = table["match"].to_numpy().astype(np.int64), known("seat", np.int64, 0)
    outcome = known("outcome", object, "")
    got = np.array([value if isinstance(value, int | float) else np.nan for value in outcome], np.float32)
    got = np.where(np.isnan(got), [_GOT.get(value, np.nan) for value in outcome], got)
    score = np.where(np.isnan(own := known("score", np.float32, np.nan)), got, own)
    words = np.array(
        [value if value in OUTCOMES else _word(value) for value in outcome.tolist()], dtype=object
    )
    order = np.lexsort((seat, match))
    key = match[order] * 128 + seat[order]
    starts = np.flatnonzero(np.diff(key, prepend=key[0] - 1) != 0)
    offset = np.append(starts, n)
    head = order[starts]
    reward = known("reward", np.float32, 0.0)[order]
    if "reward" not in names:
        reward[offset[1:] - 1] = np.nan_to_num(score[head])
    ordered = {name: values[order] for name, values in steps.items()}
    return Games.of(
        spaces, offset, match[head], seat[head], ordered | {"reward": reward},
        player=known("player", object, "")[head],
        rating=known("rating", np.float32, np.nan)[head],
        outcome=words[head],
        score=score[head].astype(np.float32),
    )  # fmt: skip


_GOT = {"win": 1.0, "draw": 0.0, "loss": -1.0, "forfeit": -1.0}


def _word(outcome: Any) -> str:
    """Return the outcome as a word; "" if it is not known."""
    if not isinstance(outcome, int | float) or np.isnan(outcome):
        return ""
    return OUTCOMES[1 - int(np.sign(outcome))]


# ---------------------------------------------------------------------- any of them


def games_of(
    source: Path, env: tuple[str, Mapping[str, Any]] | None, where: str | None = None
) -> tuple[Spaces, Iterator[Games]]:
    """Return the games in a run folder, a PGN, a file of histories or a Parquet file of others.

    `env`: id and options of their game; a run knows its own. `where`: of a run, see `recorded_games`.
    """
    if source.is_dir():
        return recorded_games(source, where)
    kind = source.suffix.lower()
    if where is not None:
        raise Mistake(f"--where: found it beside {source}, expected a run whose matches it selects")
    if kind not in (".pgn", ".txt", ".jsonl", ".parquet"):
        raise Mistake(
            f"{source}: expected a run folder, or a file of games: .parquet, .pgn, or histories of OpenSpiel "
            "(.txt, .jsonl)"
        )
    if not source.is_file():
        raise Mistake(f"{source}: is not there, expected games: a file, or a run folder")
    if env is None:
        if kind != ".pgn":
            raise Mistake(f"{source}: does not say of which game it is, expected --env ID beside it")
        env = (f"openspiel:{CHESS}", {})
    spaces = Spaces.of(*env)
    if kind == ".parquet":
        return spaces, table_games(source, spaces)
    if kind == ".pgn" and spaces.env["id"].partition("(")[0] != f"openspiel:{CHESS}":
        raise Mistake(f"{source}: found a PGN for '{spaces.env['id']}', expected env 'openspiel:{CHESS}'")
    if not spaces.env["id"].startswith("openspiel:"):
        raise Mistake(
            f"{source}: found histories for '{spaces.env['id']}', expected a game of OpenSpiel (openspiel:...)"
        )
    if kind == ".pgn":
        return spaces, state_games(spaces, pgn_lines(source, spaces))
    seats = registry.make(spaces.env["id"], 1, **spaces.env["options"]).num_seats
    return spaces, state_games(spaces, history_lines(source, seats))
