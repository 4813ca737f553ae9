"""Made-up competitors and results."""

from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from league.rules.rating import RatingSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import (
    LEAGUE_EXPLOITER,
    MAIN,
    MAIN_EXPLOITER,
    Bot,
    LivePlayer,
    MatchBatch,
    Outcome,
    Purpose,
    ResultBatch,
    Role,
    Snapshot,
)

MIRRORED = np.array([Outcome.LOSS, Outcome.DRAW, Outcome.WIN, Outcome.WIN], dtype=np.int8)


def snapshot(name: str, player: str = "main-0", role: str = "main", env_steps: int = 0) -> Snapshot:
    return Snapshot(name, player, Role(role), env_steps, 0, None, "", 0, "mlp", 0.0, "made up")


def results(matches: MatchBatch, outcome: np.ndarray, rank: np.ndarray | None = None) -> ResultBatch:
    m = len(matches)
    return ResultBatch(
        matches=matches,
        outcome=outcome.astype(np.int8),
        score=np.zeros(outcome.shape, dtype=np.float32),
        rank=(np.minimum(outcome, 2) // 2 if rank is None else rank).astype(np.int8),
        env_steps=np.full(m, 9, dtype=np.int32),
        reason=np.zeros(m, dtype=np.int8),
        started_at=np.zeros(m),
        seconds=np.ones(m, dtype=np.float32),
    )


def seated(*rows: tuple[str, ...]) -> MatchBatch:
    """A batch with these competitors in these seats."""
    names = sorted({name for row in rows for name in row})
    m = len(rows)
    return MatchBatch(
        env="made-up",
        purpose=Purpose.TRAINING,
        match_types=("pfsp",),
        competitors=tuple(names),
        match_id=np.arange(m, dtype=np.int64),
        seed=np.zeros(m, dtype=np.int64),
        match_type=np.zeros(m, dtype=np.int16),
        seat=np.array([[names.index(name) for name in row] for row in rows], dtype=np.int32),
        learning=np.zeros((m, len(rows[0])), dtype=np.bool_),
    )


def games(*rows: tuple[str, str, Outcome]) -> ResultBatch:
    """Matches of two: home, away, home's outcome (a forfeit gives the other the win)."""
    home = np.array([row[2] for row in rows], dtype=np.int8)
    return results(seated(*[row[:2] for row in rows]), np.stack([home, MIRRORED[home]], axis=1))


def random_games(roster: Roster, n: int, rng: np.random.Generator, outcomes: int = 3) -> ResultBatch:
    names = roster.ids
    pairs = rng.integers(len(names), size=(n, 2))
    drawn = rng.integers(outcomes, size=n)
    return games(*[(names[h], names[a], Outcome(o)) for (h, a), o in zip(pairs, drawn, strict=True)])


def crowd(
    home: str, rates: dict[str, float], *, snapshots: dict[str, int], bots: tuple[str, ...] = ()
) -> SimpleNamespace:
    """Live players (`main-1`, `x-0`, `l-0`: the role is in the name, here) with so many snapshots each,
    rated so that without games `home` beats each of `rates` just as often."""
    role_of = {"main": MAIN, "x": MAIN_EXPLOITER, "l": LEAGUE_EXPLOITER}
    roles = {name: role_of[name.split("-")[0]] for name in snapshots}
    roster = Roster([LivePlayer(name, role) for name, role in roles.items()])
    for i in range(max(snapshots.values())):  # in turn, as they would be frozen
        for name, count in snapshots.items():
            if i < count:
                roster.admit(snapshot(f"{name}@{i}", name, roles[name], i))
    for bot in bots:
        roster.admit(Bot(bot))
    standings = Standings(roster, RatingSettings(draw_probability=0.0), decay=1.0)
    ratings, at = standings.ratings, roster.index(home)
    for name, p in rates.items():
        if name == home:
            continue
        i = roster.index(name)
        c2 = 2.0 * standings.settings.beta**2 + ratings.variance[at] + ratings.variance[i]
        ratings.mu[i] = ratings.mu[at] - np.sqrt(c2) * NormalDist().inv_cdf(p)
    return SimpleNamespace(roster=roster, standings=standings, player=roster[home])


@pytest.fixture
def make() -> SimpleNamespace:
    return SimpleNamespace(
        snapshot=snapshot,
        results=results,
        seated=seated,
        games=games,
        random_games=random_games,
        crowd=crowd,
    )
