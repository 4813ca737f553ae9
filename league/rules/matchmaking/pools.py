"""Whom a branch may draw for one player, and how likely each is: arrays over the roster's indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from league.rules.matchmaking.branches import OpponentSettings
from league.rules.matchmaking.nash import META_STRATEGIES, rectify
from league.rules.matchmaking.weighting import Weighting, find_weighting, probabilities, variance
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.arrays import Floats, Indices
from storage.records import MAIN, MAIN_EXPLOITER, LivePlayer


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates [k] and the probability of each [k]; k may be 0."""

    candidates: Indices
    p: Floats

    def __bool__(self) -> bool:
        return len(self.candidates) > 0


NOBODY = Pool(np.zeros(0, dtype=np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class _Mixture:
    """A meta-strategy, and when it was found."""

    candidates: Indices
    p: Floats
    games: int


class Pools:
    """The pools of players of one role. It remembers only the mixtures of `nash`, as they are dear."""

    def __init__(self, settings: OpponentSettings) -> None:
        self._settings = settings
        self._weightings: dict[str, Weighting] = {
            name: find_weighting(branch.weighting, branch.exponent)
            for name, branch in settings.branches.items()
        }
        self._mixture: _Mixture | None = None

    def rates(self, home: int, candidates: Indices, standings: Standings) -> Floats:
        """Win rates [k] of `home` against each candidate."""
        return standings.win_rate(home, candidates, self._settings.prior_strength)

    def find(self, branch: str, player: LivePlayer, roster: Roster, standings: Standings) -> Pool:
        """The pool of a branch that draws its opponents one by one."""
        home = roster.index(player.player)
        match branch:
            case "pfsp":
                candidates = roster.snapshots()
            case "past_main":
                candidates = roster.snapshots(MAIN)
            case "latest":
                candidates = _seated(player.player, roster)[-1:]
                return Pool(candidates, np.ones(len(candidates)))
            case "window":
                size = self._settings.branches["window"].window or 0  # -0 and on: all
                candidates = _seated(player.player, roster)[-size:]
            case "peers":
                candidates = roster.mains()[roster.mains() != home]
            case "bots":
                return self._bots(roster)
            case "nash":
                return self._nash(home, roster, standings)
            case "forgotten":
                return self._forgotten(home, roster, standings)
            case _:
                raise ValueError(f"branch '{branch}' has no pool")
        return self._weighted(branch, candidates, self.rates(home, candidates, standings))

    def past_of(self, main: int, home: int, roster: Roster, standings: Standings) -> Pool:
        """The snapshots of one main, for a player that it is too strong for."""
        candidates = _seated(roster.id(main), roster)
        return self._weighted("past_main", candidates, self.rates(home, candidates, standings))

    def verification(self, main: int, home: int, roster: Roster, standings: Standings) -> Pool:
        """What has to be verified against a chosen main: past main exploiters, or what was forgotten of
        its past; nobody when nothing was found (AlphaStar's pseudocode, MainPlayer)."""
        exploiters = roster.snapshots(MAIN_EXPLOITER)
        rates = self.rates(home, exploiters, standings)
        if len(exploiters) and rates.min() < self._settings.exploited_below:
            return self._weighted("verification", exploiters, rates)
        past = _seated(roster.id(main), roster)
        rates = self.rates(home, past, standings)
        kept = before_monotone_suffix(rates)
        if kept and rates[:kept].min() < self._settings.unsafe_below:
            return self._weighted("verification", past[:kept], rates[:kept])
        return NOBODY

    def newcomers(self, roster: Roster, standings: Standings) -> Pool:
        """Snapshots that have too few games to be placed, all alike."""
        snapshots = roster.snapshots()
        games = standings.ratings.games[snapshots]
        return _alike(snapshots[games < standings.settings.placement_games])

    def _weighted(self, branch: str, candidates: Indices, rates: Floats) -> Pool:
        if not len(candidates):
            return NOBODY
        # A switch leads to past mains even in a role that has no such branch of its own.
        return Pool(candidates, probabilities(self._weightings.get(branch, variance), rates))

    def _forgotten(self, home: int, roster: Roster, standings: Standings) -> Pool:
        mains = roster.snapshots(MAIN)
        candidates = np.concatenate([mains, roster.snapshots(MAIN_EXPLOITER)])
        below = np.full(len(candidates), self._settings.strong_exploiter_below)
        below[: len(mains)] = self._settings.forgotten_below
        rates = self.rates(home, candidates, standings)
        return self._weighted("forgotten", candidates[rates < below], rates[rates < below])

    def _bots(self, roster: Roster) -> Pool:
        there = [bot for bot in self._settings.bots if bot in roster]
        weights = np.array([self._settings.bots[bot] for bot in there], dtype=np.float64)
        return Pool(roster.indices(there), weights / weights.sum()) if there else NOBODY

    def _nash(self, home: int, roster: Roster, standings: Standings) -> Pool:
        candidates, branch = roster.snapshots(), self._settings.branches["nash"]
        if not len(candidates):
            return NOBODY
        games, found = int(standings.ratings.games.sum()), self._mixture
        if (
            found is None
            or not np.array_equal(found.candidates, candidates)
            or abs(games - found.games) >= branch.refresh_games  # a reset takes games away
        ):
            rates = self.rates(cast(int, candidates[:, None]), candidates, standings)  # [n, n]: it broadcasts
            payoff = rates - rates.T  # 2 p - 1, antisymmetric to the last bit
            self._mixture = found = _Mixture(candidates, META_STRATEGIES[branch.meta_strategy](payoff), games)
        if branch.meta_strategy == "rectified":
            return Pool(candidates, rectify(found.p, self.rates(home, candidates, standings)))
        return Pool(candidates, found.p)


def before_monotone_suffix(rates: Floats) -> int:
    """How many of the rates [n], oldest first, remain without the newest run in which they only fall:
    up to the last that is above the one before it; 0 when there is none."""
    rises = np.flatnonzero(rates[1:] > rates[:-1])
    return int(rises[-1]) + 2 if len(rises) else 0


def everybody(roster: Roster) -> Pool:
    """All seated snapshots and bots, all alike."""
    return _alike(np.concatenate([roster.snapshots(), roster.indices(bot.name for bot in roster.bots)]))


def rarest_pairs(roster: Roster, standings: Standings) -> Floats:
    """How likely each pair of snapshots [n, n] is to be played for the record: in proportion to
    1 / (1 + games of the pair), nobody against itself. Sums to 1 for n of at least 2."""
    snapshots = roster.snapshots()
    weights = 1.0 / (1.0 + standings.payoff.recorded(cast(int, snapshots[:, None]), snapshots))
    np.fill_diagonal(weights, 0.0)
    return weights / weights.sum()


def _seated(player: str, roster: Roster) -> Indices:
    """A player's snapshots that may be played, in order of admission."""
    return np.intersect1d(roster.snapshots_of(player), roster.snapshots(), assume_unique=True)


def _alike(candidates: Indices) -> Pool:
    return Pool(candidates, np.full(len(candidates), 1.0 / max(len(candidates), 1)))
