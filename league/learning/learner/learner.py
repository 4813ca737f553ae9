"""Learner: one player's network, optimizer and update. A plain class; groups make it remote.

learner.update_from_episodes(episodes)      wait until a batch is full, mix in replayed episodes, and make
                                            all updates that are due
learner.update_from_batch(batch)            make one optimizer step, from tensors under names of your own too
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from league.cluster.cards import computing
from league.episode import Episodes
from league.import_paths import OwnCodeFailed, import_callable, running
from league.learning.data.batching import (
    WEIGHT,
    Batch,
    ReadyBatch,
    Sequences,
    cut,
    minibatches,
    preload,
    ready_batch,
    tensor_of,
)
from league.learning.data.checks import check_episodes
from league.learning.data.columns import LearnerConnectors, made_up_steps
from league.learning.data.frames import num_frames
from league.learning.data.joining import Joiner, horizon
from league.learning.data.peers import ALONE, Peers
from league.learning.data.replay import Drawn, build_replay, episode_errors, mix
from league.learning.learner.companions import Companions, load_weights
from league.learning.learner.forward import Forward, survey
from league.learning.learner.objective import Objective, Trainee
from league.learning.learner.optimizers import Optimizer
from league.learning.learner.precision import settled
from league.learning.maths.advantages import GAE, advantages
from league.learning.maths.published import held_reward
from league.learning.maths.schedules import value_at
from league.learning.maths.terms import Output
from league.learning.settings import HOOK, LearnerSettings, OnGae, OwnReplay
from league.models.networks.distributions import distribution
from league.models.networks.networks import build_network
from league.models.policies.policy import check_tensors, initial_weights
from league.models.sending import copied, fetched, sent
from league.models.spec import PolicySpec
from league.section import OwnPart
from storage.arrays import Floats32
from storage.errors import Failure, Mistake

__all__ = ["Learner", "LearnerSettings", "LearnerState", "NonFiniteLoss"]


BESIDE = ("target", "reference", "magnet", "teacher", "average", "ages")
PARTS = ("weights", "optimizer", *BESIDE, "experience")
"""Parts of a state, as its tensors are named."""
LEFT = {"waiting": "experience", "joining": "unfinished matches", "replay": "replay"}
MOST_BYTES = 2**25  # of experience in a state: each is written whole, and several are kept


STATISTICS_BYTES = 2**26  # of observations in float64 at a time, on a GPU


class NonFiniteLoss(Failure, ArithmeticError):
    """Refusal of an update whose loss is NaN or infinite; everything is as it was before."""

    def __init__(
        self, message: str, update: int = 0, tensors: Mapping[str, npt.NDArray] | None = None
    ) -> None:
        super().__init__(message)
        self.update = update  # its number, had it been made
        self.tensors = dict(tensors or {})  # the batch, by the names of its fields


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Everything that a learner needs to go on. Tensors are copies on the CPU, never the live ones."""

    weights: dict[str, Tensor]  # parameters and buffers
    optimizer: dict[str, Tensor]  # "step.<name>", "exp_avg.<name>", ...: the optimizer's own names
    updates: int
    env_steps: int
    # of the networks beside it (companions.py), where there are such
    target: dict[str, Tensor] = field(default_factory=dict)
    reference: dict[str, Tensor] = field(default_factory=dict)
    magnet: dict[str, Tensor] = field(default_factory=dict)
    teacher: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)
    ages: dict[str, Tensor] = field(default_factory=dict)  # int64 []: updates that a part has followed
    # "waiting.<array>", "joining.<array>", "replay.<array>": episodes that are not learned from yet, or again
    experience: dict[str, Tensor] = field(default_factory=dict)
    left_out: str = ""  # what of the experience is not here, and why, in one sentence; "": all is

    @property
    def companions(self) -> dict[str, dict[str, Tensor]]:
        """Parts of the networks beside the one that learns."""
        return {part: getattr(self, part) for part in BESIDE}

    def to_freeze(self, freeze: Literal["live", "ema"]) -> dict[str, Tensor]:
        """Return the weights that a snapshot stores."""
        return self.average if freeze == "ema" else self.weights

    def to_tensors(self) -> dict[str, Tensor]:
        """Return all tensors in one mapping, to be stored; `from_tensors` is the inverse."""
        return {f"{part}/{name}": tensor for part in PARTS for name, tensor in getattr(self, part).items()}

    @staticmethod
    def from_tensors(
        tensors: Mapping[str, Tensor], updates: int, env_steps: int, left_out: str = ""
    ) -> LearnerState:
        """Return the state of which `to_tensors` returned `tensors`."""
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            parts[part][name] = tensor
        return LearnerState(**parts, updates=updates, env_steps=env_steps, left_out=left_out)


class Learner:
    """Learner of one player's policy, from its episodes.

    `updates` counts optimizer steps and is the version of the weights. `env_steps` counts the fresh
    steps trained on, each once however often it is used. Learners on several `peers` get the same calls
    in the same order, and reach the same weights as one alone would.
    """

    def __init__(
        self,
        player: str,
        spec: PolicySpec,
        settings: LearnerSettings,
        seed: int,
        device: str = "cpu",
        peers: Peers = ALONE,
        teacher: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Begin with the weights that `seed` gives; `teacher`: weights of a magnet of kind `snapshot`."""
        self.player = player
        self.spec = spec
        self.device = torch.device(device)
        settings, self._precision_trial = settled(spec, settings, self.device)
        self.settings = settings
        self.updates = 0
        self.env_steps = 0
        self._seed = seed
        self._peers = peers
        self._network = build_network(spec)
        self._network.load_state_dict(initial_weights(spec, seed))
        self._network.to(self.device)
        self._mirrored = self._network.mirrored
        self._parameters = dict(self._network.named_parameters())
        self._forward = Forward(self._network, settings.precision == "bfloat16")
        if teacher is not None:
            self._check(teacher)
        self._companions = Companions(self._network, settings, player, teacher)
        at_once = min(settings.batch_steps, settings.micro_steps or settings.batch_steps)
        # else connectors and replays of a user's own may change them
        overlap = self.device.type == "cuda" and not (
            spec.settings.learner_connectors or isinstance(settings.replay, OwnReplay)
        )
        self._num_frames = num_frames(spec) if overlap else 1
        self._survey = functools.partial(
            survey, steps=at_once, device=self.device, peers=peers, num_frames=self._num_frames
        )
        self._objective = Objective(spec, settings)
        self._optimizer = Optimizer(self._parameters, settings)
        connectors = spec.settings.learner_connectors
        self._connectors = LearnerConnectors(connectors) if connectors else None
        self._joiner = self._new_joiner()
        self._waiting: list[Episodes] = []
        self._own_replay = functools.partial(running, "learner.replay", settings.replay.kind)
        with self._own_replay():
            self._replay = build_replay(settings.replay)
        self._progress = 0.0
        self._metrics = (*self._objective.names[1:], "gradient_norm")  # in the order of `_update`

    # ------------------------------------------------------------------ updates

    def update_from_episodes(self, episodes: Episodes, progress: float = 0.0) -> dict[str, float] | None:
        """Learn from these episodes, and from those still waiting for a batch to fill.

        `progress` is the part of the run that is done, in [0, 1], for schedules. Return means over the
        updates made, with "lag" in updates; None when too few steps wait. Raise MalformedEpisodes, with
        nothing changed; NonFiniteLoss at the first update that is refused, and those made before it stay.
        """
        check_episodes(episodes, self.player, self.spec, lambda: self._network.memory_size)
        # a program may have changed what was recorded
        return self.learn_from(replace(episodes, unbroken=None), progress)

    def learn_from(
        self, episodes: Episodes, progress: float = 0.0, over: Callable[[], bool] = lambda: False
    ) -> dict[str, float] | None:
        """Do `update_from_episodes` for episodes that need no check: those of our own runners.

        Once `over` is true, the minibatches that are left are not learned from.
        """
        self._progress = progress
        joined = self._joiner.join(episodes)
        if joined is None:
            return None
        self._waiting.append(joined)
        proportion = self.settings.replay.proportion
        if sum(part.num_steps for part in self._waiting) < self.settings.batch_steps * (1.0 - proportion):
            return None
        fresh = Episodes.concatenate(self._waiting)
        self._waiting = []
        rng = np.random.default_rng([self._seed, self.updates])
        used, old, weight = fresh, None, None
        if self._replay is not None:
            with self._own_replay():
                old = self._replay.sample(round(fresh.num_steps * proportion / (1.0 - proportion)), rng)
            if old is not None:
                used, weight = mix(fresh, old)
        beyond = self._joiner.beyond(fresh)
        steps, left = 0, False  # learned from, and whether minibatches were left

        def taken() -> Generator[Batch]:
            """Yield the minibatches until the run is over, from the first one again at each call."""
            nonlocal steps, left
            steps, left = 0, False
            made = self._batches(used, copy.deepcopy(rng), beyond, weight)
            with contextlib.closing(preload(made, self.device, self.settings.loader_depth)) as batches:
                for batch in batches:
                    yield batch
                    if batch.closes:
                        steps += batch.total_steps
                        if left := over():
                            return

        with self._computing(), self._statistics_of(fresh):
            metrics = self._updates(taken)
            self._keep(fresh, old)
        share = steps / (self.settings.epochs * used.num_steps) if left else 1.0
        self.env_steps += round(fresh.num_steps * min(1.0, share))
        if self._replay is not None:
            metrics |= {"replayed": 1.0 - fresh.num_steps / used.num_steps, **self._replay.metrics()}
        if self._joiner.cut_early:
            metrics["cut_early"], self._joiner.cut_early = float(self._joiner.cut_early), 0
        if self._precision_trial is not None:
            metrics["bfloat16"] = float(self._precision_trial.passed)
            metrics["bfloat16_speedup"] = self._precision_trial.gain
        return metrics

    def update_from_batch(
        self, batch: Batch | Mapping[str, Tensor | npt.NDArray], progress: float | None = None
    ) -> dict[str, float]:
        """Make one optimizer step; return its figures by name.

        `batch`: a minibatch of episodes, or rows [N, ...] by names of your own for a `Loss` that sees
        "batch", which `env_steps` does not count. `progress` in [0, 1]: for schedules; `None`: as it was.
        Raise NonFiniteLoss, with nothing changed, if the loss is not finite, and Mistake for tensors that the
        loss cannot take.
        """
        if progress is not None:
            self._progress = progress
        if isinstance(batch, Mapping):
            parts: Sequence[Batch | ReadyBatch] = ready_batch(
                batch, self.device, self._peers, self.settings.micro_steps
            )
        else:
            parts = [batch.to(self.device)]
        with self._computing():
            return self._updates(lambda: (part for part in parts))

    def _computing(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a GPU computes in the learner's precision."""
        if self.device.type == "cpu":
            return contextlib.nullcontext()
        return computing(self.settings.precision)

    def _new_joiner(self) -> Joiner:
        """Return what joins fragments of matches to the sequences that whole matches have."""
        settings, has_memory = self.settings, bool(self._network.memory_size)
        loss, ahead = settings.composed_loss(), 0.0
        in_sequences = has_memory or loss.targets == "vtrace" or loss.needs_steps
        if isinstance(settings.loss, OnGae) and loss.targets == "gae":
            ahead = horizon(settings.discount * settings.loss.gae_lambda)
        return Joiner(settings.sequence_length if in_sequences else 1, ahead, splits=not has_memory)

    def _keep(self, fresh: Episodes, old: Drawn | None) -> None:
        """Put what was learned from into the replay, with its errors by the new weights."""
        if (replay := self._replay) is None:
            return
        with self._own_replay():
            if replay.needs_errors and old is not None:
                replay.rate(self._errors(old.episodes))
            replay.add(fresh, self._errors(fresh) if replay.needs_errors else None)

    def _errors(self, episodes: Episodes) -> Floats32:
        """Return the temporal-difference error of each episode under the present weights."""
        value = self._survey(
            self._forward, episodes, cut(episodes, self.settings.sequence_length), values=True
        ).value
        error = advantages(episodes, value, discount=self.settings.discount, lambda_=0.0).advantage
        return episode_errors(episodes, error)

    def _batches(
        self,
        episodes: Episodes,
        rng: np.random.Generator,
        beyond: Episodes | None = None,
        weight: Floats32 | None = None,
    ) -> Iterator[Batch]:
        """Return the minibatches of all epochs; advantages look further, at the steps `beyond`.

        `weight` [E]: of each episode in the loss; `None`: all alike.
        """
        settings, own, learned = self.settings, None, len(episodes)
        if beyond is not None:
            episodes = Episodes.concatenate([episodes, beyond])
        if self._connectors is not None:
            drawn = np.random.default_rng([self._seed, self.updates, 1])
            episodes, own = self._connectors.apply(episodes, drawn)
        if weight is not None and self._replay is not None and self._replay.correction:
            own = {**(own or {}), WEIGHT: np.repeat(weight, np.diff(episodes.offset))}
        episodes = self._held(episodes)
        sequences = cut(episodes, settings.sequence_length)
        memory, targets = self._surveyed(episodes, sequences)
        if beyond is not None:  # they are last, so that all rows of the others stay where they are
            episodes = episodes.take(np.arange(learned))
        return itertools.chain.from_iterable(
            minibatches(
                episodes,
                settings.batch_steps,
                settings.sequence_length,
                rng if epoch or settings.shuffle else None,  # else in the order of play
                memory=memory,
                targets=targets,
                peers=self._peers,
                own=own,
                part_steps=settings.micro_steps,
                pinned=self.device.type == "cuda",
                num_frames=self._num_frames,
                normalises=isinstance(settings.loss, OnGae) and settings.loss.normalise_advantage,
            )
            for epoch in range(settings.epochs)
        )

    def _surveyed(self, episodes: Episodes, sequences: Sequences) -> tuple[Floats32, GAE | None]:
        """Return memories at the first step of each sequence, and GAE of all steps if the loss needs it."""
        settings = self.settings
        wanted = self._objective.targets == "gae"
        found = self._survey(self._forward, episodes, sequences, values=wanted)
        if not wanted:
            return found.memory, None
        assert isinstance(settings.loss, OnGae)
        return found.memory, advantages(
            episodes, found.value, discount=settings.discount, lambda_=settings.loss.gae_lambda
        )

    def _held(self, episodes: Episodes) -> Episodes:
        """Return `episodes` with the rewards that a magnet of `through: reward` leaves, for GAE.

        The policy that acted takes the place of the present one, which it is for fresh experience. V-trace's
        rewards are changed in each update, by the policy of that update.
        """
        magnet, forward = self.settings.magnet, self._companions.magnet
        if magnet is None or forward is None or magnet.through == "loss" or self._objective.targets != "gae":
            return episodes
        of_actions = distribution(self.spec.action, self.spec.squash)
        log_prob, _ = of_actions.evaluate(
            self._outputs(forward, episodes).parameters, tensor_of(episodes.mask), tensor_of(episodes.action)
        )
        weight = value_at(magnet.weight, self._progress)
        return replace(
            episodes, reward=held_reward(episodes.reward, episodes.log_prob, log_prob.numpy(), weight)
        )

    def outputs(self, episodes: Episodes) -> Output:
        """Return the outputs [N] of the present weights for all steps of whole episodes, on the CPU."""
        with self._computing():
            return self._outputs(self._forward, replace(episodes, unbroken=None))  # as above

    def _outputs(self, forward: Forward, episodes: Episodes) -> Output:
        sequences, n = cut(episodes, self.settings.sequence_length), episodes.num_steps
        size = distribution(self.spec.action, self.spec.squash).num_parameters
        found = self._survey(forward, episodes, sequences, values=True, parameters=size)
        assert found.parameters is not None
        return Output(found.parameters[:n], torch.from_numpy(found.value[:n]))

    @contextlib.contextmanager
    def _statistics_of(self, fresh: Episodes) -> Iterator[None]:
        """Update the normaliser with these observations; undo that if an update from them is refused."""
        normaliser = self._network.normaliser
        if normaliser is None:
            yield
            return
        before = copy.deepcopy(normaliser.state_dict())
        rows = tensor_of(fresh.observation)
        # float64 of a whole block would take many times its bytes on a GPU
        part = len(rows) if self.device.type == "cpu" else STATISTICS_BYTES // (8 * normaliser.mean.numel())
        for some in rows.split(max(1, part)):
            normaliser.update(sent({"rows": some}, self.device)["rows"])
        try:
            yield
        except NonFiniteLoss:
            normaliser.load_state_dict(before)
            self._companions.follow_buffers()
            raise

    @property
    def trainee(self) -> Trainee:
        """Everything that the next gradients depend on; its networks are the live ones."""
        beside = self._companions
        return Trainee(
            self._forward, beside.target, self._progress, self.updates, beside.reference, beside.magnet
        )

    def _updates(self, batches: Callable[[], Generator[Batch | ReadyBatch]]) -> dict[str, float]:
        """Make an update of each of `batches`; return the means of their figures by name.

        To see whether a loss is finite, each update would wait for a GPU. So there it is seen after the last
        one: if one was not, all begins again from before the first, and each is looked at.
        """
        means = None
        if self.device.type != "cpu" and self.settings.after_update is None:
            means = self._unseen_updates(batches)
        if means is None:
            with contextlib.closing(batches()) as ready:
                reports = [figures for figures, _ in self._made(ready)]
            means = torch.stack(reports).mean(0).tolist()
        return dict(zip(self._metrics, means, strict=True))

    def _unseen_updates(self, batches: Callable[[], Generator[Batch | ReadyBatch]]) -> list[float] | None:
        """Make an update of each batch; return means. If one has no number: `None`, with all as before."""
        before, updates = copied(self._live()), self.updates
        found: list[tuple[Tensor, Tensor]] = []
        try:
            with contextlib.closing(batches()) as ready:
                found.extend(self._made(ready, looks=False))
        except Exception:  # it may be about numbers that an earlier update spoiled
            if not found or self._peers.size > 1 or _means(found)[1]:
                raise
        else:
            means, finite = _means(found)
            if finite:
                return means
        self._go_back(LearnerState.from_tensors(before, updates, self.env_steps))
        return None

    def _made(
        self, batches: Iterable[Batch | ReadyBatch], *, looks: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Make an optimizer step after the last part of each batch; yield the results of `_update`."""
        means, shown = None, None
        for batch in batches:
            part = self._objective.backward(batch, self.trainee, adds=means is not None)
            means = part if means is None else means + part
            if batch.closes:
                yield self._update(shown or batch, means, looks=looks)
                means, shown = None, None
            elif looks and shown is None and not part[0].isfinite():
                shown = batch  # the part that a refusal is about

    def _update(
        self, batch: Batch | ReadyBatch, means: Tensor, *, looks: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Make one optimizer step; return the figures of `self._metrics`, and the loss.

        `batch` gave the gradients that are there, and `means`. `looks`: wait for a GPU to see whether the
        loss is finite. Raise NonFiniteLoss, with nothing changed, if it is not.
        """
        if self._peers.size > 1:
            means = self._sum_over_peers(means)
        if self._mirrored is not None:
            self._mirrored.average_gradients()
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if looks and not bool(torch.isfinite(means[0]) & torch.isfinite(norm)):
            raise self._refusal(batch, float(means[0]), float(norm))
        if (most := self.settings.gradient_norm) is not None:
            nn.utils.clip_grads_with_norm_(self._parameters.values(), most, norm)
        self._optimizer.step(self._progress)
        self.updates += 1
        self._companions.after_update(self.updates)
        figures = torch.cat([means[1:], norm.reshape(1)])
        if self.settings.after_update is not None:
            statistics = dict(zip(self._metrics, figures.tolist(), strict=True))
            _call_hook(self.settings.after_update, self.player, statistics, self)
        return figures, means[0]

    def _sum_over_peers(self, means: Tensor) -> Tensor:
        """Sum gradients and means of the whole minibatch over all peers, in one exchange."""
        parameters = list(self._parameters.values())
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        summed = torch.cat([*(part.reshape(-1) for part in parts), means])
        self._peers.sum(summed)
        *gradients, means = summed.split([*(p.numel() for p in parameters), len(means)])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return means

    def _refusal(self, batch: Batch | ReadyBatch, loss: float, norm: float) -> NonFiniteLoss:
        for parameter in self._parameters.values():
            parameter.grad = None
        update, path = self.updates + 1, self.settings.loss.kind
        has_terms = self.settings.composed_loss().terms
        or_terms = f", or correct the terms of learner.loss '{path}'" if has_terms else ""
        return NonFiniteLoss(
            f"player {self.player}, update {update}: the loss is {loss} and its gradient's norm {norm}, "
            f"expected finite numbers; the last good weights are kept: lower learner.lr{or_terms}",
            update,
            {name: tensor.cpu().numpy() for name, tensor in batch.tensors().items()},
        )

    # ------------------------------------------------------------------ state

    @property
    def rank(self) -> int:
        """Number of this process among those that share each update; 0 for the first."""
        return self._peers.rank

    def weights(self) -> dict[str, Tensor]:
        """Return a deep copy on the CPU, buffers too, which never follows the live weights."""
        return fetched(self._network.state_dict())

    def _live(self) -> dict[str, Tensor]:
        """Return all tensors that an update changes, not copied, for `LearnerState.from_tensors`."""
        parts = {"weights": self._network.state_dict(), "optimizer": self._optimizer.live()}
        parts |= self._companions.live()
        return {
            f"{part}/{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()
        }

    def state(self) -> LearnerState:
        """Return a copy of everything that `load_state` needs to go on exactly here.

        Experience of more than MOST_BYTES is not in it: `left_out` says so.
        """
        experience, left_out = self._experience()
        state = LearnerState.from_tensors(fetched(self._live()), self.updates, self.env_steps, left_out)
        return replace(state, experience=experience)

    def _experience(self) -> tuple[dict[str, Tensor], str]:
        """Return what is not learned from yet, and what is learned from again; and what is left out."""
        waiting = sum(array.nbytes for part in self._waiting for array in part.arrays().values())
        replayed = self._replay.nbytes if self._replay is not None else 0
        parts = [
            ("waiting", waiting, lambda: Episodes.concatenate(self._waiting).arrays()),
            ("joining", self._joiner.nbytes, self._joiner.state),
            ("replay", replayed, lambda: self._replay.state() if self._replay else {}),
        ]
        found: dict[str, Tensor] = {}
        left, size = [], 0
        for name, nbytes, arrays in parts:
            if size + nbytes > MOST_BYTES:
                left.append(f"{LEFT[name]} of {nbytes / 2**20:,.0f} MiB")
            elif nbytes:
                size += nbytes
                found |= {f"{name}.{key}": torch.tensor(array) for key, array in arrays().items()}
        if not left:
            return found, ""
        return found, f"without {' and '.join(left)}: a state has at most {MOST_BYTES / 2**20:,.0f} MiB of it"

    def _load_experience(self, tensors: Mapping[str, Tensor]) -> None:
        parts: dict[str, dict[str, npt.NDArray]] = {name: {} for name in LEFT}
        for key, tensor in tensors.items():
            name, column = key.split(".", 1)
            parts[name][column] = tensor.numpy().copy()
        if parts["waiting"]:
            self._waiting = [Episodes(self.player, **parts["waiting"])]
        self._joiner.load(self.player, parts["joining"])
        if self._replay is not None:
            with self._own_replay():
                self._replay.load(self.player, parts["replay"])

    def load_state(self, state: LearnerState) -> None:
        """Go on from `state`. Raise WeightsMismatch if it belongs to another network or optimizer.

        Where it lacks a network that the settings ask for, such as a target network, that begins as the
        network itself; a teacher stays.
        """
        self._check(state.weights)
        for part, tensors in state.companions.items():
            if tensors and part != "ages":
                self._check(tensors)
        self._go_back(state)
        self._forget_experience()
        self._load_experience(state.experience)

    def get_state(self) -> LearnerState:
        """Return `state`, by the name that other libraries use; warn of what is left out of it."""
        return told(self.player, self.state())

    set_state = load_state

    def reset(self, weights: Mapping[str, Tensor], settings: LearnerSettings | None = None) -> None:
        """Start again from `weights`: fresh optimizer, all experience dropped, counters go on.

        All networks beside it begin as `weights` too, except for a teacher. `settings`: with other numbers
        than those so far; `None`: the same.
        """
        self._check(weights)
        if settings is not None:
            self.settings = settings.model_copy(update={"precision": self.settings.precision})
            self._objective = Objective(self.spec, self.settings)
        self._go_back(LearnerState({**weights}, {}, self.updates, self.env_steps))
        self._forget_experience()

    def _go_back(self, state: LearnerState) -> None:
        """Go on from `state`, which fits, with the experience that is here."""
        optimizer = Optimizer(self._parameters, self.settings)
        optimizer.load(self.player, state.optimizer)
        load_weights(self._network, state.weights)
        if self._mirrored is not None:  # weights from elsewhere may be of a policy without the mirror
            self._mirrored.project()
        self._companions.start(state.weights, state.companions)
        self._optimizer = optimizer
        self.updates, self.env_steps = state.updates, state.env_steps

    def _forget_experience(self) -> None:
        self._waiting, self._joiner = [], self._new_joiner()
        if self._replay is not None:
            self._replay.forget()

    def _check(self, tensors: Mapping[str, Tensor]) -> None:
        wanted = {name: tuple(tensor.shape) for name, tensor in self._network.state_dict().items()}
        check_tensors(f"player {self.player}", tensors, wanted)


def check_own_parts(spec: PolicySpec, settings: LearnerSettings) -> None:
    """Learn from made-up steps with code of the user's own. Raise Mistake if it fails."""
    changes = {"after_update": None, "magnet": None, "batch_steps": 1, "precision": "float32"}
    try:
        learner = Learner("player", spec, settings.model_copy(update=changes), seed=0)
        learner.update_from_episodes(made_up_steps(spec))
        if isinstance(settings.replay, OwnReplay):
            learner.load_state(learner.state())
            learner.update_from_episodes(made_up_steps(spec))
    except OwnCodeFailed as error:
        raise Mistake(str(error)) from error
    except NonFiniteLoss:  # of four equal steps, which play never brings
        pass


def told(player: str, state: LearnerState) -> LearnerState:
    """Return `state`, and warn of what is left out of it."""
    if state.left_out:
        warnings.warn(f"player {player}: its state is {state.left_out}", stacklevel=3)
    return state


def _means(found: Sequence[tuple[Tensor, Tensor]]) -> tuple[list[float], bool]:
    """Return the means of the figures of updates, and whether all losses and gradients were finite."""
    figures, losses = (torch.stack(column) for column in zip(*found, strict=True))
    means = figures.mean(0)
    *read, total = torch.cat([means, losses.sum().reshape(1)]).tolist()  # the only wait for a GPU
    return read, math.isfinite(total) and math.isfinite(read[-1])


def _call_hook(hook: OwnPart, player: str, statistics: Mapping[str, float], learner: Learner) -> None:
    """Call `learner.after_update`. Raise OwnCodeFailed, with its place, for all that it raises.

    `statistics` are the figures of this one update by name, which a GPU is waited for to read. The hook runs
    between two updates; where several processes share an update, in each of them (`learner.rank`). It may
    change what `learner` offers, such as its weights by `reset`; what it returns is not used.
    """
    with running(f"learner.after_update, update {learner.updates} of player {player}:", hook.use):
        import_callable(hook.use, HOOK)(player, statistics, learner, **hook.options)
