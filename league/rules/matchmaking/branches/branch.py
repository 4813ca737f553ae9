"""Base of a matchmaking branch: one way of finding opponents, with the settings that it needs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, field_validator, model_validator

from league.moved_keys import gone
from league.rules.matchmaking.pools import Pool, Weighting, alike, check_name, find_weighting, probabilities
from league.rules.roster import Roster
from league.rules.standings import Standings, prior_strength
from league.section import OwnPart, SettingsGroup
from storage.arrays import Floats, Indices
from storage.records import LivePlayer


class OpponentRules(SettingsGroup):
    """Rules that the branches of one role share."""

    _gone = model_validator(mode="before")(gone)

    prior_strength: float = prior_strength()
    switch_below: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Win rate against a current main below which past mains are played instead",
    )
    bots: dict[str, PositiveFloat] = Field(
        default_factory=dict, description="Bots that branch `bots` plays, and the weight of each"
    )


@dataclass(frozen=True, slots=True)
class LeagueView:
    """League, as a branch gets it to find opponents of `player`.

    Competitors are indices into the roster: `roster.at(index)` is the competitor, `roster.index(id)` its
    index, and arrays such as `standings.ratings.mu` are by index.
    """

    player: LivePlayer
    roster: Roster
    standings: Standings
    rules: OpponentRules
    branches: Mapping[str, Branch]  # of the player's role, by name

    @property
    def home(self) -> int:
        """Index of the player."""
        return self.roster.index(self.player.player)

    def rates(self, candidates: Indices) -> Floats:
        """Return the player's win rates [k] against `candidates` [k], in [0, 1]."""
        return self.standings.win_rate(self.home, candidates, self.rules.prior_strength)

    def snapshots_of(self, player: str) -> Indices:
        """Return the snapshots of `player` that may be played [k], oldest first, without retired ones."""
        seated = self.roster.snapshots()
        return np.intersect1d(self.roster.snapshots_of(player), seated, assume_unique=True)

    def other_mains(self) -> Indices:
        """Return the live mains [k] without the player."""
        mains = self.roster.mains()
        return mains[mains != self.home]


class Branch(SettingsGroup):
    """One way of finding opponents: a subclass has its settings as fields, and `candidates`.

    A user's own branch is a subclass in a module that Python can import:

        class Upstairs(Branch):
            '''Plays the snapshots that are rated above the player, the best `most` of them.'''

            most: int = Field(default=5, ge=1, description="Number of snapshots to play")

            def candidates(self, view):
                snapshots = view.roster.snapshots()
                mu = view.standings.ratings.mu
                above = snapshots[mu[snapshots] > mu[view.home]]
                return above[np.argsort(-mu[above])][: self.most]

    A role draws it by `branches: {upstairs: {use: my_module:Upstairs, share: 0.2, most: 3}}`. Its matches are
    recorded with match type "upstairs". Derive from `WeightedBranch` to weight candidates by win rate.
    """

    share: float = Field(ge=0, le=1, description="Share of the role's matches")

    fallback: ClassVar[Literal["current_main", "self_play"]] = "current_main"
    """Branch that is played where there are no candidates. For a main it is always `self_play`."""
    any_seat: ClassVar[bool] = False
    """`True` if the branch needs a league in which every competitor may take every seat."""
    alone: ClassVar[bool] = False
    """`True` if the branch needs no opponents, so that a game for one can have it."""
    drawn: ClassVar[bool] = True
    """`True` if opponents are drawn from `pool`. The matchmaker itself seats those of other branches."""

    def check(self, rules: OpponentRules) -> None:
        """Raise ValueError for rules of the role that contradict this branch."""

    def prepare(self) -> None:
        """Import what the settings name. Raise ValueError for a name that cannot be imported."""

    def candidates(self, view: LeagueView) -> Indices:
        """Return the indices [k] of the competitors to draw from; none if k is 0."""
        raise NotImplementedError(f"{type(self).__name__} has no candidates(view)")

    def pool(self, view: LeagueView) -> Pool:
        """Return the candidates [k] with the probability of each; all are equally likely here."""
        return alike(self.candidates(view))

    @property
    def waits(self) -> bool:
        """`True` if the branch may want matches for the record."""
        return False

    def wanted(self, view: LeagueView) -> tuple[int, Pool] | None:
        """Return a competitor, and its opponents, that are to play for the record before anything is learned.

        While a branch of a role wants such matches, its players play no others. `None` if it wants none.
        """
        return None


class WeightedBranch(Branch):
    """Branch whose candidates are drawn by a function of the player's win rates against them."""

    weighting: str | OwnPart = Field(
        default="hard",
        description="Weights of opponents by win rate, or your own, {use: module:name}",
    )
    exponent: float = Field(
        default=2.0,
        gt=0,
        allow_inf_nan=False,
        description="q of weighting hard: (1 - p)^q",
    )

    @field_validator("weighting")
    @classmethod
    def _known(cls, weighting: str | OwnPart) -> str | OwnPart:
        if isinstance(weighting, str):
            check_name(weighting)
        return weighting

    @model_validator(mode="after")
    def _exponent_has_a_use(self) -> Self:
        if self.weighting != "hard" and self.exponent != 2.0:
            raise ValueError(
                f"exponent: found {self.exponent:g}, but weighting '{self.weighting}' has no exponent; "
                "remove it, or set weighting: hard"
            )
        return self

    @functools.cached_property
    def _weigh(self) -> Weighting:
        if isinstance(self.weighting, OwnPart):
            return find_weighting(self.weighting.use, options=self.weighting.options)
        return find_weighting(self.weighting, self.exponent)

    def prepare(self) -> None:
        """Import a weighting of the user's own. Raise ValueError if it cannot be imported."""
        _ = self._weigh

    def weighted(self, candidates: Indices, rates: Floats) -> Pool:
        """Return `candidates` [k] with probabilities by their win rates [k]."""
        return Pool(candidates, probabilities(self._weigh, rates)) if len(candidates) else alike(candidates)

    def pool(self, view: LeagueView) -> Pool:
        """Return the candidates [k] with probabilities by the weighting."""
        candidates = self.candidates(view)
        return self.weighted(candidates, view.rates(candidates))
