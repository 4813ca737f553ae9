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
import pyarrow.parquet as pq

from league.envs.base import is_legal
from league.teaching.games import OUTCOMES, Games, Spaces, episodes_of
from league.teaching.played import recorded_games
from league.teaching.states import CHESS, history_lines, pgn_lines, state_games
from storage.errors import Mistake

KINDS = (".parquet", ".pgn", ".txt")
ROWS = 2**16  # at a time
NEEDED = ("match", "observation", "action")
KNOWN = ("seat", "mask", "reward", "outcome", "score", "player", "rating")
_GOT = {"win": 1.0, "draw": 0.0, "loss": -1.0, "forfeit": -1.0}


def games_of(
    source: Path, env: tuple[str, Mapping[str, Any]] | None, where: str | None = None
) -> tuple[Spaces, Iterator[Games]]:
    """Return the games of a source, which is a run folder or a file of one of KINDS.

    `env`: id and options of their game; a run knows its own. `where`: of a run, see `recorded_games`. Raise
    Mistake for a source that is no such thing, or of another game.
    """
    if source.is_dir():
        return recorded_games(source, where)
    kind = source.suffix.lower()
    if not source.is_file() or kind not in KINDS:
        found = "a file of another kind" if source.is_file() else "nothing there"
        raise Mistake(
            f"{source}: found {found}, expected a run folder or a file of games: .parquet, .pgn, or .txt "
            "with a history of OpenSpiel in each line"
        )
    if where is not None:
        raise Mistake(f"--where: found it beside {source}, expected a run whose matches it selects")
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


def table_games(path: Path, spaces: Spaces) -> Iterator[Games]:
    """Yield the games of a Parquet file with the columns NEEDED, and those KNOWN that are there.

    Rows are sorted by match, those of a seat in order of time. `outcome` is a word, or what the seat got.
    Raise Mistake for the first row that does not fit.
    """
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names
    if missing := [name for name in NEEDED if name not in names]:
        raise Mistake(
            f"{path}: found no column {missing[0]} among {', '.join(names)}; expected {', '.join(NEEDED)}, "
            f"and as far as they are known {', '.join(KNOWN)}"
        )
    columns = [name for name in names if name in (*NEEDED, *KNOWN)]
    rest, first = file.schema_arrow.empty_table().select(columns), 0
    for batch in file.iter_batches(ROWS, columns=columns):
        rows = pa.concat_tables([rest, pa.Table.from_batches([batch])])
        match = rows["match"].to_numpy()
        for row in np.flatnonzero(np.diff(match) < 0)[:1]:
            raise Mistake(
                f"{path}: row {first + row + 1}: match {match[row + 1]} comes after match {match[row]}, "
                "expected rows that are sorted by match"
            )
        whole = int(np.searchsorted(match, match[-1]))  # the last match may go on
        if whole:
            yield _games(path, first, rows.slice(0, whole), spaces)
        rest, first = rows.slice(whole), first + whole
    if len(rest):
        yield _games(path, first, rest, spaces)


def _games(path: Path, first: int, rows: pa.Table, spaces: Spaces) -> Games:
    """Return the games of these rows, whose first one is row `first` of the file."""
    n, action = len(rows), spaces.action
    known = rows.select([name for name in rows.column_names if name not in ("observation", "mask", "action")])
    frame = known.to_pandas().reindex(columns=["match", *KNOWN])
    frame["seat"] = frame["seat"].fillna(0).astype(np.int64)

    def numbers(name: str, width: int, dtype: npt.DTypeLike) -> npt.NDArray:
        column: Any = rows[name].combine_chunks()
        while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
            column = column.flatten()
        if len(column) != n * width or not pa.types.is_primitive(column.type):
            raise Mistake(
                f"{path}: row {first}: found {name} of {len(column) / n:g} numbers ({column.type}), expected "
                f"{width} as in '{spaces.env['id']}'"
            )
        return column.to_numpy(zero_copy_only=False).astype(dtype).reshape(n, width)

    mask = np.ones((n, action.mask_width), np.bool_)
    if "mask" in rows.column_names:
        mask = numbers("mask", action.mask_width, np.bool_)
    taken = numbers("action", max(1, len(action.sizes) + len(action.low)), action.dtype)
    for row in np.flatnonzero(~is_legal(action, mask, taken.reshape(n, *action.shape)))[:1]:
        raise Mistake(
            f"{path}: row {first + row}, match {frame['match'][row]}: action {taken[row].tolist()} is not "
            "legal, expected one that its mask allows"
        )
    got = pd.to_numeric(frame["outcome"].map(lambda each: _GOT.get(each, each)), errors="coerce")
    score = frame["score"].fillna(got).to_numpy(np.float32, na_value=np.nan)
    words = got.map(lambda each: "" if np.isnan(each) else OUTCOMES[1 - int(np.sign(each))])
    order = np.lexsort((frame["seat"], frame["match"]))
    match, seat = (frame[name].to_numpy()[order] for name in ("match", "seat"))
    starts = np.flatnonzero((np.diff(match, prepend=match[0] - 1) != 0) | (np.diff(seat, prepend=-1) != 0))
    offset, head = np.append(starts, n), order[starts]
    reward = frame["reward"].fillna(0.0).to_numpy(np.float32)[order]
    if "reward" not in rows.column_names:
        reward[offset[1:] - 1] = np.nan_to_num(score[head])
    steps = {"observation": numbers("observation", spaces.observation.size, spaces.observation.dtype)}
    steps = {name: each[order] for name, each in {**steps, "mask": mask, "action": taken}.items()}
    return Games(
        episodes_of(spaces, offset, match[starts], seat[starts], steps | {"reward": reward}),
        player=frame["player"].fillna("").astype(str).to_numpy(object)[head],
        rating=frame["rating"].to_numpy(np.float32, na_value=np.nan)[head],
        outcome=frame["outcome"].where(frame["outcome"].isin(OUTCOMES), words).to_numpy(object)[head],
        score=score[head],
    )
