"""Presets: named leagues with full settings for each role, and a user's changes on top.

alphastar_paper       mains, main exploiters and league exploiters (Vinyals et al.: Grandmaster level in
                      StarCraft II using multi-agent reinforcement learning, Nature 2019, Methods)
alphastar_pseudocode  the same league, as in the paper's supplementary pseudocode
win_rate_threshold    a main against all of its past, frozen as soon as it beats all of it (RLlib's
                      self-play examples)
self_play             a main that plays itself, and the newest of its past in a fifth of its matches (OpenAI:
                      Dota 2 with large scale deep reinforcement learning, 2019, 80 to 20; ML-Agents, whose
                      window is 10)
fictitious            a main against all of its past alike (Heinrich, Silver: Deep reinforcement learning
                      from self-play in imperfect-information games, 2016, without the average network)
pfsp                  a main against all snapshots, the harder the more (AlphaStar's ablation)
psro                  best responses to the maximum-entropy Nash mixture of the pool, one after the other and
                      each from scratch; before each the pool plays until its mixture is known (Lanctot et
                      al.: A unified game-theoretic approach to multiagent reinforcement learning, NeurIPS
                      2017)
population            mains that play each other, the nearer to even the more; one that is surely worse takes
                      the weights of a better one (Jaderberg et al.: Human-level performance in 3D multiplayer
                      games, Science 2019)
none                  mains that play themselves only, without snapshots; all that a game for one can have
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

from pydantic import Field, NonNegativeInt, ValidationError, model_validator

from league.mistakes import placed
from league.moved_keys import LEAGUE, refused
from league.rules.building.builder import (
    FreezeSettings,
    LeagueBuilder,
    ResetSettings,
    make_builder,
)
from league.rules.matchmaking.branches import Branch, OpponentSettings
from league.rules.matchmaking.branches.live_opponents import (
    CurrentMain,
    Mains,
    OtherMains,
    SelfPlay,
    Verification,
)
from league.rules.matchmaking.branches.own_branch import OwnMatchmaker, find_matchmaker
from league.rules.matchmaking.branches.past_opponents import Forgotten, PastMain, Pfsp, Window
from league.rules.matchmaking.branches.psro import Nash
from league.rules.matchmaking.seat_limits import SeatsOf
from league.rules.payoff import PayoffSettings
from league.rules.roles import MemberSettings, RoleSettings, merged
from league.rules.roster import Rules
from league.section import Default, DefaultOrOwn, OwnPart, SettingsGroup
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, Competitor, LivePlayer, Role, Snapshot
from storage.suggestions import or_near

Roles = Mapping[Role, RoleSettings]


def _alphastar_paper(n: int) -> Roles:
    """Return the paper's league. N was 2e9 steps; `min_steps` is ours, as 50 lucky games take no time."""
    soon = n // 10
    branches: dict[str, Branch] = {
        "self_play": SelfPlay(share=0.35),
        "pfsp": Pfsp(share=0.5, weighting="hard"),
        "forgotten": Forgotten(share=0.15, weighting="hard"),
    }
    of_mains = {
        "current_main": CurrentMain(share=0.5),
        "past_main": PastMain(share=0.5, weighting="variance"),
    }
    return {
        MAIN: _role(branches, FreezeSettings(max_steps=n)),
        MAIN_EXPLOITER: _role(
            of_mains, FreezeSettings(beats="mains", min_steps=soon, max_steps=2 * n), 1.0, switch_below=0.2
        ),
        LEAGUE_EXPLOITER: _role(
            {"pfsp": Pfsp(share=1.0, weighting="hard")},
            FreezeSettings(beats="snapshots", min_steps=soon, max_steps=n),
            0.25,
        ),
    }


def _alphastar_pseudocode(n: int) -> Roles:
    """Return the pseudocode's league. Its rates are "at most 0.3" and "at most 0.1", so `switch_below` is the
    next number."""
    at_most_30, at_most_10 = math.nextafter(0.3, 1.0), math.nextafter(0.1, 1.0)
    of_mains = FreezeSettings(beats="mains", min_steps=n, max_steps=2 * n)
    of_all = FreezeSettings(beats="snapshots", min_steps=n, max_steps=2 * n)
    branches: dict[str, Branch] = {
        "pfsp": Pfsp(share=0.5, weighting="hard"),
        "verification": Verification(share=0.15, weighting="hard"),
        "mains": Mains(share=0.35),
    }
    return {
        MAIN: _role(branches, of_all, switch_below=at_most_30),
        MAIN_EXPLOITER: _role({"mains": Mains(share=1.0)}, of_mains, 1.0, switch_below=at_most_10),
        LEAGUE_EXPLOITER: _role({"pfsp": Pfsp(share=1.0, weighting="capped_linear")}, of_all, 0.25),
    }


def _win_rate_threshold(n: int) -> Roles:
    """Return RLlib's league. It has no least number of steps either; `min_steps` is ours, as above."""
    freeze = FreezeSettings(beats="snapshots", win_rate=0.95, min_steps=n // 10)
    return {MAIN: _role({"window": Window(share=1.0)}, freeze)}


def _self_play(n: int) -> Roles:
    branches = {"self_play": SelfPlay(share=0.8), "window": Window(share=0.2, window=10)}
    return {MAIN: _role(branches, FreezeSettings(max_steps=n))}


def _fictitious(n: int) -> Roles:
    return {MAIN: _role({"window": Window(share=1.0)}, FreezeSettings(max_steps=n))}


def _pfsp(n: int) -> Roles:
    return {MAIN: _role({"pfsp": Pfsp(share=1.0, weighting="hard")}, FreezeSettings(max_steps=n))}


def _psro(n: int) -> Roles:
    """Return PSRO's league: the main is the best response, in N steps from scratch on its own schedules."""
    role = _role({"nash": Nash(share=1.0, error=0.05)}, FreezeSettings(max_steps=n), 1.0, evaluate="pool")
    return {MAIN: role.model_copy(update={"schedules": "freeze"})}


def _population(n: int) -> Roles:
    """Return a population. Ratings alone predict, as the paper pairs by Elo."""
    role = _role({"peers": OtherMains(share=1.0)}, FreezeSettings(max_steps=n), prior_strength=1e6)
    return {MAIN: role.model_copy(update={"reset": ResetSettings(probability=1.0, target="better")})}


def _none(n: int) -> Roles:
    return {MAIN: _role({"self_play": SelfPlay(share=1.0)}, FreezeSettings())}


def _role(
    branches: Mapping[str, Branch], freeze: FreezeSettings, reset: float = 0.0, **opponents: Any
) -> RoleSettings:
    """Return the rules of a role with these branches; `reset`: the probability after each freeze."""
    return RoleSettings(
        opponents=OpponentSettings(branches=dict(branches), **opponents),
        freeze=freeze,
        reset=ResetSettings(probability=reset),
    )


PRESETS: Mapping[str, Callable[[int], Roles]] = MappingProxyType(
    {
        "alphastar_paper": _alphastar_paper,
        "alphastar_pseudocode": _alphastar_pseudocode,
        "win_rate_threshold": _win_rate_threshold,
        "self_play": _self_play,
        "fictitious": _fictitious,
        "pfsp": _pfsp,
        "psro": _psro,
        "population": _population,
        "none": _none,
    }
)
_ALPHASTAR: Mapping[str, int] = {MAIN: 1, MAIN_EXPLOITER: 1, LEAGUE_EXPLOITER: 2}
_PLAYERS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {"alphastar_paper": _ALPHASTAR, "alphastar_pseudocode": _ALPHASTAR, "population": {MAIN: 4}}
)


MOST_PLAYERS = 512  # that a league begins with


class LeagueSettings(SettingsGroup):
    """League: a preset, the number of players of each role, and changes to the preset."""

    preset: str = Field(
        default="alphastar_paper",
        description="Named set of rules to start from; left out in a game of one seat: none",
    )
    freeze_every: int = Field(
        default=1_000_000, gt=0, description="N: env steps that the preset derives its own settings from"
    )
    players: dict[str, NonNegativeInt] = Field(
        default_factory=lambda so_far: dict(_PLAYERS.get(so_far["preset"], {MAIN: 1})),
        description="Players of each role; left out: as many as the preset has",
    )
    roles: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Changes to the preset's roles, or whole new roles"
    )
    members: dict[str, MemberSettings] = Field(
        default_factory=dict, description="Players that differ from others of their role, by name"
    )
    decay: float = Field(
        default=0.99,
        gt=0,
        le=1,
        description="Factor on the weight of a game with each further game of its pair",
    )
    payoff: PayoffSettings = Field(
        default=PayoffSettings(), description="What counts between two competitors: games won, or scores"
    )
    builder: DefaultOrOwn = Field(
        default=Default(),
        description="Class that decides on freezes and resets: default, or your own, {use: module:Class}, "
        "with its keyword arguments beside it",
    )
    matchmaker: DefaultOrOwn = Field(
        default=Default(),
        description="Function or class that finds the opponents of training matches: default, by the "
        "branches of the roles, or your own, {use: module:name}, with its keyword arguments beside it",
    )

    _moved = model_validator(mode="before")(refused(LEAGUE))

    @model_validator(mode="after")
    def _resolves(self) -> Self:
        if self.preset not in PRESETS:
            raise ValueError(
                f"preset: '{self.preset}' is unknown, expected one of "
                f"{', '.join(PRESETS)}{or_near(self.preset, PRESETS)}"
            )
        if self.players.get(MAIN, 0) < 1:
            found = ", ".join(f"{role}: {count}" for role, count in self.players.items())
            raise ValueError(
                f"players: found {found or 'none'}, but a league needs at least one main, as all other roles "
                "train against mains; add 'main: 1'"
            )
        if (total := sum(self.players.values())) > MOST_PLAYERS:
            raise ValueError(
                f"players: found {total:,} in all, expected at most {MOST_PLAYERS}, as each has a network "
                "and an optimizer of its own; lower their number"
            )
        names = [name for of_role in self.player_names().values() for name in of_role]
        for name in self.members:
            if name not in names:
                raise ValueError(
                    f"members.{name}: no such player{or_near(name, names)}, "
                    f"expected one of {', '.join(names)}"
                )
        self.resolve()
        return self

    def resolve(self) -> Rules[RoleSettings]:
        """Return full settings of every role under `players`, and of players that differ from their role.

        A role with 0 players is one of which a builder may add some later. Raise ValueError for missing ones.
        """
        preset = PRESETS[self.preset](self.freeze_every)
        known = set(preset) | set(self.players)
        for name in self.roles:
            if name not in known:
                raise ValueError(
                    f"roles.{name}: there are no players of this role{or_near(name, known)}; "
                    f"add '{name}: 1' to players, or '{name}: 0' if your builder adds some, or remove it"
                )
        roles = {
            Role(name): self._resolve(Role(name), preset)
            for name, count in self.players.items()
            if count or name in preset or name in self.roles
        }
        of_role = {name: role for role, names in self.player_names().items() for name in names}
        return Rules(roles, {name: self._member(name, roles[of_role[name]]) for name in self.members})

    def _member(self, name: str, role: RoleSettings) -> RoleSettings:
        try:
            return self.members[name].on_top_of(role)
        except ValidationError as error:
            mistakes = placed(error, RoleSettings, "members", name)
            raise ValidationError.from_exception_data("league", mistakes) from None

    def _resolve(self, role: Role, preset: Roles) -> RoleSettings:
        if role not in preset and role not in self.roles:
            raise ValueError(
                f"players.{role}: preset '{self.preset}' has no such role"
                f"{or_near(role, preset)}; describe it in full as roles.{role}"
            )
        base = preset[role].model_dump() if role in preset else {}
        try:
            return RoleSettings.model_validate(merged(base, self.roles.get(role, {})))
        except ValidationError as error:
            mistakes = placed(error, RoleSettings, "roles", role)
            raise ValidationError.from_exception_data("league", mistakes) from None

    def make_builder(self) -> LeagueBuilder:
        """Return the builder of this league. Raise ValueError if a user's own cannot be made."""
        try:
            own = self.builder.options if isinstance(self.builder, OwnPart) else {}
            return make_builder(self.builder.kind, self.resolve(), own)
        except ValueError as error:
            raise ValueError(f"league.builder: {error}") from error

    def own_matchmaker(self) -> OwnMatchmaker | None:
        """Return the user's own matchmaker, if there is one. Raise ValueError if it cannot be made."""
        if not isinstance(self.matchmaker, OwnPart):
            return None
        try:
            return find_matchmaker(self.matchmaker.use, self.matchmaker.options)
        except ValueError as error:
            raise ValueError(f"league.matchmaker: {error}") from error

    def policy_of(self, player: str, role: Role) -> dict[str, Any]:
        """Return the settings of `player`'s policy that differ from the run's."""
        return self.resolve().of(LivePlayer(player, role)).policy

    def seats_of(self, player: str, role: Role) -> tuple[int, ...] | None:
        """Return the seats that `player` and its snapshots may take; `None` for all."""
        rules = self.resolve()
        return rules.of(LivePlayer(player, role)).seats if role in rules else None

    def seats_by_competitor(self) -> SeatsOf | None:
        """Return a function from a competitor to the seats of its player; `None` if all may take all."""
        rules = self.resolve()
        if all(one.seats is None for one in rules.places().values()):
            return None

        def seats_of(competitor: Competitor) -> tuple[int, ...] | None:
            if not isinstance(competitor, LivePlayer | Snapshot) or competitor.role not in rules:
                return None
            return rules.of(LivePlayer(competitor.player, competitor.role)).seats

        return seats_of

    def bots(self) -> list[str]:
        """Return the bots that any role plays, each once, in order."""
        rules = self.resolve().places().values()
        return list(dict.fromkeys(bot for role in rules for bot in role.opponents.bots))

    def player_names(self) -> dict[Role, list[str]]:
        """Return the players of each role: `main-0`, `main-1`, ..."""
        return {
            Role(role): [f"{role}-{i}" for i in range(count)] for role, count in self.players.items() if count
        }

    def different_players(self) -> list[tuple[Role, str]]:
        """Return the role and name of one player for each set of settings that players share, in order."""
        return [
            (role, name)
            for role, names in self.player_names().items()
            for name in [
                *[n for n in names if n not in self.members][:1],
                *(n for n in names if n in self.members),
            ]
        ]
