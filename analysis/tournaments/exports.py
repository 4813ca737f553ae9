"""Tables of a tournament as files for other programs, and its matches as records.

export(verdict(run).table, Path("table.csv"))
export(match_records(run), Path("matches.parquet"))
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.statistics.games import games_per_pair
from analysis.tournaments.tournament import tournament_results
from storage import run_folder
from storage.disk import write_whole
from storage.errors import Mistake
from storage.records import ResultBatch
from storage.tables.columns import OUTCOMES, REASONS

_POINTS = ("1", "1/2", "0", "0")  # by Outcome


def check_path(path: Path) -> None:
    """Raise Mistake for an unknown ending, for a folder, and for a file in a folder that does not exist."""
    if path.suffix.lower() not in _WRITERS:
        raise Mistake(f"{path}: ends with '{path.suffix}', expected one of: {', '.join(_WRITERS)}")
    if not path.parent.is_dir():
        raise Mistake(f"{path}: there is no folder {path.parent}; make it, or choose another")
    if path.is_dir():
        raise Mistake(f"{path}: found a folder, expected a file, new or to be replaced; choose another name")


def export(frame: pd.DataFrame, path: Path) -> None:
    """Write `frame` to `path`, whole or not at all, in the format of its ending.

    Endings are .csv, .parquet and .json (a list of objects). Lists are JSON text in CSV. JSON has no infinity
    and no NaN: they are null. Raise Mistake as `check_path` does, DiskFailed.
    """
    check_path(path)
    write_whole(path, [_WRITERS[path.suffix.lower()](frame)])


def match_records(run: str | Path) -> pd.DataFrame:
    """Return one row per match of the tournament in `run`, in the order of recording.

    Columns: match_id, pair, seed (the same for all games of a pair), env; competitor_0, outcome_0, score_0,
    rank_0 and so on of each seat (rank 0 is best, as in the table `seats`); result (of two teams `1-0`,
    `0-1`, `1/2-1/2` or, when both forfeit, `0-0`; of more the place of each, 1 is best, as `1-3-2-2`); reason
    (how it ended); env_steps (decisions of all seats); started_at (UTC), seconds; moves (actions in order of
    time, then of seats, openings included; `None` where they were not recorded).

    These are the facts: the tournament's rules may count a match differently. Raise NotARun, CorruptLedger.
    """
    parts = [_records(batch) for batch in tournament_results(run_folder(run), moves=True)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"match_id": np.zeros(0, int)})


def _records(batch: ResultBatch) -> pd.DataFrame:
    matches = batch.matches
    teams = matches.team_of_seat or range(matches.num_seats)
    _, first = np.unique(teams, return_index=True)  # seat of each team
    names = np.array(matches.competitors, dtype=object)
    columns: dict[str, object] = {
        "match_id": matches.match_id,
        "pair": matches.match_id // games_per_pair(len(first)),
        "seed": matches.seed,
        "env": matches.env,
    }
    for seat in range(matches.num_seats):
        columns[f"competitor_{seat}"] = names[matches.seat[:, seat]]
        columns[f"outcome_{seat}"] = np.array(OUTCOMES, dtype=object)[batch.outcome[:, seat]]
        columns[f"score_{seat}"] = batch.score[:, seat]
        columns[f"rank_{seat}"] = batch.rank[:, seat]
    if len(first) == 2:
        shown = [[_POINTS[o] for o in row] for row in batch.outcome[:, first]]
    else:
        shown = [[str(rank + 1) for rank in row] for row in batch.rank[:, first]]
    moves: list[list[float] | None] = [None] * len(batch)
    if recorded := batch.recordings:
        for i, row in enumerate(recorded.row.tolist()):
            moves[row] = recorded.action[recorded.offset[i] : recorded.offset[i + 1]].tolist()
    columns |= {
        "result": ["-".join(row) for row in shown],
        "reason": np.array(REASONS, dtype=object)[batch.reason],
        "env_steps": batch.env_steps,
        "started_at": pd.to_datetime(np.rint(batch.started_at * 1e6), unit="us"),
        "seconds": batch.seconds,
        "moves": pd.Series(moves, dtype=object),
    }
    return pd.DataFrame(columns)


def _csv(frame: pd.DataFrame) -> bytes:
    """Return CSV with lists as JSON text, since a cell is one value."""
    flat = frame.copy()
    for name, column in flat.items():
        if any(isinstance(value, list) for value in column):
            flat[name] = [json.dumps(value) if isinstance(value, list) else value for value in column]
    return flat.to_csv(index=False).encode()


def _json(frame: pd.DataFrame) -> bytes:
    return frame.to_json(orient="records", date_format="iso", date_unit="us", double_precision=15).encode()


_WRITERS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    ".csv": _csv,
    ".parquet": lambda frame: frame.to_parquet(index=False, engine="pyarrow", compression="snappy"),
    ".json": _json,
}
