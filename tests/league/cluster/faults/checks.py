"""What must hold of a run that was trained in a cluster whose processes died."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import storage
from league.config.loading import load
from league.training.state.state import LeagueState
from storage.archive import open_reader
from storage.layout import CONFIG, LEDGER
from storage.ledger.ledger import read_frames
from storage.records import RatingChange
from storage.remote.restore import restore
from storage.tables import columns
from storage.tables.columns import competitors_of
from storage.upkeep.verification import verify_snapshots

NUMBERED = ("matches", "decisions", "updates")


def check(run: Path, seen: dict[int, bytes], blind_lives: int, remote: str | None) -> dict[str, int]:
    """Raise AssertionError unless everything seen is there, once and whole. Return what was counted.

    `seen`: batch ids of the frames that were read while the run trained; `blind_lives`: how often a node
    that does not see the run has begun.
    """
    frames = list(read_frames(run / LEDGER))
    assert [frame.sequence for frame in frames] == list(range(1, len(frames) + 1))
    there = {frame.sequence: frame.batch_id for frame in frames}
    lost = [sequence for sequence, batch_id in seen.items() if there.get(sequence) != batch_id]
    assert not lost, f"frames were acknowledged and are lost or changed: {lost[:5]}"
    tables = {name: [frame.tables[name] for frame in frames if name in frame.tables] for name in NUMBERED}
    numbers = sorted(seq for rows in tables.values() for table in rows for seq in table["seq"].to_pylist())
    assert numbers == list(range(1, len(numbers) + 1)), "rows are missing or there twice"
    ids = [match for table in tables["matches"] for match in table["match_id"].to_pylist()]
    assert len(set(ids)) == len(ids), "matches are there twice"
    _check_ratings(run, frames)
    reader = open_reader(run)
    snapshots = [snapshot.snapshot_id for snapshot in reader.snapshots()]
    assert len(set(snapshots)) == len(snapshots)
    assert verify_snapshots(reader) == []
    counted = storage.query(run, "SELECT count(*) AS n FROM matches")["n"][0].as_py()
    assert counted == len(ids), "the index has other matches than the ledger"
    fetched = _fetched(run)
    assert fetched <= blind_lives * len(snapshots), "some node fetched a snapshot twice"
    if remote is not None:
        copy = run.with_name("copy")
        restore(remote, copy)
        assert {f.sequence: f.batch_id for f in read_frames(copy / LEDGER)} == there
    return {"matches": len(ids), "snapshots": len(snapshots), "fetched": fetched, "frames": len(frames)}


def _check_ratings(run: Path, frames: list) -> None:
    """Compare the rating after each batch of results with that of a state which folds the facts alone."""
    settings = load(yaml.safe_load((run / CONFIG).read_text()))
    teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
    league = settings.league
    state = LeagueState(league.resolve(), settings.ratings, league.decay, teams, settings.payoff_scale)
    last: dict[str, RatingChange] = {}
    for frame in frames:
        for competitor in competitors_of(frame.tables):
            state.apply(competitor)
        if "decisions" in frame.tables:
            for _, decision in columns.decisions_of(frame.tables["decisions"]):
                state.apply(decision)
        if "matches" in frame.tables:
            changes = {change.competitor: change for change in state.apply(columns.results_of(frame.tables))}
            rated = frame.tables.get("ratings")  # none of the round robin, which is for the record
            assert (rated is None) == (not changes)
            for row in [] if rated is None else rated.to_pylist():
                own = changes[row["competitor"]]
                assert (row["mu"], row["sigma"], row["games"]) == (own.mu, own.sigma, own.games)
            last |= changes
    board = {row.competitor: row for row in state.standings.leaderboard()}
    shown = storage.query(run, "SELECT competitor, mu, sigma, games FROM leaderboard").to_pylist()
    assert {row["competitor"] for row in shown} >= set(last)
    for row in shown:
        own = board[row["competitor"]]
        assert row["mu"] == pytest.approx(own.mu)
        assert row["sigma"] == pytest.approx(own.sigma)


def _fetched(run: Path) -> int:
    """Return the number of snapshots that nodes fetched, over all sessions; counters begin anew in each."""
    rows = storage.query(run, "SELECT hits FROM caches WHERE tier = 'remote' ORDER BY seq, recorded_at")
    total = before = 0
    for hits in rows["hits"].to_pylist():
        total += hits if hits < before else hits - before
        before = hits
    return total
