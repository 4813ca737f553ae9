"""Games against a fixed opponent: the competitor in each team in turn, the opponent in all others."""

from __future__ import annotations

import numpy as np

from league.competitors.modes import mode_of
from league.rollout.requests import PlayRequest, Source
from league.rollout.snapshots import SnapshotSource
from league.rules.matchmaking.seating import match_seeds
from storage.arrays import Indices
from storage.records import MatchBatch, Purpose

STREAM = 7  # of seeds, apart from those of training


def request_of(
    env_id: str, team_of_seat: Indices, competitor: Source, opponent: Source, games: int, seed: int
) -> tuple[PlayRequest, int]:
    """Return a request for at least `games` matches, and the number of seeds in it.

    `team_of_seat` [S]: the team of each seat. Each seed is played once for each team T. All randomness comes
    from `seed`: every competitor meets the same deals.
    """
    teams = int(team_of_seat[-1]) + 1
    seeds = -(-games // teams)
    stream = int(np.random.SeedSequence([seed, STREAM]).generate_state(1, np.uint64)[0] >> 1)
    seat = 1 - np.eye(teams, dtype=np.int32)[:, team_of_seat]  # 0: the competitor, 1: the opponent
    alone = teams == len(team_of_seat)
    matches = MatchBatch(
        env=env_id,
        purpose=Purpose.EVALUATION,
        match_types=("yardstick",),
        competitors=("competitor", "opponent"),
        match_id=np.arange(seeds * teams, dtype=np.int64),
        seed=np.repeat(match_seeds(stream, np.arange(seeds)), teams),
        match_type=np.zeros(seeds * teams, dtype=np.int16),
        seat=np.tile(seat, (seeds, 1)),
        learning=np.zeros((seeds * teams, len(team_of_seat)), dtype=np.bool_),
        team_of_seat=None if alone else tuple(int(team) for team in team_of_seat),
    )
    return PlayRequest(matches, (competitor, opponent), learners=(), seed=stream), seeds


def mode_of_source(source: Source) -> str:
    """Return the mode in which a competitor plays."""
    return mode_of(source.temperature) if isinstance(source, SnapshotSource) else mode_of(1.0)
