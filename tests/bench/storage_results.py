"""Results as a league makes them, by the hundred thousand; and a disk for what need not be durable."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storage.disk import Disk
from storage.records import RatingChange, ResultBatch
from tests import made_up

ENV = "connect_four"
ROWS = 3  # of a match: one of `matches`, two of `seats`
COMPETITORS = ("main-0", *(f"main-0@{1000 * i}" for i in range(64)))
CHANGES = [RatingChange(name, 25.0, 8.0, 1) for name in COMPETITORS]
OUTCOMES = np.array([[0, 2], [2, 0], [1, 1], [3, 0]], np.int8)  # win, loss, draw, forfeit
CHANCES = (0.5, 0.4, 0.09, 0.01)


class Unsynced(Disk):
    """Syncs nothing: for what no power is cut in, and no time is measured of."""

    def sync(self, handle: int) -> None:
        pass

    def sync_data(self, handle: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


def random_results(
    rng: np.random.Generator, matches: int, competitors: tuple[str, ...], first_match_id: int = 0
) -> ResultBatch:
    """Two-seat matches of the first of `competitors` against the others, seats swapped in half of them."""
    opponents = rng.integers(1, len(competitors), size=matches)
    seat = np.stack([np.zeros(matches, np.int64), opponents], axis=1)
    seat[::2] = seat[::2, ::-1]
    outcome = OUTCOMES[rng.choice(len(OUTCOMES), size=matches, p=CHANCES)]
    drawn = made_up.matches(
        competitors,
        seat,
        env=ENV,
        match_types=("self_play", "pfsp", "forgotten"),
        match_id=first_match_id + np.arange(matches),
        seed=rng.integers(2**63 - 1, size=matches),
        match_type=rng.integers(3, size=matches),
        learning=seat == 0,
    )
    return made_up.results(
        drawn,
        outcome,
        score=np.array([1.0, 0.0, -1.0, -1.0])[outcome],
        env_steps=rng.integers(7, 43, size=matches),
        reason=(outcome == 3).any(axis=1),
        started_at=1.7e9 + 1e-3 * np.arange(matches),
        seconds=rng.random(matches),
    )
