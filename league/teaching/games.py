"""Stored games: a Parquet file with one row for each decision, and its card.

    match, seat      whose decision it is: rows of one match are together, each seat's in order of time
    player, rating   who sat there; NULL: not known
    outcome, score   of that seat in the match: win, draw, loss, forfeit; the sum of its rewards
    reward           rewards of the seat after this decision until its next one
    observation      what the seat saw, as one row of numbers
    mask             the legal actions; no column where actions are real numbers
    action           the action taken: a number, or a list of numbers

A row group holds whole matches, about ROW_GROUP_BYTES of them, so that a learner reads a file of any size
some groups at a time. The card is JSON in the file's metadata.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import blake3
import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from league.envs import chance, registry
from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec, ObservationSpec
from league.episode import Episodes
from storage.arrays import Bools, Floats32, Indices
from storage.disk import whole_by_name
from storage.errors import Mistake
from storage.tables.schema import one_line

CARD = b"league.games"  # key of the metadata
VERSION = 1
ROW_GROUP_BYTES = 2**23  # of observations, masks and actions
BLOCK_BYTES = 2**27  # that a learner reads at a time
OUTCOMES = ("win", "draw", "loss", "forfeit")
COLUMNS = ("match", "seat", "player", "rating", "outcome", "score", "decisions")  # of the table of `where`
_STEPS = ("reward", "observation", "mask", "action")
_VALIDATES = 2**43  # a draw from the number of a match


class Spaces(NamedTuple):
    """What the seats of a game see and do."""

    env: Mapping[str, Any]  # `id` and `options`
    observation: ObservationSpec
    action: ActionSpec

    @staticmethod
    def of(env_id: str, options: Mapping[str, Any], game: BatchedGame | None = None) -> Spaces:
        """Return the spaces of a game. Raise Mistake if its seats differ in them; UnknownEnv, BadOption."""
        game = registry.make(env_id, 1, **options) if game is None else game
        if not game.shared_spaces:
            raise Mistake(
                f"games of '{env_id}': its seats differ in observations or actions, expected a game in which "
                "all seats see and do the same"
            )
        return Spaces(
            {"id": env_id, "options": dict(options)}, game.observation_specs[0], game.action_specs[0]
        )


@dataclass(frozen=True, slots=True)
class Games:
    """Decisions of whole games, and what is known of the seats: an episode for each."""

    episodes: Episodes  # as the game shows and takes it; those of one match are side by side
    player: npt.NDArray[np.object_]  # [E]; "": not known
    rating: Floats32  # [E]; NaN: not known
    outcome: npt.NDArray[np.object_]  # [E], of OUTCOMES; "": not known
    score: Floats32  # [E]; NaN: not known


def episodes_of(
    spaces: Spaces, offset: Indices, match: Indices, seat: npt.NDArray, steps: Mapping[str, npt.NDArray]
) -> Episodes:
    """Return E episodes: `offset` [E + 1], `match`, `seat` [E]; `steps` by column, [N, ...]."""
    n = int(offset[-1])
    observation = steps["observation"].reshape(n, *spaces.observation.shape)
    return Episodes(
        player="",
        offset=offset,
        match_id=match,
        seat=seat.astype(np.int8),
        version=np.zeros(len(match), np.int64),
        terminated=np.ones(len(match), np.bool_),
        observation=observation,
        mask=steps["mask"].reshape(n, spaces.action.mask_width),
        action=steps["action"].reshape(n, *spaces.action.shape).astype(spaces.action.dtype, copy=False),
        log_prob=np.zeros(n, np.float32),
        reward=steps["reward"].astype(np.float32, copy=False),
        bootstrap=observation[:0],
    )


def write_games(
    path: Path, spaces: Spaces, chunks: Iterable[Games], source: str, most: int | None = None
) -> dict[str, Any]:
    """Write games to the new file `path`, whole or not at all; return its card.

    `source`: where they come from, for the card. `most`: of the matches, the first ones. Raise Mistake if
    the file exists, or if there is not one game.
    """
    if path.exists():
        raise Mistake(f"{path}: exists, expected the name of a new file of games")
    if not path.absolute().parent.is_dir():
        raise Mistake(f"{path}: there is no folder {path.parent}, expected one to write a file of games to")
    tally = _Tally(spaces, source)
    schema = _schema(spaces)
    with whole_by_name(path) as fresh, pq.ParquetWriter(fresh, schema, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for games in chunks:
            left = None if most is None else most - tally.games
            waiting.append(tally.count(games, schema, left))
            if sum(table.nbytes for table in waiting) >= ROW_GROUP_BYTES:
                _write(writer, waiting)
                waiting = []
            if most is not None and tally.games >= most:
                break
        _write(writer, waiting)
        if not tally.games:
            raise Mistake(f"{source}: found no game, expected one or more")
        card = tally.card()
        writer.add_key_value_metadata({CARD.decode(): json.dumps(card)})
    return card


def _write(writer: pq.ParquetWriter, tables: list[pa.Table]) -> None:
    if tables and sum(map(len, tables)):
        table = pa.concat_tables(tables).combine_chunks()
        writer.write_table(table, row_group_size=len(table))


def _schema(spaces: Spaces) -> pa.Schema:
    def numbers(dtype: npt.DTypeLike, size: int) -> pa.DataType:
        return pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), size)

    action, width = spaces.action, math.prod(spaces.action.shape)
    columns = {
        "match": pa.int64(),
        "seat": pa.int8(),
        "player": pa.dictionary(pa.int32(), pa.string()),
        "rating": pa.float32(),
        "outcome": pa.dictionary(pa.int32(), pa.string()),
        "score": pa.float32(),
        "reward": pa.float32(),
        "observation": numbers(spaces.observation.dtype, spaces.observation.size),
    }
    if action.mask_width:
        columns["mask"] = numbers(np.bool_, action.mask_width)
    columns["action"] = numbers(action.dtype, width) if action.shape else pa.int32()
    return pa.schema(list(columns.items()))


class _Tally:
    """Counts of what is written, for the card."""

    def __init__(self, spaces: Spaces, source: str) -> None:
        self._spaces, self._source = spaces, source
        self.games = self._decisions = 0
        self._players: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._hash = blake3.blake3()

    def count(self, games: Games, schema: pa.Schema, most: int | None) -> pa.Table:
        """Return the rows of the first `most` of these games, with matches numbered on."""
        episodes = games.episodes
        # matches that are side by side, whatever their numbers
        match = np.cumsum(np.diff(episodes.match_id, prepend=episodes.match_id[:1] - 1) != 0) - 1
        kept = np.flatnonzero(match < (len(match) if most is None else most))
        if len(kept) < len(match):
            episodes, match = episodes.take(kept), match[kept]
        player, outcome = games.player[kept], games.outcome[kept]
        length = np.diff(episodes.offset)
        for name, steps in zip(player.tolist(), length.tolist(), strict=True):
            self._players[name] += steps
        self._outcomes.update(outcome.tolist())
        self._decisions += episodes.num_steps
        row = pa.array(np.repeat(np.arange(len(length)), length))
        columns: dict[str, Any] = {
            "match": np.repeat(match + self.games, length),
            "seat": np.repeat(episodes.seat, length),
            "reward": episodes.reward,
        }
        self.games += int(match[-1]) + 1 if len(match) else 0
        for name, texts in (("player", player), ("outcome", outcome)):
            known = pa.array([text or None for text in texts.tolist()], pa.string())
            columns[name] = known.dictionary_encode().take(row)
        for name, numbers in (("rating", games.rating), ("score", games.score)):
            columns[name] = pa.array(numbers[kept], pa.float32(), from_pandas=True).take(row)
        for name in ("observation", "mask", "action"):
            if name in schema.names:
                columns[name] = _listed(getattr(episodes, name), schema.field(name).type)
        for array in (columns["match"], episodes.observation, episodes.action, episodes.reward):
            self._hash.update(np.ascontiguousarray(array).tobytes())
        return pa.table(columns, schema=schema)

    def card(self) -> dict[str, Any]:
        """Return the card."""
        spaces = self._spaces
        return {
            "version": VERSION,
            "env": dict(spaces.env),
            "observation": asdict(spaces.observation),
            "actions": spaces.action.to_json(),
            "games": self.games,
            "decisions": self._decisions,
            "players": {name or "(not known)": steps for name, steps in self._players.most_common()},
            "outcomes": {name or "(not known)": seats for name, seats in self._outcomes.most_common()},
            "columns": [field.name for field in _schema(spaces)],
            "source": self._source,
            "hash": self._hash.hexdigest(),
        }


def _listed(values: npt.NDArray, kind: pa.DataType) -> pa.Array:
    """Return rows of numbers as a column: lists of a fixed size, or numbers."""
    if not pa.types.is_fixed_size_list(kind):
        return pa.array(values, kind)
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), kind.value_type)
    return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)


class GamesFile:
    """A file of games in our form, for a learner."""

    def __init__(self, path: Path) -> None:
        """Read its card. Raise Mistake for another file."""
        self.path = path
        card = card_of(path)
        if card is None:
            raise Mistake(
                f"{path}: has no card of games, expected a file made by: league games ... --to FILE"
            )
        self.card = card
        self.spaces = Spaces(
            card["env"], ObservationSpec.from_json(card["observation"]), ActionSpec.from_json(card["actions"])
        )
        with readable(path):
            self._file = pq.ParquetFile(path)
            self._seats, self._group = self._read_seats()
        self._match = self._seats["match"].to_numpy()
        self._decisions = self._seats["decisions"].to_numpy()
        self._chosen = np.ones(len(self._match), np.bool_)
        self._validates = np.zeros_like(self._chosen)

    def _read_seats(self) -> tuple[pa.Table, Indices]:
        """Return a row of COLUMNS for each seat of each match, and the row group that it is in."""
        tables, group = [], []
        for g in range(self._file.num_row_groups):
            rows = self._file.read_row_group(g, columns=list(COLUMNS[:-1]))
            match, seat = rows["match"].to_numpy(), rows["seat"].to_numpy()
            starts = np.flatnonzero(np.diff(match * 128 + seat, prepend=-1) != 0)
            decisions = np.diff(np.append(starts, len(match)))
            tables.append(rows.take(pa.array(starts)).append_column("decisions", pa.array(decisions)))
            group.append(np.full(len(starts), g))
        return pa.concat_tables(tables).unify_dictionaries(), np.concatenate(group)

    def choose(self, where: str | None, validation: float, seed: int) -> None:
        """Choose seats by an SQL condition on COLUMNS, and about a share of all matches to validate by.

        Raise Mistake for a condition that DuckDB refuses, or if no match is left to learn from, or to
        validate by.
        """
        if where is not None:
            self._chosen = self._where(where)
        self._validates = chance.bits(self._match, _VALIDATES + seed) / 2.0**64 < validation
        for kind, part in (("learn from", ~self._validates), ("validate by", self._validates)):
            if not (self._chosen & part).any():
                which = "" if where is None else f" where {where}"
                raise Mistake(
                    f"{self.path}: of {self.card['games']:,} games none{which} is left to {kind}, expected "
                    "more games, a wider --where, or another --validation"
                )

    def _where(self, where: str) -> Bools:
        with contextlib.closing(duckdb.connect()) as connection:
            connection.execute("SET enable_external_access = false; SET lock_configuration = true")
            table = self._seats.append_column("number_of_row", pa.array(np.arange(len(self._seats))))
            connection.register("games", table)
            try:
                found = connection.execute(f"SELECT number_of_row FROM games WHERE ({where}\n)").fetchnumpy()
            except duckdb.Error as error:
                raise Mistake(
                    f"--where {where}: {one_line(error)[:160]}; expected a condition on "
                    f"{', '.join(COLUMNS)}, such as \"outcome = 'win'\""
                ) from None
        return np.isin(np.arange(len(self._seats)), found["number_of_row"])

    def count(self, validates: bool) -> tuple[int, int]:
        """Return the games and the decisions to validate by, or to learn from."""
        part = self._chosen & (self._validates == validates)
        return len(np.unique(self._match[part])), int(self._decisions[part].sum())

    def blocks(
        self, validates: bool, rng: np.random.Generator | None = None, steps: int = 0
    ) -> Iterator[Episodes]:
        """Yield the chosen games, read some row groups at a time, in order or in the order that `rng` draws.

        Blocks have `steps` decisions, about, but for the last ones, as far as BLOCK_BYTES allow.
        """
        part = self._chosen & (self._validates == validates)
        groups = np.unique(self._group[part])
        order = groups if rng is None else rng.permutation(groups)
        waiting: list[Episodes] = []
        for number, group in enumerate(order.tolist(), 1):
            own = self._group == group
            waiting.append(self._read(group, self._decisions[own], np.flatnonzero(part[own])))
            size = sum(each.observation.nbytes + each.mask.nbytes for each in waiting)
            full = sum(each.num_steps for each in waiting) >= steps > 0 or size >= BLOCK_BYTES
            if full or number == len(order):
                read = Episodes.concatenate(waiting)
                waiting = []
                rows = np.arange(len(read)) if rng is None else rng.permutation(len(read))
                length = np.diff(read.offset)[rows]
                block = (np.cumsum(length) - length) // (steps or read.num_steps)
                for cut in np.split(rows, np.flatnonzero(np.diff(block)) + 1):
                    yield read.take(cut)

    def _read(self, group: int, decisions: Indices, chosen: Indices) -> Episodes:
        """Return the episodes `chosen` of a row group whose seats have so many `decisions` each."""
        with readable(self.path):
            rows = self._file.read_row_group(group, columns=["match", "seat", *_STEPS])
        steps = {"mask": np.zeros(0, np.bool_)}
        for name in _STEPS:
            if name in rows.column_names:
                column = rows[name].combine_chunks()
                flat = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
                steps[name] = flat.to_numpy(zero_copy_only=False)
        offset = np.concatenate([[0], np.cumsum(decisions)]).astype(np.int64)
        match, seat = (rows[name].to_numpy()[offset[:-1]] for name in ("match", "seat"))
        return episodes_of(self.spaces, offset, match, seat, steps).take(chosen)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise Mistake in the block for a file that is missing, damaged, or no Parquet."""
    try:
        yield
    except FileNotFoundError:
        raise Mistake(f"{path}: is not there, expected games: a file, or a run folder") from None
    except (OSError, pa.ArrowException) as error:
        said = " ".join(str(error).split())[:160]
        raise Mistake(f"{path}: cannot be read: {said}; expected a Parquet file of games") from None


def card_of(path: Path) -> dict[str, Any] | None:
    """Return the card of a Parquet file of games; `None` if it has none. Raise Mistake for another file."""
    with readable(path):
        metadata = pq.read_schema(path).metadata or {}
        metadata = {**metadata, **(pq.read_metadata(path).metadata or {})}
    if CARD not in metadata:
        return None
    try:
        card = json.loads(metadata[CARD])
        version = card["version"]
    except (ValueError, KeyError, TypeError):
        raise Mistake(f"{path}: its card cannot be read, expected a file made by: league games") from None
    if version != VERSION:
        raise Mistake(f"{path}: games of version {version!r}, this package reads version {VERSION}")
    return card
