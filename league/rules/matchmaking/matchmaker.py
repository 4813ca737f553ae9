"""Who plays whom: the opponents of one player, drawn in blocks, all seats of a match at once.

Every match first draws its branch, independently, by the role's shares; then each branch draws
its opponents (`branches.py` says whom, `pools.py` finds them). The match type that is recorded is
the branch that was played in the end, after all switches and fallbacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from league.rules.matchmaking import uneven
from league.rules.matchmaking.branches import BRANCHES, MATCH_TYPES, Branch, OpponentSettings
from league.rules.matchmaking.pools import Pool, Pools, everybody, rarest_pairs
from league.rules.matchmaking.seating import MatchmakingSettings, Pairing, Tables, arrange, match_seeds, seat
from league.rules.matchmaking.uneven import Places, SeatsOf
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.arrays import Indices
from storage.records import MAIN, LivePlayer, MatchBatch, Purpose, Role

__all__ = [
    "BRANCHES",
    "MATCH_TYPES",
    "Branch",
    "HasOpponents",
    "Matchmaker",
    "MatchmakingSettings",
    "OpponentSettings",
    "match_seeds",
]

_TYPE = {name: index for index, name in enumerate(MATCH_TYPES)}
_POOLED = ("pfsp", "forgotten", "past_main", "latest", "window", "bots", "nash", "peers")


class HasOpponents(Protocol):
    """The part of a role's settings that pairing needs."""

    @property
    def opponents(self) -> OpponentSettings: ...


@dataclass(frozen=True, slots=True)
class _Deal:
    """Matches [m] whose opponents come from one pool."""

    match_type: int
    matches: Indices
    pool: Pool


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
        seats_of: SeatsOf | None = None,
    ) -> None:
        """`seats_of`: the seats that each competitor may take; none: everybody all of them."""
        self._env = env
        self._seed = seed
        self._settings = MatchmakingSettings() if settings is None else settings
        self._team_of_seat = self._settings.team_of_seat(num_seats)
        self._others = int(self._team_of_seat[-1])  # teams beside the player's own
        self._roles = {role: rules.opponents for role, rules in roles.items()}
        self._places = None if seats_of is None else Places(self._team_of_seat, seats_of)
        if self._others == 0:
            self._refuse_opponents(num_seats)
        self._pools = {role: Pools(opponents) for role, opponents in self._roles.items()}
        shares = {
            role: np.array([opponents.share(b) for b in BRANCHES]) for role, opponents in self._roles.items()
        }
        self._shares = {role: share / share.sum() for role, share in shares.items()}

    def next_matches(
        self,
        player: LivePlayer,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
        first_match_id: int,
    ) -> MatchBatch:
        """`n` matches for a live player, with ids from `first_match_id` on, all of one purpose.

        Opponents come in blocks: each branch makes a few draws by its weights, with replacement, and
        deals its seats out to them evenly, so a runner meets few snapshots at once while each single
        seat still follows the weights. Without candidates: `forgotten` becomes self-play; so do the
        others for mains; for the rest `current_main`, or self-play when no main is left. In evaluation
        nobody learns; when there is nobody to evaluate against, the matches are for training.
        """
        rules = self._of(player)
        if rules.evaluation > 0.0 and rng.random() < rules.evaluation:
            matches = self.evaluation_matches(player, n, roster, standings, rng, first_match_id)
            if matches is not None:
                return matches
        home = roster.index(player.player)
        tables = self._training(player, home, n, roster, standings, rng)
        return self._seat(tables, Purpose.TRAINING, roster, first_match_id)

    def evaluation_matches(
        self,
        player: LivePlayer,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
        first_match_id: int,
    ) -> MatchBatch | None:
        """`n` matches for the record, by the role's `evaluate`; None when there is nobody to play them."""
        home, rules = roster.index(player.player), self._of(player)
        tables = self._evaluation(home, rules, n, roster, standings, rng)
        return None if tables is None else self._seat(tables, Purpose.EVALUATION, roster, first_match_id)

    def _of(self, player: LivePlayer) -> OpponentSettings:
        if player.role not in self._roles:
            raise KeyError(f"matchmaker: no settings for role '{player.role}' of '{player.player}'")
        return self._roles[player.role]

    def _seat(self, tables: Tables, purpose: Purpose, roster: Roster, first_match_id: int) -> MatchBatch:
        return seat(
            tables,
            self._team_of_seat,
            env=self._env,
            purpose=purpose,
            match_types=MATCH_TYPES,
            roster=roster,
            run_seed=self._seed,
            first_match_id=first_match_id,
        )

    def _arrange(self, pairing: Pairing, rng: np.random.Generator) -> Tables:
        return arrange(pairing, balanced=self._settings.seats == "balanced", rng=rng)

    def _training(
        self,
        player: LivePlayer,
        home: int,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
    ) -> Tables:
        role, rules, pools = player.role, self._roles[player.role], self._pools[player.role]
        match_type = rng.choice(len(BRANCHES), size=n, p=self._shares[role]).astype(np.int16)
        found = {b: pools.find(b, player, roster, standings) for b in self._drawn(role)}
        if rules.placement > 0.0 and (newcomers := pools.newcomers(roster, standings)):
            found["placement"] = newcomers
            match_type[rng.random(n) < rules.placement] = _TYPE["placement"]
        for branch, pool in found.items():
            if not pool or not self._anybody_fits(pool, home, roster):
                match_type[match_type == _TYPE[branch]] = _fallback(branch, home, role, roster)
        if self._places is not None:
            others = roster.mains()[roster.mains() != home]
            found["current_main"] = Pool(others, np.full(len(others), 1.0 / max(len(others), 1)))
            return self._placed(home, match_type, found, roster, rng, learning=True)
        opponent = np.full((n, self._others), home, dtype=np.int64)
        deals = self._seat_mains(match_type, opponent, home, role, roster, standings, rng)
        self._seat_current(match_type, opponent, home, role, found, roster, standings, rng)
        pooled = (
            _Deal(_TYPE[b], np.setdiff1d(np.flatnonzero(match_type == _TYPE[b]), _matches_of(deals)), pool)
            for b, pool in found.items()
        )
        self._deal([deal for deal in (*pooled, *deals) if len(deal.matches)], opponent, rng)
        alone = match_type == _TYPE["self_play"]
        return self._arrange(Pairing(home, opponent, match_type, home_learns=True, all_learn=alone), rng)

    def _placed(
        self,
        home: int,
        match_type: npt.NDArray[np.int16],
        found: Mapping[str, Pool],
        roster: Roster,
        rng: np.random.Generator,
        *,
        learning: bool,
    ) -> Tables:
        """Where not everybody may take every seat."""
        assert self._places is not None
        return uneven.arrange(
            home,
            match_type,
            {_TYPE[branch]: pool for branch, pool in found.items()},
            _TYPE["self_play"],
            self._places.may(roster),
            roster,
            self._settings.distinct_opponents,
            rng,
            learning=learning,
        )

    def _anybody_fits(self, pool: Pool, home: int, roster: Roster) -> bool:
        """Whether somebody of the pool may be a team beside `home`."""
        if self._places is None:
            return True
        may = self._places.may(roster)
        others = ~may[home] if may[home].sum() == 1 else np.ones(may.shape[1], dtype=np.bool_)
        return bool(may[pool.candidates][:, others].any())

    def _drawn(self, role: Role) -> list[str]:
        """The branches whose pools this role may need."""
        rules = self._roles[role]
        needed = {b for b in _POOLED if rules.share(b) > 0.0}
        if rules.share("current_main") > 0.0 and rules.switch_below > 0.0:
            needed.add("past_main")
        return sorted(needed, key=_TYPE.__getitem__)

    def _seat_mains(
        self,
        match_type: npt.NDArray[np.int16],
        opponent: Indices,
        home: int,
        role: Role,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
    ) -> list[_Deal]:
        """Draw one live main for each match of `mains` and `verification`, and see what it leads to:
        the match against it (seated here), or a pool to deal from."""
        open_ones = np.flatnonzero((match_type == _TYPE["mains"]) | (match_type == _TYPE["verification"]))
        if not len(open_ones):
            return []
        mains, pools, deals = roster.mains(), self._pools[role], []
        if not len(mains):
            match_type[open_ones] = _TYPE["self_play"]
            return []
        chosen = mains[rng.integers(len(mains), size=len(open_ones))]
        rates = dict(zip(mains.tolist(), pools.rates(home, mains, standings).tolist(), strict=True))
        for main in np.unique(chosen).tolist():
            matches = open_ones[chosen == main]
            verifying = match_type[matches] == _TYPE["verification"]
            if verifying.any() and (pool := pools.verification(main, home, roster, standings)):
                deals.append(_Deal(_TYPE["verification"], matches[verifying], pool))
                matches = matches[~verifying]
            if main == home:
                match_type[matches] = _TYPE["self_play"]
                continue
            match_type[matches] = _TYPE["current_main"]
            opponent[matches] = main
            if rates[main] < self._roles[role].switch_below and (
                pool := pools.past_of(main, home, roster, standings)
            ):
                match_type[matches] = _TYPE["past_main"]
                deals.append(_Deal(_TYPE["past_main"], matches, pool))
        return deals

    def _seat_current(
        self,
        match_type: npt.NDArray[np.int16],
        opponent: Indices,
        home: int,
        role: Role,
        found: Mapping[str, Pool],
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
    ) -> None:
        """Seat live mains, drawn uniformly; move matches against one that is too strong to `past_main`."""
        mine = np.flatnonzero((match_type == _TYPE["current_main"]) & (opponent == home).all(axis=1))
        if not len(mine):
            return
        current = roster.mains()[roster.mains() != home]
        if not len(current):
            match_type[mine] = _TYPE["self_play"]
            return
        drawn = rng.integers(len(current), size=(len(mine), opponent.shape[1]))
        if found.get("past_main"):
            rates = self._pools[role].rates(home, current, standings)
            too_strong = rates < self._roles[role].switch_below
            match_type[mine[too_strong[drawn].any(axis=1)]] = _TYPE["past_main"]
        opponent[mine] = current[drawn]

    def _deal(self, deals: Sequence[_Deal], opponent: Indices, rng: np.random.Generator) -> None:
        """Draw each deal's few opponents, and deal its seats out to them."""
        for deal, most in zip(deals, self._budget(deals), strict=True):
            seats = len(deal.matches) * self._others
            draws = rng.choice(deal.pool.candidates, size=min(seats, most), p=deal.pool.p)
            opponent[deal.matches] = draws[np.arange(seats) % len(draws)].reshape(-1, self._others)

    def _budget(self, deals: Sequence[_Deal]) -> list[int]:
        """How many draws each deal may make: in proportion to its matches, at least one."""
        total, most = sum(len(deal.matches) for deal in deals), self._settings.distinct_opponents
        budget = [max(1, most * len(deal.matches) // total) for deal in deals]
        while sum(budget) > max(most, len(deals)):
            budget[budget.index(max(budget))] -= 1
        return budget

    def _evaluation(
        self,
        home: int,
        rules: OpponentSettings,
        n: int,
        roster: Roster,
        standings: Standings,
        rng: np.random.Generator,
    ) -> Tables | None:
        """Matches for the record; None when there is nobody to play them."""
        if rules.evaluate == "player":
            pool = everybody(roster)
            if not pool:
                return None
        else:
            snapshots = roster.snapshots()
            if len(snapshots) < 2:
                return None
            pairs = rarest_pairs(roster, standings)
            row = rng.choice(len(snapshots), p=pairs.sum(axis=1))
            home, pool = int(snapshots[row]), Pool(snapshots, pairs[row] / pairs[row].sum())
        opponent = np.empty((n, self._others), dtype=np.int64)
        match_type = np.full(n, _TYPE["evaluation"], dtype=np.int16)
        if self._places is not None:
            return self._placed(home, match_type, {"evaluation": pool}, roster, rng, learning=False)
        if n:
            self._deal([_Deal(_TYPE["evaluation"], np.arange(n), pool)], opponent, rng)
        nobody = np.zeros(n, dtype=np.bool_)
        return self._arrange(Pairing(home, opponent, match_type, home_learns=False, all_learn=nobody), rng)

    def _refuse_opponents(self, num_seats: int) -> None:
        """A game for one, or for one team, is played alone."""
        for role, rules in self._roles.items():
            others = [name for name, b in rules.branches.items() if b.share and name != "self_play"]
            others += [name for name in ("placement", "evaluation") if getattr(rules, name) > 0.0]
            if others:
                seats = "1 seat" if num_seats == 1 else "1 team"
                raise ValueError(
                    f"matchmaker: '{self._env}' has {seats}, but {role} draws opponents by "
                    f"{' and '.join(others)}, expected self_play only; set league.preset to none"
                )


def _fallback(branch: str, home: int, role: Role, roster: Roster) -> int:
    """What a branch without candidates becomes."""
    nobody = not (roster.mains() != home).any()
    alone = branch == "forgotten" or role == MAIN or nobody
    return _TYPE["self_play" if alone else "current_main"]


def _matches_of(deals: Sequence[_Deal]) -> Indices:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(deal.matches for deal in deals)])
