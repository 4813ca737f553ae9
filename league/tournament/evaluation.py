"""Evaluation of one stored competitor in a game of any number of seats. Writes nothing.

In a game of several teams an opponent fills all other teams, and each seed is played once from every place
that the competitor can take, so that neither the deal nor the first move favours it. The unit of statistics
is the seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from analysis.statistics.elo import elo_from_pairs, score_of_elo
from league.competitors.names import bot_settings, name_of, resolve, role_of
from league.envs import registry
from league.envs.adapters.gymnasium.following import FollowingEnvs, following
from league.envs.base import BatchedGame
from league.models.bots.seated import seated_bot
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, MixtureSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import SnapshotSource
from league.rules.matchmaking.seating import match_seeds
from league.tournament.entry.agreement import Agreed
from league.yardsticks.figures import wilson
from storage import open_reader
from storage.arrays import Floats, Indices
from storage.cache.settings import CacheSettings
from storage.disk import Progress
from storage.errors import Failure, Mistake, NotARun
from storage.records import EndReason, MatchBatch, Outcome, Purpose, ResultBatch, by_team

BATCH = 256  # matches at once; another number would give other episodes for the same seed
OPPONENT = "random"  # in games of several teams, if none is named
_SELF, _OTHER = "competitor", "opponent"

Stored = SnapshotSource | BotSource | MixtureSource


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean of a quantity over seeds, with its 95 % interval and the range of single episodes."""

    mean: float
    low: float | None  # None: the episodes are all alike, so they do not show how far others may be
    high: float | None
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Place:
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
    places: tuple[Place, ...]
    alike: bool  # whether every seed was played move by move in the same way


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
    reader = open_reader(run)
    config = reader.config()
    if "competitors" in config:
        raise NotARun(
            f"{run}: found the run of a tournament, expected that of a league; name the one that '{name}' "
            "comes from"
        )
    env: Mapping[str, Any] = reader.env()
    limit, teams = config["rollout"]["step_limit"], config["matchmaking"]["teams"]
    game = registry.make(env["id"], 1, step_limit=limit, **env["options"])
    teams = tuple(teams or game.teams or (1,) * game.num_seats)
    agreed = Agreed(env["id"], env["options"], limit, teams, game)
    if agreed.num_teams == 1 and opponent is not None:
        kind = "seat" if game.num_seats == 1 else "team"
        raise Mistake(
            f"evaluate: found the opponent '{opponent}', but '{env['id']}' has one {kind}; name none"
        )
    given = {_SELF: name} if agreed.num_teams == 1 else {_SELF: name, _OTHER: opponent or OPPONENT}
    sources = {key: resolve(reader, text, env["id"]) for key, text in given.items()}
    envs, bots = following(config), bot_settings(config)
    brings = {key: role_of(reader, source) if envs else None for key, source in sources.items()}
    seats = {
        key: _seats(given[key], source, agreed, envs, brings[key], bots) for key, source in sources.items()
    }
    team_of_seat = np.repeat(np.arange(agreed.num_teams), teams)
    places = _places(given, seats, team_of_seat, env["id"])
    matches = _matches(env["id"], team_of_seat, places, -(-episodes // len(places)), seed, len(sources))
    setup = PlaySetup(
        env["id"],
        env["options"],
        RolloutSettings(slots=min(len(matches), BATCH), step_limit=limit),
        cache=CacheSettings(verify="always"),
        bots=bots,
    )
    runner = EnvRunner(setup)
    played: list[ResultBatch] = []
    for first in range(0, len(matches), BATCH):
        rows = np.arange(first, min(first + BATCH, len(matches)), dtype=np.int64)
        drawn = int(match_seeds(seed + 1, rows[:1])[0])  # seed of sampled actions
        for part, env_options in envs.split(matches.take(rows), brings.get):
            request = PlayRequest(
                part, tuple(sources.values()), (), drawn, env_options=env_options, fingerprint=True
            )
            played.append(runner.play(request, {})[0])
        progress("episodes", int(rows[-1]) + 1, len(matches))
    names = [name_of(source) for source in sources.values()]
    return _summary(names, env["id"], played, places, team_of_seat)


def _seats(
    name: str,
    source: Stored,
    agreed: Agreed,
    envs: FollowingEnvs,
    role: str | None,
    bots: Mapping[str, Any],
) -> set[int]:
    """Return the seats that a competitor can take. Raise Mistake if there are none."""
    game = agreed.game_of(envs, role or "")
    if isinstance(source, BotSource):
        return set(seated_bot(source.name, agreed.env_id, agreed.game, bots).seats)
    members = source.members if isinstance(source, MixtureSource) else (source,)
    found = {seat for seat in range(game.num_seats) if all(_fits(member, game, seat) for member in members)}
    if not found:
        raise Mistake(
            f"'{name}' cannot take any seat of '{agreed.env_id}', whose observations or actions differ from "
            "its own; is it of another game?"
        )
    return found


def _fits(source: SnapshotSource, game: BatchedGame, seat: int) -> bool:
    spaces = game.observation_specs[seat], game.action_specs[seat]
    return (source.spec.observation, source.spec.action) == spaces


def _places(
    given: Mapping[str, str], seats: Mapping[str, set[int]], team_of_seat: Indices, env_id: str
) -> list[int]:
    """Return the teams that the competitor can play, with its opponent in all others."""
    own, others = seats[_SELF], seats.get(_OTHER, set())
    found = [
        team
        for team in range(int(team_of_seat[-1]) + 1)
        if set(np.flatnonzero(team_of_seat == team).tolist()) <= own
        and set(np.flatnonzero(team_of_seat != team).tolist()) <= others
    ]
    if not found:
        raise Mistake(
            f"evaluate: '{given[_SELF]}' can take seats {sorted(own)} of '{env_id}', '{given.get(_OTHER)}' "
            f"{sorted(others)}, expected two that make up a match; name another opponent"
        )
    return found


def _matches(
    env_id: str, team_of_seat: Indices, places: list[int], seeds: int, seed: int, competitors: int
) -> MatchBatch:
    """Return the matches: each of `seeds` seeds once from every one of `places`, in this order."""
    number = seeds * len(places)
    own = np.array(places, dtype=np.int64)[:, None] == team_of_seat
    alone = int(team_of_seat[-1]) + 1 == len(team_of_seat)
    return MatchBatch(
        env=env_id,
        purpose=Purpose.EVALUATION,
        match_types=("evaluate",),
        competitors=(_SELF, _OTHER)[:competitors],
        match_id=np.arange(number, dtype=np.int64),
        seed=np.repeat(match_seeds(seed, np.arange(seeds)), len(places)),
        match_type=np.zeros(number, dtype=np.int16),
        seat=np.tile(np.where(own, 0, 1).astype(np.int32), (seeds, 1)),
        learning=np.zeros((number, len(team_of_seat)), dtype=np.bool_),
        team_of_seat=None if alone else tuple(team_of_seat.tolist()),
    )


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
    if teams > 1:
        place = joined([by_team(batch)[2] for batch in played])
        ahead = 0.5 + 0.5 * np.sign(place - place[rows, at][:, None])  # a lower place is better
        points = ((ahead.sum(axis=1) - 0.5) / (teams - 1)).reshape(shape)[whole]
        outcome = joined([by_team(batch)[1] for batch in played])[rows, at].reshape(shape)[whole]
        outcomes = {own.name.lower(): int((outcome == own).sum()) for own in Outcome}
    digest = joined([batch.digest for batch in played if batch.digest is not None]).reshape(shape)[whole]
    alike = bool(len(digest) > 1 and digest.all() and (digest == digest[0]).all())
    return Evaluation(
        competitor=names[0],
        env=env_id,
        opponent=names[1] if len(names) > 1 else None,
        episodes=len(reason),
        counted=returned.size,
        returned=figure(returned, alike),
        score=None if points is None else _score(points, alike),
        outcomes=outcomes,
        length=figure(length, alike),
        ends=ends,
        places=tuple(
            Place(
                place=team + 1,
                episodes=len(returned),
                returned=figure(returned[:, [column]], alike),
                score=None if points is None else float(points[:, column].mean()),
            )
            for column, team in enumerate(places)
        ),
        alike=alike,
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
