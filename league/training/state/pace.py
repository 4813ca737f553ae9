"""Pace: how many matches a request brings, so that play is fast and experience as fresh as it is to be.

Each step of a batch costs a call for each competitor in it, so large requests are fast ones: each competitor
then has many decisions at once. But what a request brings is older the larger it is: the updates that its
player makes meanwhile are those of all requests under way. So each runner has one at a time, if that is long
beside the pause that the driver needs between two. Microseconds of the processor for each env step of
Connect Four, networks 84-256-256, with all matches of a request begun at once:

matches                  1,024   2,048   4,096   8,192
2 competitors              8.8     5.8     4.8     4.0
9 competitors              9.2     7.7     4.5     4.5
33 competitors            11.6     8.7     6.7     4.8
257 competitors           27.4    18.0    12.3     7.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from league.config.settings import Settings
from league.rollout.requests import RolloutInfo
from league.rollout.settings import USUAL_SIZE
from league.training.requests import matches_of_a_turn
from storage.records import Role

PER_COMPETITOR, LEAST, MOST = 256, 4096, 8192  # matches of a request that is as fast as it may be
FIRST = 256  # matches of a request as long as nothing is known of the game
FEWEST = 256  # matches, before fewer requests are under way instead
LONG_SECONDS = 0.25  # of a request beside which the pause before it is short
USUAL_LAG = 32.0  # that auto sizes aim at, in updates
MOST_SECONDS, MOST_BYTES = 4.0, 2**27  # of one request
FEW = 3  # requests of a player from which it is known what one brings
NEW = 0.2  # weight of the newest request in the means
LEAST_FACTOR, MOST_FACTOR = 0.25, 2.0  # of what is computed, by what is measured


@dataclass(slots=True)
class _Player:
    """What is known of a player's requests."""

    updates_per_step: float
    share: float  # of all matches that are asked for
    steps: float = 0.0  # learned from in each match; 0: not known yet
    lag: float = 0.0  # of its updates, mean of the latest
    factor: float = 1.0  # by which requests are larger than computed, as the measured lag allows
    batch_steps: float = 0.0  # fresh ones that an update takes
    replays: bool = False  # whether it takes old ones too
    requests: int = 0  # that brought experience, of which the first FEW are counted
    brought: int = 0  # steps that those brought

    @property
    def updates(self) -> float:
        """Updates for a match."""
        return self.steps * self.updates_per_step / self.factor


class Pace:
    """Sizes of requests, and how many may be under way."""

    def __init__(self, settings: Settings) -> None:
        rollout = settings.rollout
        self._repeatable = settings.most_runners == 0
        size = rollout.matches_per_request
        if size == "auto" and (self._repeatable or rollout.fragment is not None):
            size = USUAL_SIZE
        self._fixed = None if size == "auto" else size
        self._of_a_turn = matches_of_a_turn(settings.game.num_seats)
        self._max_lag = rollout.max_lag
        self._limits = rollout.max_lag is not None or self._fixed is None
        self._runners = max(1, settings.most_runners)
        self._most_each = rollout.requests_in_flight if settings.most_runners else 1
        self._settings = settings
        self._bytes = max(spec.bytes_of_decision for spec in settings.policy_specs().values())
        self._players: dict[str, _Player] = {}
        self._competitors = 0.0
        self._seconds = self._steps = 0.0  # of a match; 0: not known yet
        self._said = 0

    def follow(self, shares: Mapping[str, tuple[Role, float]]) -> None:
        """Follow the players that there are: role and share of each."""
        total = sum(share for _, share in shares.values()) or 1.0
        self._players = {
            name: self._players.get(name) or self._player(name, role) for name, (role, _) in shares.items()
        }
        for name, (_, share) in shares.items():
            self._players[name].share = share / total

    def _player(self, player: str, role: Role) -> _Player:
        """Return a player of whose requests nothing is known yet."""
        own = self._settings.learner_of(player, role)
        batch_steps = own.batch_steps * (1.0 - own.replay.proportion)
        replays = own.replay.proportion > 0
        return _Player(own.epochs / batch_steps, 0.0, batch_steps=batch_steps, replays=replays)

    def matches(self, player: str) -> int:
        """Return how many matches the next request for `player` is to bring."""
        most = self._most()
        own = self._players.get(player)
        if not self._limits or own is None:
            return most
        if not own.steps:
            return min(most, FIRST)
        floor = min(FEWEST, self._max_lag / own.updates) if self._max_lag else FEWEST
        return max(1, min(most, rounded(max(self._fresh(own, self.each_runner()), floor))))

    def each_runner(self) -> int:
        """Return how many requests one runner may have: one, if it is long, else all that settings allow."""
        if self._fixed is not None or self._most_each == 1 or not self._players:
            return self._most_each
        first = max(self._players.values(), key=lambda own: own.share)
        matches = min(self._most(), max(FEWEST, self._fresh(first, 1))) if first.steps else 0.0
        return 1 if matches * self._seconds >= LONG_SECONDS else self._most_each

    def _fresh(self, own: _Player, each_runner: int) -> float:
        """Return the matches of a request with which experience is as old as it may be."""
        under_way = max(1.0, self._runners * each_runner * own.share)
        return (self._max_lag or USUAL_LAG) / own.updates / under_way

    def _most(self) -> int:
        """Return how many matches a request is to bring if experience may be of any age."""
        if self._fixed is not None:
            return self._fixed
        most = min(self._of_a_turn, MOST, max(LEAST, PER_COMPETITOR * self._competitors))
        if self._seconds:
            most = min(most, MOST_SECONDS / self._seconds)
        if self._steps:
            most = min(most, MOST_BYTES / (self._steps * self._bytes))
        return max(1, rounded(most))

    def enough(self, player: str, in_flight: int) -> bool:
        """Return whether a further request for `player` would make experience older than it may be."""
        own = self._players.get(player)
        if self._max_lag is None or own is None or not own.steps or not in_flight:
            return False
        each = self.matches(player) * own.updates
        return (in_flight * own.share + 1.0) * each > self._max_lag * (1.0 + 1e-9)

    def asked(self, num_competitors: int) -> None:
        """Note the competitors of a request."""
        self._competitors = max(float(num_competitors), (1.0 - NEW) * self._competitors)

    def played(self, num_matches: int, info: RolloutInfo) -> None:
        """Note what a request brought to learners, and what it cost."""
        trained = {player: steps for player, steps in info.trained_steps.items() if steps}
        for own, steps in ((self._players.get(player), steps) for player, steps in trained.items()):
            if own is not None and own.requests < FEW:
                own.requests, own.brought = own.requests + 1, own.brought + steps
        if not num_matches or not trained:
            return
        for player, steps in trained.items():
            if player in self._players:
                own = self._players[player]
                own.steps = _mean(own.steps, steps / num_matches)
        self._steps = _mean(self._steps, info.env_steps / num_matches)
        if not self._repeatable:
            self._seconds = _mean(self._seconds, info.seconds / num_matches)

    def learned(self, player: str, lag: float) -> None:
        """Note the lag of an update; requests grow or shrink a little where it is not what it may be."""
        own = self._players.get(player)
        if own is None or not self._limits:
            return
        limit = self._max_lag or USUAL_LAG
        own.lag = _mean(own.lag, lag)
        if own.lag > limit:
            own.factor = max(LEAST_FACTOR, own.factor * 0.95)
        elif own.lag < 0.8 * limit:
            own.factor = min(MOST_FACTOR, own.factor * 1.02)

    def sentences(self) -> list[str]:
        """Return what requests bring, and over how many of them a batch fills, each in one sentence."""
        return [*self._size(), *filter(None, map(self._filling, self._players))]

    def _filling(self, player: str) -> str:
        """Return over how many requests a batch of the player fills, if it is several.

        It is computed once, from the first FEW requests.
        """
        own = self._players[player]
        count = round(own.batch_steps * FEW / own.brought) if own.requests == FEW else 1
        fresh = " fresh" if own.replays else ""
        if count < 2:
            return ""
        return f"{player}: a batch of {own.batch_steps:,.0f}{fresh} steps fills over {count:,} requests"

    def _size(self) -> list[str]:
        """Return what requests bring, if that has become twice as much or half of it."""
        known = [(name, own) for name, own in self._players.items() if own.steps]
        if not known or not self._limits:
            return []
        name, own = max(known, key=lambda each: each[1].share)
        matches = self.matches(name)
        if self._said and self._said / 2 < matches < 2 * self._said:
            return []
        self._said = matches
        return [
            f"requests bring {matches:,} matches: {self._competitors:.0f} competitors, {self._steps:.0f} env "
            f"steps a match, of which {name} learns from {own.steps:.0f}, lag {own.lag:.0f} updates of "
            f"{self._max_lag or USUAL_LAG:.0f}"
        ]


def rounded(matches: float) -> int:
    """Return a number of at most `matches` with three significant bits, so that sizes seldom change."""
    whole = max(1, int(matches))
    step = 1 << max(0, whole.bit_length() - 3)
    return whole // step * step


def _mean(old: float, new: float) -> float:
    return (1.0 - NEW) * old + NEW * new if old else new
