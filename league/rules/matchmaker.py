"""Who plays whom: the opponents of one player, drawn in blocks, all seats of a match at once.

Every match first draws its branch, independently, by the role's shares; then each branch draws
its opponents. The match type that is recorded is the branch that was played in the end:

    self_play     every seat is the player itself, and all of them learn; the only one in a game for one
    pfsp          all snapshots, weighted
    forgotten     snapshots of mains that the player now loses to, and strong past main exploiters
    current_main  a main as it plays now
    past_main     snapshots of mains, weighted
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from league.rules.roster import Indices, Roster
from league.rules.standings import Standings
from league.rules.weighting import Weighting, check_name, find_weighting, probabilities, variance
from storage.records import MAIN, MAIN_EXPLOITER, LivePlayer, MatchBatch, Purpose, Role

BRANCHES = ("self_play", "pfsp", "forgotten", "current_main", "past_main")
_SELF_PLAY, _PFSP, _FORGOTTEN, _CURRENT_MAIN, _PAST_MAIN = range(len(BRANCHES))
_FROM_SNAPSHOTS = (_PFSP, _FORGOTTEN, _PAST_MAIN)


class Branch(BaseModel):
    """One way of finding opponents."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    share: float = Field(ge=0, le=1, description="Share of the role's matches")
    weighting: str = Field(default="hard", description="Weights of opponents, or module:name of your own")
    exponent: float = Field(default=2.0, gt=0, allow_inf_nan=False, description="q of hard: (1 - p)^q")

    @field_validator("weighting")
    @classmethod
    def _known(cls, name: str) -> str:
        check_name(name)
        return name


class OpponentSettings(BaseModel):
    """How players of one role find opponents."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    branches: dict[str, Branch] = Field(description="Branches drawn from; their shares sum to 1")
    prior_strength: float = Field(
        default=10.0, ge=0, allow_inf_nan=False, description="Games that the TrueSkill prediction is worth"
    )
    switch_below: float = Field(
        default=0.0, ge=0, le=1, description="Below this rate against a current main, play past mains instead"
    )
    forgotten_below: float = Field(
        default=0.5, ge=0, le=1, description="A main's snapshot is forgotten below this win rate against it"
    )
    strong_exploiter_below: float = Field(
        default=0.5, ge=0, le=1, description="A past main exploiter is strong below this win rate against it"
    )

    @model_validator(mode="after")
    def _shares_are_a_distribution(self) -> Self:
        for name in self.branches:
            if name not in BRANCHES:
                near = difflib.get_close_matches(name, BRANCHES, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise ValueError(f"no branch is called '{name}', expected {', '.join(BRANCHES)}{hint}")
        total = sum(branch.share for branch in self.branches.values())
        if abs(total - 1.0) > 1e-6:
            found = ", ".join(f"{name} {branch.share:g}" for name, branch in self.branches.items())
            raise ValueError(
                f"branches: shares sum to {total:g} ({found or 'there are none'}), expected 1; "
                "when you change one share, change another"
            )
        return self


class MatchmakingSettings(BaseModel):
    """What holds for the matches of every role."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    distinct_opponents: int = Field(
        default=8, ge=1, description="Most different snapshots in one request (but one for each branch drawn)"
    )
    seats: Literal["balanced", "random"] = Field(
        default="balanced",
        description="The player's seat: equally often each against every opponent, or drawn",
    )


class HasOpponents(Protocol):
    """The part of a role's settings that pairing needs."""

    @property
    def opponents(self) -> OpponentSettings: ...


class Matchmaker:
    """Draws matches of `num_seats` in `env`. The matches' own seeds follow from `seed` and match id."""

    def __init__(
        self,
        roles: Mapping[Role, HasOpponents],
        settings: MatchmakingSettings | None = None,
        *,
        num_seats: int,
        env: str,
        seed: int,
    ) -> None:
        for role, rules in roles.items() if num_seats == 1 else ():
            others = [name for name, b in rules.opponents.branches.items() if b.share and name != "self_play"]
            if others:
                raise ValueError(
                    f"matchmaker: '{env}' has 1 seat, but {role} draws opponents by {' and '.join(others)}, "
                    "expected self_play only"
                )
        self._roles = {role: rules.opponents for role, rules in roles.items()}
        self._env = env
        self._num_seats = num_seats
        self._seed = seed
        self._settings = MatchmakingSettings() if settings is None else settings
        self._weightings: dict[tuple[Role, int], Weighting] = {
            (role, BRANCHES.index(name)): find_weighting(branch.weighting, branch.exponent)
            for role, opponents in self._roles.items()
            for name, branch in opponents.branches.items()
        }
        self._shares = {
            role: np.array(
                [opponents.branches[b].share if b in opponents.branches else 0.0 for b in BRANCHES]
            )
            for role, opponents in self._roles.items()
        }

    def next_matches(
        self,
        player: LivePlayer,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
        first_match_id: int,
    ) -> MatchBatch:
        """`n` training matches for a live player, with ids from `first_match_id` on.

        Opponents come in blocks: each branch makes a few draws by its weights, with replacement, and
        deals its seats out to them evenly, so a runner meets few snapshots at once while each single
        seat still follows the weights. Without candidates: `forgotten` becomes self-play; so do the
        others for mains; for the rest `current_main`, or self-play when no main is left.
        """
        role = player.role
        if role not in self._roles:
            raise KeyError(f"matchmaker: no settings for role '{role}' of '{player.player}'")
        home, others = roster.index(player.player), self._num_seats - 1
        shares = self._shares[role]
        branch = rng.choice(len(BRANCHES), size=n, p=shares / shares.sum()).astype(np.int16)
        opponent = np.full((n, others), home, dtype=np.int64)

        pools = {b: self._pool(b, home, role, roster, standings) for b in self._drawn(role)}
        current = roster.mains()[roster.mains() != home]
        for b, (candidates, _) in pools.items():
            if not len(candidates):
                branch[branch == b] = self._fallback(b, role, current)
        self._seat_current(branch, opponent, home, role, current, pools, standings, rng)
        budget = self._budget(branch)
        for b in _FROM_SNAPSHOTS:
            mine = np.flatnonzero(branch == b)
            if len(mine):
                candidates, p = pools[b]
                draws = rng.choice(candidates, size=min(len(mine) * others, budget[b]), p=p)
                dealt = np.arange(len(mine) * others) % len(draws)
                opponent[mine] = draws[dealt].reshape(len(mine), others)
        return self._batch(home, branch, opponent, roster, rng, first_match_id)

    def _drawn(self, role: Role) -> list[int]:
        """The branches whose pools this role may need."""
        needed = {b for b in _FROM_SNAPSHOTS if self._shares[role][b] > 0.0}
        if self._shares[role][_CURRENT_MAIN] > 0.0 and self._roles[role].switch_below > 0.0:
            needed.add(_PAST_MAIN)
        return sorted(needed)

    def _pool(
        self, branch: int, home: int, role: Role, roster: Roster, standings: Standings
    ) -> tuple[Indices, npt.NDArray[np.float64]]:
        """Candidates [k] of a branch and the probability of each [k]; k may be 0."""
        settings = self._roles[role]
        if branch == _PFSP:
            candidates = roster.snapshots()
        elif branch == _PAST_MAIN:
            candidates = roster.snapshots(MAIN)
        else:
            mains = roster.snapshots(MAIN)
            candidates = np.concatenate([mains, roster.snapshots(MAIN_EXPLOITER)])
        rates = standings.win_rate(home, candidates, settings.prior_strength)
        if branch == _FORGOTTEN:
            below = np.full(len(candidates), settings.strong_exploiter_below)
            below[: len(mains)] = settings.forgotten_below
            candidates, rates = candidates[rates < below], rates[rates < below]
        if not len(candidates):
            return candidates, np.zeros(0)
        # `switch_below` can lead to past mains in a role that has no such branch of its own.
        return candidates, probabilities(self._weightings.get((role, branch), variance), rates)

    @staticmethod
    def _fallback(branch: int, role: Role, current: Indices) -> int:
        alone = branch == _FORGOTTEN or role == MAIN or not len(current)
        return _SELF_PLAY if alone else _CURRENT_MAIN

    def _seat_current(
        self,
        branch: npt.NDArray[np.int16],
        opponent: Indices,
        home: int,
        role: Role,
        current: Indices,
        pools: Mapping[int, tuple[Indices, npt.NDArray[np.float64]]],
        standings: Standings,
        rng: np.random.Generator,
    ) -> None:
        """Seat live mains, drawn uniformly; move matches against one that is too strong to `past_main`."""
        mine = np.flatnonzero(branch == _CURRENT_MAIN)
        if not len(mine):
            return
        if not len(current):
            branch[mine] = _SELF_PLAY
            return
        drawn = rng.integers(len(current), size=(len(mine), opponent.shape[1]))
        settings = self._roles[role]
        if _PAST_MAIN in pools and len(pools[_PAST_MAIN][0]):
            too_strong = standings.win_rate(home, current, settings.prior_strength) < settings.switch_below
            branch[mine[too_strong[drawn].any(axis=1)]] = _PAST_MAIN
        opponent[mine] = current[drawn]

    def _budget(self, branch: npt.NDArray[np.int16]) -> dict[int, int]:
        """How many draws each snapshot branch may make: in proportion to its matches, at least one."""
        matches = np.bincount(branch, minlength=len(BRANCHES))
        present = [b for b in _FROM_SNAPSHOTS if matches[b]]
        total = sum(int(matches[b]) for b in present)
        most = self._settings.distinct_opponents
        budget = {b: max(1, most * int(matches[b]) // total) for b in present}
        while sum(budget.values()) > max(most, len(present)):
            budget[max(budget, key=budget.__getitem__)] -= 1
        return budget

    def _batch(
        self,
        home: int,
        branch: npt.NDArray[np.int16],
        opponent: Indices,
        roster: Roster,
        rng: np.random.Generator,
        first_match_id: int,
    ) -> MatchBatch:
        n, others = opponent.shape
        rows = np.arange(n)
        if self._settings.seats == "random":
            home_seat = rng.integers(others + 1, size=n)
        else:  # alternate along the matches, sorted so that those of one opponent are neighbours
            home_seat = np.empty(n, dtype=np.int64)
            along = np.lexsort((*opponent.T[:1], branch))  # in a game for one there is no opponent
            home_seat[along] = (rows + rng.integers(others + 1)) % (others + 1)
        seated = np.empty((n, others + 1), dtype=np.int64)
        seated[rows, home_seat] = home
        elsewhere = np.arange(others + 1) != home_seat[:, None]
        seated[elsewhere] = opponent.ravel()
        learning = ~elsewhere | (branch == _SELF_PLAY)[:, None]
        present, seat = np.unique(seated, return_inverse=True)
        match_id = np.arange(first_match_id, first_match_id + n, dtype=np.int64)
        return MatchBatch(
            env=self._env,
            purpose=Purpose.TRAINING,
            match_types=BRANCHES,
            competitors=tuple(roster.id(i) for i in present.tolist()),
            match_id=match_id,
            seed=match_seeds(self._seed, match_id),
            match_type=branch,
            seat=seat.reshape(n, others + 1).astype(np.int32),
            learning=learning,
        )


def match_seeds(run_seed: int, match_id: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The seed of each match [M], in [0, 2^63), from the run's seed and its id alone.

    splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014),
    whose state is the mixed run seed advanced by the match id.
    """
    state = _mix(np.array([run_seed % 2**64], dtype=np.uint64))
    return (_mix(state + match_id.astype(np.uint64) * _GAMMA) >> np.uint64(1)).astype(np.int64)


_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = z + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
