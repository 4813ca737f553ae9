"""Settings of a run, assembled from the settings classes of its parts."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

from league.cluster.runtime import ResourceSettings, available_cpus
from league.config.file import to_yaml
from league.config.sections import (
    EnvSettings,
    EvaluationSettings,
    InitFrom,
    LogSettings,
    RunnerRange,
    StopSettings,
    StorageSettings,
)
from league.envs import registry
from league.envs.adapters.gymnasium.seats import FollowingEnvs
from league.envs.base import BatchedGame
from league.learning.groups.shards import counted
from league.learning.settings import LearnerSettings, LearnersSettings
from league.models.bots.scripted import Bots
from league.models.spec import PolicySettings, PolicySpec, Precision
from league.rollout.openings import TrainingOpenings
from league.rollout.settings import RolloutSettings, TrainingRollout
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seat_limits import SeatsOf
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.presets import LeagueSettings
from league.rules.rating.rating import RatingSettings
from league.section import FOLDER_NAME, SettingsGroup, on_top
from storage.records import LivePlayer, Role

LEARNERS_PART = 4  # of the cores at most one in so many is for threads of learners
FEW_CORES = 2  # which runners share with the learners


@dataclass(frozen=True, slots=True)
class Processes:
    """Number of processes of a run on this machine, with so many `cores`, and threads of each that learns.

    A runner plays with one thread. A learner's process has the cores that are left, up to a quarter of the
    machine for all of them together, as threads of one process on busy cores wait for each other. On two
    cores two runners and a learner are three processes: runners then give way, so that experience is learned
    from as it comes.
    """

    cores: int
    runners: int  # those of evaluation among them
    learners: int
    threads: int  # of each learner

    @property
    def crowded(self) -> bool:
        """Whether there are more threads that compute than cores: runners then give way to learners."""
        return self.runners + self.learners * self.threads > self.cores

    def sentence(self) -> str:
        """Return the schedule in one sentence."""
        plays, learns = counted(self.runners, "runner"), counted(self.learners, "learner process")
        threads = "" if self.threads == 1 else f" of {self.threads} threads"
        way = "; runners give way to learners" if self.crowded else ""
        return f"{counted(self.cores, 'core')}: {plays} and {learns}{threads}{way}"


def runners_for(cores: int, learners: int, evaluation: int = 0) -> int:
    """Return how many runners fit beside so many learner processes: at least one.

    On one or two cores there is one on each: a learner that waits for experience needs no core.
    """
    taken = evaluation if cores <= FEW_CORES else learners + evaluation
    return max(1, cores - taken)


def threads_for(cores: int, runners: int, learners: int) -> int:
    """Return the threads of each learner beside so many runners: at least one."""
    return max(1, min(cores - runners, cores // LEARNERS_PART) // max(1, learners))


class Settings(SettingsGroup):
    """All settings of a run. The file config.yaml of a run folder holds them with defaults filled in."""

    name: str = Field(default="league", pattern=FOLDER_NAME, description="Name of the run and its folder")
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of all random numbers")
    env: EnvSettings
    policy: PolicySettings = PolicySettings()
    league: LeagueSettings = LeagueSettings()
    bots: Bots = Field(
        default_factory=dict, description="Bots that need settings, by the names that you give them"
    )
    matchmaking: MatchmakingSettings = MatchmakingSettings()
    ratings: RatingSettings = RatingSettings()
    rollout: TrainingRollout = TrainingRollout()
    opening: TrainingOpenings = TrainingOpenings()
    learner: LearnerSettings = LearnerSettings()
    learners: LearnersSettings = LearnersSettings()
    init_from: tuple[InitFrom, ...] = Field(
        default=(), description="Players whose first weights come from a snapshot"
    )
    runners: Annotated[int, Field(ge=0)] | Literal["auto"] | RunnerRange = Field(
        default=0,
        description="Number of Ray actors that play; 0: play in this process, without Ray; auto: one for "
        "each core of this machine that learners leave free, and two on two cores; "
        "`{min: 4, max: 64}`: as many as the nodes of a cluster have room for, while these come and go",
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

    @property
    def most_runners(self) -> int:
        """Number of runners, those of evaluation not among them; the most where it is a range."""
        if self.runners == "auto":
            return runners_for(available_cpus(), self.learner_processes, self.evaluation.runners)
        return self.runners if isinstance(self.runners, int) else self.runners.max

    @property
    def learner_processes(self) -> int:
        """Number of processes that learn, with runners."""
        return self.resources.gpus or (self.learners.shards or 1) * self.learners.processes

    @property
    def processes(self) -> Processes:
        """Processes of a run with runners, on this machine."""
        cores, runners = available_cpus(), self.most_runners + self.evaluation.runners
        learners, wanted = self.learner_processes, self.resources.learner_threads
        if wanted != "auto":
            return Processes(cores, runners, learners, wanted)
        elsewhere = self.resources.gpus or self.resources.address is not None
        spare = 1 if elsewhere else threads_for(cores, runners, learners)
        return Processes(cores, runners, learners, max(self.resources.threads, spare))

    @property
    def precision_of_play(self) -> Precision:
        """Precision of policies that play to train: without runners `auto` is float32, to be repeatable."""
        wanted = self.rollout.precision
        return "float32" if wanted == "auto" and self.most_runners == 0 else wanted

    @property
    def least_runners(self) -> int:
        """Number of runners that there must be room for, those of evaluation not among them."""
        return self.runners.min if isinstance(self.runners, RunnerRange) else self.most_runners

    @functools.cached_property
    def rollout_of_runners(self) -> RolloutSettings:
        """How runners play: sizes that are `auto` are the most that they may come to."""
        seen = sum(
            math.prod(space.shape or (1,)) * np.dtype(space.dtype).itemsize
            for space in self.game.observation_specs
        )
        return self.rollout.of_runners(seen, fixed=self.most_runners == 0)

    @functools.cached_property
    def game(self) -> BatchedGame:
        """A one-slot game to inspect seats and spaces; cached because it can be expensive to build."""
        return registry.make(self.env.id, 1, step_limit=self.rollout.step_limit, **self.env.options)

    @functools.cached_property
    def payoff_scale(self) -> float | None:
        """Lead per game that is as good as a certain win; `None` if payoffs count games won.

        Raise ValueError if the game has no scores to count.
        """
        game = self.game
        return self.league.payoff.scale_for(game.score_bounds, game.score_unit)

    def policy_spec(self, player: str, role: Role) -> PolicySpec:
        """Return the policy of `player`.

        Raise ValueError if the policy settings are invalid or match none of the player's seats.
        """
        policy = self._policy_of(player, role)
        own = self.league.resolve().of(LivePlayer(player, role)).env
        if own is not None:
            game = registry.make(own.id, 1, step_limit=self.rollout.step_limit, **own.options)
            return PolicySpec.for_game(policy, game)
        return PolicySpec.for_game(policy, self.game, self.league.seats_of(player, role))

    def policy_specs(self) -> dict[str, PolicySpec]:
        """Return the policies of the players that the league begins with, by name."""
        of_settings = {
            player if player in self.league.members else role: self.policy_spec(player, role)
            for role, player in self.league.different_players()
        }
        return {
            player: of_settings[player if player in self.league.members else role]
            for player, role in self.players().items()
        }

    def own_code(self) -> tuple[str, ...]:
        """Return the import paths of all code of the user's that policies of this league are played with.

        Roles that have no player yet count: the league builder may add one, and a runner that takes the place
        of a dead one has to know its code before the first request.
        """
        of_players = [self._policy_of(player, role) for role, player in self.league.different_players()]
        of_roles = [self._policy_of("", role) for role in self.league.resolve()]
        return tuple(sorted({path for policy in (*of_players, *of_roles) for path in policy.own_code}))

    def _policy_of(self, player: str, role: Role) -> PolicySettings:
        changes = self.league.policy_of(player, role)
        if not changes:
            return self.policy
        return PolicySettings.model_validate(on_top(self.policy.model_dump(), changes))

    def learner_of(self, player: str, role: Role) -> LearnerSettings:
        """Return the learner settings of `player`, which has the role `role`.

        Without runners, `precision: auto` is float32: such runs can be repeated.
        """
        own = self.learner.changed(self.league.resolve().of(LivePlayer(player, role)).learner)
        if self.most_runners == 0 and own.precision == "auto":
            return own.model_copy(update={"precision": "float32"})
        return own

    def following(self) -> FollowingEnvs:
        """Return the games of matches to which roles bring an env of their own. Raise ValueError."""
        own = {role: rules.env for role, rules in self.league.resolve().items() if rules.env is not None}
        return FollowingEnvs(self.env.model_dump(), {role: env.model_dump() for role, env in own.items()})

    def players(self) -> dict[str, Role]:
        """Return the roles of the players that the league begins with, by their names, in order."""
        return {name: role for role, names in self.league.player_names().items() for name in names}

    def make_matchmaker(self, allowed_seats: SeatsOf | None = None) -> Matchmaker:
        """Return the matchmaker of this league.

        `allowed_seats` returns the seats that a competitor may take, for a run that has competitors
        beyond those of the settings. It is not used if all players of the league may take all seats.
        """
        of_players = self.league.seats_by_competitor()
        all_may_take_all = of_players is None
        return Matchmaker(
            self.league.resolve(),
            self.matchmaking,
            num_seats=self.game.num_seats,
            env=self.env.id,
            seed=self.seed,
            seats_of=None if all_may_take_all else allowed_seats or of_players,
            own=self.league.own_matchmaker(),
        )

    def to_yaml(self) -> str:
        """Return all settings as YAML, defaults filled in."""
        return to_yaml(self.model_dump(mode="json"))
