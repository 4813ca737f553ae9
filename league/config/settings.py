"""Settings of a run: assembled from the parts, read from YAML, contradictions refused.

Each part owns its settings class; this file puts them together. Every mistake becomes one
`ConfigError`: where, what was found, what was expected, what to do.
"""

from __future__ import annotations

import functools

import yaml
from pydantic import Field, field_validator

from league.config.sections import (
    EnvSettings,
    EvaluationSettings,
    InitFrom,
    LogSettings,
    StopSettings,
    StorageSettings,
)
from league.envs import registry
from league.envs.base import BatchedGame
from league.learning.settings import LearnerSettings, changed
from league.models.bots.scripted import Bots
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.requests import RolloutSettings
from league.rules.matchmaking.matchmaker import Matchmaker, MatchmakingSettings
from league.rules.matchmaking.uneven import SeatsOf
from league.rules.presets import LeagueSettings
from league.rules.rating.rating import RatingSettings
from league.runtime import ResourceSettings
from league.section import Section
from storage.records import Role


class Settings(Section):
    """Everything a run is made from. A run folder's config.yaml holds all of it, resolved."""

    name: str = Field(
        default="league", pattern=r"^[A-Za-z0-9._-]+$", description="Name of the run and its folder"
    )
    seed: int = Field(default=0, ge=0, description="Everything random is drawn from it")
    env: EnvSettings
    policy: PolicySettings = PolicySettings()
    league: LeagueSettings = LeagueSettings()
    bots: Bots = Field(
        default_factory=dict, description="Bots that need settings, by the names that they go by"
    )
    matchmaking: MatchmakingSettings = MatchmakingSettings()
    ratings: RatingSettings = RatingSettings()
    rollout: RolloutSettings = RolloutSettings()
    learner: LearnerSettings = LearnerSettings()
    init_from: tuple[InitFrom, ...] = Field(
        default=(), description="Players whose first weights are not drawn, and where they come from"
    )
    runners: int = Field(
        default=0, ge=0, description="Ray actors that play; 0: the driver plays, without Ray"
    )
    evaluation: EvaluationSettings = EvaluationSettings()
    resources: ResourceSettings = ResourceSettings()
    storage: StorageSettings = StorageSettings()
    stop: StopSettings = StopSettings()
    log: LogSettings = LogSettings()

    @field_validator("env")
    @classmethod
    def _env_exists(cls, env: EnvSettings) -> EnvSettings:
        if "step_limit" in env.options:
            raise ValueError(
                f"options.step_limit: found {env.options['step_limit']!r}, but the limit belongs to the run, "
                "not to the game; set rollout.step_limit"
            )
        registry.make(env.id, 1, **env.options)
        return env

    @functools.cached_property
    def game(self) -> BatchedGame:
        """One match of the game, for whoever must know its seats and spaces. Made once: it may be dear."""
        return registry.make(self.env.id, 1, step_limit=self.rollout.step_limit, **self.env.options)

    def policy_spec(self, player: str, role: Role) -> PolicySpec:
        """What `player` plays with. Raises ValueError for settings that are none, or fit no seat of it."""
        changes = self.league.policy_of(player, role)
        policy = PolicySettings.model_validate(self.policy.model_dump() | changes) if changes else self.policy
        return PolicySpec.for_game(policy, self.game, self.league.seats_of(player, role))

    def policy_specs(self) -> dict[str, PolicySpec]:
        """What each of the players that the league begins with plays with."""
        return {
            player: self.policy_spec(player, role)
            for role, players in self.league.player_names().items()
            for player in players
        }

    def learner_of(self, role: Role) -> LearnerSettings:
        """How players of `role` learn."""
        return changed(self.learner, self.league.resolve()[role].learner)

    def players(self) -> list[str]:
        """The players that the league begins with, in order."""
        return [name for names in self.league.player_names().values() for name in names]

    def seats_of(self) -> SeatsOf | None:
        """The seats that a competitor may take; none: everybody all of them."""
        return self.league.seats_by_competitor()

    def make_matchmaker(self, seats_of: SeatsOf | None = None) -> Matchmaker:
        """`seats_of`: who may sit where, if that is not for the settings alone to say."""
        return Matchmaker(
            self.league.resolve(),
            self.matchmaking,
            num_seats=self.game.num_seats,
            env=self.env.id,
            seed=self.seed,
            seats_of=self.seats_of() and (seats_of or self.seats_of()),
        )

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
