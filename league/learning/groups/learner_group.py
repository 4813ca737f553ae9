"""Learners for programs of their own: no config, no game, and Ray only where processes are asked for.

    group = LearnerGroup({"main": spec}, {"loss": "ppo"})
    group.update_from_episodes({"main": episodes})                wait, return the figures of the updates
    group.update_from_batch({"main": rows}, async_update=True)    return at once; `wait` returns the figures
    group.policy("main")                                          the policy with its newest weights, to act

`rows` are tensors or arrays under names of your own, for a `Loss` of your own that sees "batch".
`league.Learner` is one learner alone, with the same updates.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self, TypeVar

import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor

from league.cluster.runtime import ResourceSettings, check_resources, ray_session
from league.episode import Episodes
from league.learning.data.checks import check_episodes
from league.learning.groups.learners import Learners
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.replacement import LearnersLost
from league.learning.groups.shard_learners import Experience, LearnerStopped, Recruit, Recruits
from league.learning.groups.shards import Shard, evenly, num_cpus, plan_shards
from league.learning.learner.learner import LearnerState, NonFiniteLoss, told
from league.learning.settings import LearnerSettings, LearnersSettings
from league.mistakes import explain
from league.models.networks.networks import build_network
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from storage.errors import Mistake
from storage.suggestions import did_you_mean

WAIT_SECONDS = 1.0  # between two looks at processes that may have died

Figures = dict[str, float]
Model = TypeVar("Model", bound=BaseModel)
Settings = LearnerSettings | Mapping[str, Any]


class UnknownPlayer(Mistake, LookupError):
    """A player that no learner of the group has."""


class LearnerGroup:
    """Learners of several players, here or in processes of their own.

    Every method raises UnknownPlayer for a player that is not here. One learner's updates are made in the
    order in which they were asked for; those of others do not wait for them, if they are in other processes.
    """

    def __init__(
        self,
        policies: Mapping[str, PolicySpec],
        settings: Settings = LearnerSettings(),  # noqa: B008  # frozen
        *,
        seed: int = 0,
        processes: int = 0,
        gpus: int = 0,
        threads: int | None = None,
        address: str | None = None,
        max_backlog: int = 2,
    ) -> None:
        """Begin with the weights that `seed` gives each player of `policies`, one or more.

        `settings`: of all learners, as in the section `learner` of a config. `processes`: 0: in a thread of
        this process; more: so many Ray actors, which share the players, or each player's updates if there are
        more of them than players. `gpus`: for all learners; with `processes`, there is an actor on each.
        `threads`: torch's, in each process; `None`: as torch has them here, and 1 in each actor.
        `address`: of a Ray cluster to join. `max_backlog`: updates of a player that may be under way.

        Raise Mistake for settings that do not fit and for missing resources, WeightsMismatch for code in a
        spec that is not trusted.
        """
        self._settings = _validated(LearnerSettings, settings, "learner")
        shared = {"max_backlog": max_backlog}
        self._shared = _validated(LearnersSettings, shared, "LearnerGroup")
        self._seed = seed
        self._count = 0  # of recruits so far
        if not policies:
            raise Mistake("LearnerGroup: found no policies, expected one or more by player")
        if processes < 0 or gpus < 0:
            raise Mistake(f"LearnerGroup: found {processes} processes and {gpus} GPUs, expected 0 or more")
        resources = ResourceSettings(gpus=gpus, address=address)
        check_resources(resources, processes)
        each = tuple(self._recruit(player, spec, self._settings) for player, spec in policies.items())
        device = "cuda" if gpus else "cpu"
        threads = threads or (1 if processes else torch.get_num_threads())
        recruits = Recruits(each, device, threads, self._shared)
        shards = _shards(processes, gpus, tuple(policies))
        with contextlib.ExitStack() as begun:
            self._learners: Learners
            if processes:
                begun.enter_context(ray_session(resources, num_cpus(shards)))  # unless there is one
                self._learners = RayLearners(shards, recruits)
            else:
                self._learners = LocalLearners(shards, recruits, thread=True)
            begun.callback(self._learners.close)
            for player in policies:
                self._learners.state(player)  # errors while processes are built are raised here
            self._begun = begun.pop_all()
        self._policies = dict(policies)
        self._stopped: dict[str, LearnerStopped] = {}
        self._figures: dict[str, Figures | None] = {}  # not returned yet

    @property
    def players(self) -> tuple[str, ...]:
        """The names of all players that learn here."""
        return tuple(self._policies)

    # ------------------------------------------------------------------ updates

    def update_from_batch(
        self, batches: Mapping[str, Mapping[str, Any]], *, progress: float = 0.0, async_update: bool = False
    ) -> dict[str, Figures | None]:
        """Make one update of each player from its batch: tensors or arrays [N, ...] by names of your own.

        Return the figures by player, when all updates are made. With `async_update`: submit them and return
        at once the figures of updates that were finished meanwhile; each comes once, from the next call or
        from `wait`. A player with `max_backlog` updates under way is waited for. `progress` in
        [0, 1]: for schedules. Raise NonFiniteLoss, which stops the player until `reset`, `set_state` or
        `replace`; Mistake for tensors that the loss cannot take. An error in an update that is not waited for
        is raised by a later call.
        """
        return self._update(batches, progress, async_update)

    def update_from_episodes(
        self, episodes: Mapping[str, Episodes], *, progress: float = 0.0, async_update: bool = False
    ) -> dict[str, Figures | None]:
        """Learn from episodes of each player, as `Learner.update_from_episodes` does.

        Figures are `None` while a player's episodes wait for a batch to fill. Raise MalformedEpisodes for
        the first that are; no player has learned then. All else is as in `update_from_batch`.
        """
        for player, given in episodes.items():
            spec = self._policies[self._require(player)]
            check_episodes(given, player, spec, functools.partial(_memory_size, spec))
        # a program may have changed what was recorded
        own = {player: replace(given, unbroken=None) for player, given in episodes.items()}
        return self._update(own, progress, async_update)

    def wait(self) -> dict[str, Figures | None]:
        """Wait for all updates under way; return the newest figures of each player not returned before."""
        self._collect(everything=True)
        return self._take()

    def _update(
        self, experience: Mapping[str, Experience], progress: float, async_update: bool
    ) -> dict[str, Figures | None]:
        for player in experience:
            self._require(player)
            if player in self._stopped:
                raise _refusal(self._stopped[player])
        for player, part in experience.items():
            while self._learners.under_way(player) >= self._shared.max_backlog:
                self._collect(everything=False)
            self._learners.submit(player, part, progress)
        if async_update:
            self._collect(everything=False, wait=False)
            return self._take()
        self._collect(everything=True)
        return self._take()

    def _collect(self, *, everything: bool, wait: bool = True) -> None:
        """Note what is finished; `everything`: all that is under way, else what is there, or the next."""
        stopped: LearnerStopped | None = None
        while any(self._learners.under_way(player) for player in self._policies):
            outcomes = self._learners.ready(WAIT_SECONDS if wait else 0.0)
            if not outcomes and (losses := self._learners.losses()):
                said = "; ".join(loss.incident.sentence() for loss in losses)
                raise LearnersLost(f"{said}. Its experience is lost: give it again, or other experience")
            for outcome in outcomes:
                if isinstance(outcome, LearnerStopped):
                    self._stopped[outcome.player] = stopped = outcome
                else:
                    metrics = outcome.metrics
                    self._figures[outcome.player] = None if metrics is None else dict(metrics)
            if not everything:
                break
        if stopped is not None:
            raise _refusal(stopped)

    def _take(self) -> dict[str, Figures | None]:
        found, self._figures = self._figures, {}
        return found

    # ------------------------------------------------------------------ weights and states

    def policy(self, player: str) -> Policy:
        """Return the player's policy with its newest weights, to `act` and `evaluate` with."""
        spec = self._policies[self._require(player)]
        return Policy(spec, self.weights(player), player)

    def weights(self, player: str) -> dict[str, Tensor]:
        """Return copies of the player's newest weights, after all updates under way."""
        self._settle(player)
        return {name: torch.tensor(array) for name, array in self._learners.weights(player).items()}

    def get_state(self, players: Iterable[str] | None = None) -> dict[str, LearnerState]:
        """Return copies of all that learners need to go on, of `players` (`None`: all of them).

        Warn of experience that is left out, as it is more than a state has room for.
        """
        chosen = self.players if players is None else tuple(players)
        for player in chosen:
            self._settle(player)
        return {player: told(player, self._learners.state(player)) for player in chosen}

    def set_state(self, states: Mapping[str, LearnerState]) -> None:
        """Let learners go on from these states. Raise WeightsMismatch for one of another network."""
        for player in states:
            self._settle(player)
        for player, state in states.items():
            self._learners.load_state(player, state)
            self._stopped.pop(player, None)

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Go on from `weights` with a fresh optimizer, without the experience of before."""
        self._settle(player)
        self._learners.reset(player, weights)
        self._stopped.pop(player, None)

    # ------------------------------------------------------------------ players come and go

    def add(
        self,
        player: str,
        policy: PolicySpec,
        settings: Settings | None = None,
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Add a learner while the others go on, with `weights` or fresh ones.

        `settings`: its own; `None`: those of the group. Raise Mistake if the player is here.
        """
        if player in self._policies:
            raise Mistake(f"player '{player}' learns here already; choose another name, or replace it")
        self._add(self._recruit(player, policy, settings), weights)

    def remove(self, player: str) -> None:
        """Free the learner, its optimizer and its experience, after its updates under way."""
        self._settle(player)
        self._learners.remove(player)
        for known in (self._policies, self._stopped, self._figures):
            known.pop(player, None)

    def replace(
        self,
        player: str,
        policy: PolicySpec | None = None,
        settings: Settings | None = None,
        weights: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Put a new learner in the player's place, with another policy if given; its updates count on.

        `settings`, `weights`: as in `add`.
        """
        kept = self._policies[self._require(player)]
        recruit = self._recruit(player, policy or kept, settings)
        self.remove(player)
        self._add(recruit, weights)

    def close(self) -> None:
        """End all learners and free what they hold."""
        self._begun.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None) -> None:
        self._learners.add(recruit, weights)
        self._policies[recruit.player] = recruit.spec

    def _recruit(self, player: str, spec: PolicySpec, settings: Settings | None) -> Recruit:
        spec.require_trust()
        own = self._settings if settings is None else _validated(LearnerSettings, settings, "learner")
        self._count += 1
        return Recruit(player, spec, own, self._seed * 1_000_003 + self._count - 1)

    def _require(self, player: str) -> str:
        if player not in self._policies:
            raise UnknownPlayer(
                f"player '{player}': no learner of this name here; {did_you_mean(player, self._policies)}"
            )
        return player

    def _settle(self, player: str) -> None:
        """Wait for the player's updates under way. Raise UnknownPlayer."""
        self._require(player)
        while self._learners.under_way(player):
            with contextlib.suppress(NonFiniteLoss):  # raised again by the next update of the stopped player
                self._collect(everything=False)


def _memory_size(spec: PolicySpec) -> int:
    return build_network(spec).memory_size


def _shards(processes: int, gpus: int, players: tuple[str, ...]) -> list[Shard]:
    """Return the shards of players: with `processes`, as many as these, or players if those are fewer."""
    if not processes:
        return [Shard(players[i :: gpus or 1], min(1, gpus)) for i in range(gpus or 1)]
    if gpus:
        return plan_shards(gpus, players)
    count = min(processes, len(players))
    return [Shard(players[i::count], 0, n) for i, n in enumerate(evenly(processes, count))]


def _validated(model: type[Model], given: Model | Mapping[str, Any], where: str) -> Model:
    """Return settings of the class `model`. Raise Mistake for those that do not fit together."""
    if isinstance(given, model):
        return given
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise Mistake(f"{where}: {explain(error, model)}") from None


def _refusal(stopped: LearnerStopped) -> NonFiniteLoss:
    return NonFiniteLoss(stopped.message, stopped.update, stopped.tensors)
