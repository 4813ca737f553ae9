"""Together: several learners' updates side by side, in one pass where that turns out faster."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from league.episode import Episodes
from league.learning.data.batching import Batch
from league.learning.forward import wait_for
from league.learning.groups.peers import ALONE, Peers
from league.learning.learner import Learner, NonFiniteLoss
from league.learning.maths.objective import Objective, Trainee
from league.learning.precision import settled
from league.learning.recruits import Recruit, Recruits
from league.learning.settings import LearnerSettings
from league.learning.shared_pass.stacked import OnePass
from league.models.spec import PolicySpec

log = logging.getLogger(__name__)

REPEATS = 4  # of a timing; the fastest counts
LEAD = 1.05  # times as fast: less is within what timings differ by themselves
TOLERANCE = {"float32": 0.01, "bfloat16": 0.1}  # of gradients' norms; stacked ones come from other kernels

Block = tuple[Learner, Episodes, float]  # experience for a learner, and the part of the run that is done
Outcome = dict[str, float] | NonFiniteLoss | None


class Choice(NamedTuple):
    """Way in which updates of several players are made, and the speed-up of one pass over separate ones."""

    way: str  # separate, joined or stacked
    speedup: float


def choose(seconds: Mapping[str, Sequence[float]]) -> Choice:
    """Return the way with the shortest time of two or more; separate updates where the lead is small."""
    shortest = {way: min(times) for way, times in seconds.items()}
    separate = shortest.pop("separate")
    way = min(shortest, key=shortest.__getitem__)
    speedup = separate / shortest[way]
    return Choice(way if speedup > LEAD else "separate", speedup)


def hindrance(settings: LearnerSettings, peers: Peers) -> str | None:
    """Return the reason why no pass can be shared at all; None if there is no such reason."""
    if settings.compile:
        return "learner.compile is set, and compiled networks run by themselves"
    loss = settings.composed_loss()
    if loss.terms:
        return f"loss '{settings.loss}' adds terms, which are computed for one player at a time"
    if loss.sees == "batch":
        return f"loss '{settings.loss}' sees each player's tensors as they are"
    if loss.needs_steps:
        return f"loss '{settings.loss}' sees all of a player's steps, which are laid out for one at a time"
    if peers.size > 1:
        return f"each update is shared among {peers.size} processes"
    return None


def shared_pass(recruits: Recruits, peers: Peers) -> Together | None:
    """Return the shared updates of these players; None if settings or players rule them out."""
    if recruits.shared.stacked == "off":
        return None
    together = Together(recruits.each[0].spec, recruits.shared, peers, recruits.device)
    return together if all(together.admits(recruit) for recruit in recruits) else None


class Together:
    """Updates of several learners of one spec and settings, side by side.

    Whenever several of them have a batch due at the same time, their gradients are computed in the way
    that was fastest when tried. Each number of players is tried once, on copies, with its first batches.
    """

    def __init__(
        self, spec: PolicySpec, settings: LearnerSettings, peers: Peers = ALONE, device: str = "cpu"
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._objective = Objective(spec, settings, ALONE)
        self._one_pass: OnePass | None = None
        self._stacks = True
        self._choices: dict[int, Choice] = {}  # by the number of players
        self._speedup = 0.0  # of the last of them
        reason = hindrance(settings, peers)
        if reason is not None:
            log.warning("learner.stacked: players are updated one by one: %s", reason)
            return
        ready, _ = settled(spec, settings, torch.device(device))
        self._one_pass = OnePass(spec, ready)
        self._tolerance = TOLERANCE[ready.precision]
        if spec.settings.memory != "none":
            self._stacks_not("they remember")

    def admits(self, recruit: Recruit) -> bool:
        """Return whether `recruit` learns as the others do; if not, log why all are updated one by one."""
        if recruit.settings != self._settings:
            log.warning("learner.stacked: players are updated one by one: their roles learn differently")
            return False
        if recruit.spec != self._spec:
            log.warning("learner.stacked: players are updated one by one: their policies differ")
            return False
        return True

    @property
    def promising(self) -> bool:
        """True if it may pay to wait until several players have experience."""
        tried = self._choices.values()
        return self._one_pass is not None and (not tried or any(c.way != "separate" for c in tried))

    def update_from_episodes(self, blocks: Sequence[Block]) -> list[Outcome]:
        """Do each learner's `update_from_episodes`; return its result or the refusal that it raises.

        No learner may come twice. "stacked_speedup" among the metrics: how many times as fast one pass was
        when it was tried last; 0 before.
        """
        turns = [learner.turns(episodes, progress) for learner, episodes, progress in blocks]
        outcomes: list[Outcome] = [None] * len(blocks)
        answers: dict[int, Tensor | NonFiniteLoss | None] = dict.fromkeys(range(len(blocks)))
        while answers:
            due: dict[int, Batch] = {}
            for i, answer in answers.items():
                try:
                    due[i] = next(turns[i]) if answer is None else turns[i].send(answer)
                except StopIteration as finished:
                    outcomes[i] = finished.value
                except NonFiniteLoss as refusal:
                    outcomes[i] = refusal
            answers = {}
            for device in dict.fromkeys(blocks[i][0].device for i in due):
                here = [i for i in due if blocks[i][0].device == device]
                updates = self._updates([blocks[i][0] for i in here], [due[i] for i in here])
                answers |= zip(here, updates, strict=True)
        for outcome in outcomes:
            if isinstance(outcome, dict):
                outcome["stacked_speedup"] = self._speedup
        return outcomes

    def _updates(self, learners: Sequence[Learner], batches: Sequence[Batch]) -> list[Tensor | NonFiniteLoss]:
        """Make one update of each learner."""
        means: Sequence[Tensor | None] = [None] * len(learners)
        if self._one_pass is not None and len(learners) > 1:
            if len(learners) not in self._choices:
                self._choices[len(learners)] = self._tried(self._one_pass, learners, batches)
                self._speedup = self._choices[len(learners)].speedup
            way = self._choices[len(learners)].way
            if way != "separate":
                trainees = [learner.trainee for learner in learners]
                stacked = way == "stacked" and self._stacks
                means = self._one_pass.leave_gradients(trainees, batches, stacked=stacked).unbind()
        return [
            learner.try_update(batch, mean)
            for learner, batch, mean in zip(learners, batches, means, strict=True)
        ]

    def _tried(self, one_pass: OnePass, learners: Sequence[Learner], batches: Sequence[Batch]) -> Choice:
        """Time all ways on copies and return the choice."""
        copies = [copy.deepcopy(learner.trainee) for learner in learners]

        def separate() -> None:
            for trainee, batch in zip(copies, batches, strict=True):
                self._objective.backward(batch, trainee)

        ways: dict[str, Callable[[], object]] = {
            "separate": separate,
            "joined": lambda: one_pass.leave_gradients(copies, batches, stacked=False),
            "stacked": lambda: one_pass.leave_gradients(copies, batches, stacked=True),
        }
        if self._stacks:
            reason = _difference(ways["stacked"], separate, copies, self._tolerance)
            if reason is not None:
                self._stacks_not(reason)
        if not self._stacks:
            del ways["stacked"]
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(1 + REPEATS):
            for way, work in ways.items():
                seconds[way].append(_seconds(work, batches[0]))
        choice = choose({way: times[1:] for way, times in seconds.items()})  # the first is to warm up
        log.info(
            "learner.stacked: gradients of %d players in one pass come %.2f times as fast; going on %s",
            len(learners),
            choice.speedup,
            choice.way,
        )
        return choice

    def _stacks_not(self, reason: str) -> None:
        log.warning("learner.stacked: networks run one after the other: %s", reason)
        self._stacks = False


def _difference(
    stacked: Callable[[], object], separate: Callable[[], object], copies: Sequence[Trainee], tolerance: float
) -> str | None:
    """Return how stacked updates would differ from separate ones; None if no difference is seen.

    Gradients that are no finite numbers are not compared: their updates will be refused in any case.
    """
    before = [[buffer.clone() for buffer in trainee.forward.network.buffers()] for trainee in copies]
    separate()
    wanted = [_gradient(trainee) for trainee in copies]
    for trainee, buffers in zip(copies, before, strict=True):
        now = trainee.forward.network.buffers()
        if not all(torch.equal(a, b) for a, b in zip(now, buffers, strict=True)):
            return "their buffers change as they learn"
    try:
        stacked()
    except Exception as error:  # a user's network may do what vmap cannot
        return f"torch.func.vmap raised {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    for trainee, gradient in zip(copies, wanted, strict=True):
        off = float((_gradient(trainee) - gradient).norm() / gradient.norm())
        if off > tolerance:
            return f"stacked, their gradients would be off by {off:.2g} of the norm"
    return None


def _gradient(trainee: Trainee) -> Tensor:
    """Return all gradients of its network as one row."""
    parameters = trainee.forward.network.parameters()
    return torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])


def _seconds(work: Callable[[], object], batch: Batch) -> float:
    """Return the seconds that `work` takes, those on the device of `batch` included."""
    wait_for(batch)
    began = time.perf_counter()
    work()
    wait_for(batch)
    return time.perf_counter() - began
