"""Evaluation of one stored competitor in a game of any number of seats. Writes nothing.

In a game of several teams an opponent fills all other teams, and each seed is played once from every place
that the competitor can take, so that neither the deal nor the first move favours it. The unit of statistics
is the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from analysis.statistics.elo import elo_from_pairs, score_of_elo, wilson
from league.arena.agreement import seats_of
from league.arena.arena import Arena
from league.arena.matches import drawn_seed, one_against_others, points_of
from league.competitors.names import name_of
from storage.arrays import Floats, Indices
from storage.disk import Progress
from storage.errors import Failure, Mistake
from storage.records import EndReason, Outcome, ResultBatch, by_team

BATCH = 256  # matches at once; another number would give other episodes for the same seed
OPPONENT = "random"  # in games of several teams, if none is named


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean of a quantity over seeds, with its 95 % interval and the range of single episodes."""

    mean: float
    low: float | None  # None: the episodes are all alike, so they do not show how far others may be
    high: float | None
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class SeatFigures:
    """Figures of the episodes that were played from one place."""

    place: int  # from 1, in the order of the seats
    episodes: int
    returned: Figure
    score: float | None  # points per episode; None: the game has one team


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of the episodes of one competitor. Crashed episodes count in `ends` alone."""

    competitor: str
    env: str
    opponent: str | None  # None: the game has one team
    episodes: int  # played
    counted: int
    returned: Figure  # sum of the rewards of a seat; the mean of the seats of its team
    score: Figure | None  # points in [0, 1] per episode: a team ahead counts 1, one level with it one half
    outcomes: dict[str, int] | None  # episodes by outcome
    length: Figure  # decisions of all seats
    ends: dict[str, int]  # episodes by the reason for their end
    places: tuple[SeatFigures, ...]
    alike: bool  # whether every seed was played move by move in the same way
    failures: dict[str, int]  # decisions with which competitors forfeited, by cause


def evaluate(
    run: Path,
    name: str,
    *,
    opponent: str | None = None,
    episodes: int = 100,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Play at least `episodes` matches of the competitor `name` of `run`, against `opponent` if there is one.

    Names are those of `league.competitors.names`; without a name the opponent is the bot `random`. Raise
    UnknownCompetitor for a name that fits nothing, UnknownBot, CorruptBlob, NotARun for the run of a
    tournament, Mistake for an opponent in a game of one team and for competitors that do not fit the seats,
    Failure if every match crashed.
    """
    arena = Arena.of_runs(run)
    agreed = arena.agreed
    if agreed.num_teams == 1 and opponent is not None:
        kind = "seat" if agreed.game.num_seats == 1 else "team"
        raise Mistake(
            f"evaluate: found the opponent '{opponent}', but '{agreed.env_id}' has one {kind}; name none"
        )
    given = [name] if agreed.num_teams == 1 else [name, opponent or OPPONENT]
    sources = [arena.find(text) for text in given]
    seated = replace(arena.seated(sources, [0] * len(sources)), fingerprint=True)
    seats = [
        set(seats_of(text, source, agreed, arena.game_of(seated, shown), arena.bots))
        for text, source, shown in zip(given, sources, seated.names, strict=True)
    ]
    team_of_seat = agreed.team_of_seat
    places = _places(given, seats, team_of_seat, agreed.env_id)
    seeds = np.arange(-(-episodes // len(places)), dtype=np.int64)
    by_team = one_against_others(agreed.num_teams)[places]
    matches = arena.table("evaluate", seed).matches(seated.names, by_team, seeds)
    arena.slots = min(len(matches), BATCH)
    played: list[ResultBatch] = []
    for first in range(0, len(matches), BATCH):
        rows = np.arange(first, min(first + BATCH, len(matches)), dtype=np.int64)
        played += arena.play(seated, matches.take(rows), drawn_seed(seed, first))
        progress("episodes", int(rows[-1]) + 1, len(matches))
    names = [name_of(source) for source in sources]
    found = _summary(names, agreed.env_id, played, places, team_of_seat)
    return replace(found, failures=dict(arena.failures))


def _places(given: Sequence[str], seats: Sequence[set[int]], team_of_seat: Indices, env_id: str) -> list[int]:
    """Return the teams that the competitor can play, with its opponent in all others."""
    own, others = seats[0], set().union(*seats[1:])
    found = [
        team
        for team in range(int(team_of_seat[-1]) + 1)
        if set(np.flatnonzero(team_of_seat == team).tolist()) <= own
        and set(np.flatnonzero(team_of_seat != team).tolist()) <= others
    ]
    if not found:
        raise Mistake(
            f"evaluate: '{given[0]}' can take seats {sorted(own)} of '{env_id}', '{given[-1]}' "
            f"{sorted(others)}, expected two that make up a match; name another opponent"
        )
    return found


def _summary(
    names: list[str], env_id: str, played: list[ResultBatch], places: list[int], team_of_seat: Indices
) -> Evaluation:
    order = np.argsort(np.concatenate([batch.matches.match_id for batch in played]))

    def joined(parts: list[npt.NDArray]) -> npt.NDArray:
        return np.concatenate(parts)[order]

    shape, teams = (-1, len(places)), int(team_of_seat[-1]) + 1
    reason = joined([batch.reason for batch in played])
    ends = {
        EndReason(value).name.lower(): int((reason == value).sum())
        for value in sorted(set(reason.tolist()), key=lambda value: (-int((reason == value).sum()), value))
    }
    whole = (reason != EndReason.CRASH).reshape(shape).all(axis=1)
    if not whole.any():
        raise Failure(
            f"evaluate: a match crashed from each of {len(whole)} seeds; nothing counts (see: league envs "
            f"check {env_id})"
        )
    at = np.tile(places, len(whole))  # [M], the team of the competitor
    rows = np.arange(len(at))
    score = joined([batch.score for batch in played]).astype(np.float64)
    mine = team_of_seat == at[:, None]
    returned = (np.where(mine, score, 0.0).sum(axis=1) / mine.sum(axis=1)).reshape(shape)[whole]
    length = joined([batch.env_steps for batch in played]).astype(np.float64).reshape(shape)[whole]
    points: Floats | None = None
    outcomes: dict[str, int] | None = None
    digest = joined([batch.digest for batch in played if batch.digest is not None]).reshape(shape)[whole]
    alike = bool(len(digest) > 1 and digest.all() and (digest == digest[0]).all())
    earned, scored = figure(returned, alike), None
    if teams > 1:
        points = joined([points_of(batch) for batch in played])[rows, at].reshape(shape)[whole]
        outcome = joined([by_team(batch)[1] for batch in played])[rows, at].reshape(shape)[whole]
        outcomes = {own.name.lower(): int((outcome == own).sum()) for own in Outcome}
        scored = _score(points, alike)
        if (returned == 2.0 * points - 1.0).all() and scored.low is not None and scored.high is not None:
            # both are one quantity, so that they have one interval
            earned = replace(earned, low=2.0 * scored.low - 1.0, high=2.0 * scored.high - 1.0)
    return Evaluation(
        competitor=names[0],
        env=env_id,
        opponent=names[1] if len(names) > 1 else None,
        episodes=len(reason),
        counted=returned.size,
        returned=earned,
        score=scored,
        outcomes=outcomes,
        length=figure(length, alike),
        ends=ends,
        places=tuple(
            SeatFigures(
                place=team + 1,
                episodes=len(returned),
                returned=figure(returned[:, [column]], alike),
                score=None if points is None else float(points[:, column].mean()),
            )
            for column, team in enumerate(places)
        ),
        alike=alike,
        failures={},
    )


def figure(values: Floats, alike: bool = False) -> Figure:
    """Return the mean of `values` [seeds, places] with Student's interval over the means of the seeds.

    Of two distinct values the interval is Wilson's. Without an interval if all are equal, or if `alike`: then
    they are one observation.
    """
    mean = values.mean(axis=1)
    middle, least, most = float(mean.mean()), float(values.min()), float(values.max())
    n, kinds = len(mean), np.unique(mean)
    low: float | None
    high: float | None
    if alike or n < 2 or len(kinds) < 2:
        low = high = None
    elif len(kinds) == 2:
        start, width = float(kinds[0]), float(kinds[1] - kinds[0])
        low, high = (start + width * end for end in wilson((middle - start) / width, n))
    else:
        margin = float(stdtrit(n - 1, 0.975)) * float(mean.std(ddof=1)) / math.sqrt(n)
        low, high = middle - margin, middle + margin
    return Figure(middle, low, high, least, most)


def _score(points: Floats, alike: bool) -> Figure:
    """Return the figure of points, whose interval is that of the Elo: it never ends at 0 or 1 by luck."""
    plain = figure(points, alike)
    if alike or len(points) < 2:
        return plain
    elo = elo_from_pairs(points.mean(axis=1))
    low, high = min(score_of_elo(elo.low), plain.mean), max(score_of_elo(elo.high), plain.mean)
    return Figure(plain.mean, low, high, plain.least, plain.most)
