"""Runs whose truth is known, written through the archive as training writes them, without playing a game.

    plant(folder, rng)                                         a clean run: main-0 improves, nothing is wrong
    plant(folder, rng, Plan(advantage=forgetting(Plan())))     the same, but it forgets its fourth snapshot
    plant(folder, rng, Plan(snapshots=1000, batches=1))        a large one

What is natural is in every run: strength that wobbles, opponents drawn the harder the more, snapshots that
have hardly played, an exploiter that starts over. Times are those of a clock that is set, not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from unittest import mock

import numpy as np
import torch
from scipy.special import ndtr

from storage.archive import Archive
from storage.disk import using
from storage.records import (
    MAIN,
    MAIN_EXPLOITER,
    Freeze,
    LivePlayer,
    RatingChange,
    Reset,
    UpdateRecord,
)
from tests import made_up
from tests.bench.storage_results import Unsynced

PLAYER, EXPLOITER = "main-0", "main_exploiter-0"
BETA, DRAWS = 25.0 / 6.0, 0.1
STEPS = 10  # env steps of a match
BEGAN = 1.7e9
MATCH_TYPES = ("self_play", "pfsp", "current_main")
CONFIG = f"""\
name: planted
seed: 0
env: {{id: tic_tac_toe, options: {{}}}}
ratings: {{mu: 25.0, sigma: {25 / 3}, beta: {BETA}, draw_probability: {DRAWS}, anchor: null}}
league: {{preset: alphastar_paper, players: {{main: 1, main_exploiter: 1}}}}
"""


def improving(progress: float) -> float:
    """Skill of main-0 in a clean run, in TrueSkill's mu; `progress` of the run in [0, 1]."""
    return 25.0 + 18.0 * progress


def levelling(progress: float) -> float:
    """It improves for half of the run, and no more."""
    return 25.0 + 18.0 * min(progress, 0.5) / 0.5


@dataclass(frozen=True)
class Plan:
    """What is planted. A stage is the time between two freezes of main-0: it has one more of them than
    snapshots, the last still going on when the run stops."""

    snapshots: int = 12  # of main-0, beside the initial one
    batches: int = 3  # of main-0's results in each stage
    matches: int = 500  # in each batch
    skill: Callable[[float], float] = improving
    wobble: float = 0.3  # standard deviation of main-0's skill from batch to batch
    # (stage, opponent): by so much mu main-0 is better against it in this stage than its skill says
    advantage: Mapping[tuple[int, str], float] = field(default_factory=dict)
    # stages between the exploiter's freezes, each followed by a reset; 0: no exploiter
    exploiter_every: int = 4
    inflation: float = 0.0  # mu by which ratings at the end are higher than skills
    lag: Callable[[float], float] = lambda progress: 4.0
    dropped: Callable[[float], float] = lambda progress: 0.0  # share of the steps that nobody learns from
    starved_since: float = 1.0  # progress from which on the exploiter gets no matches

    def progress(self, stage: int, batch: int = 0) -> float:
        return (stage + batch / self.batches) / (self.snapshots + 1)

    def snapshot(self, stage: int) -> str:
        """The snapshot of main-0 that was frozen before that stage began; 0: the initial one."""
        return f"{PLAYER}@{stage * self.batches * self.matches * STEPS}"

    def exploiter(self, number: int) -> str:
        """The exploiter's snapshot of that number; 0: the initial one."""
        return f"{EXPLOITER}@{number * self.exploiter_every * self.batches * (self.matches // 2) * STEPS}"


def forgetting(
    plan: Plan, stage: int = 4, since: float = 0.7, mu: float = 14.0
) -> dict[tuple[int, str], float]:
    """From `since` on main-0 plays worse against the snapshot of `stage`."""
    first = round(since * plan.snapshots)
    return {(late, plan.snapshot(stage)): -mu for late in range(first, plan.snapshots + 1)}


def cycle(plan: Plan, first: int = 4, second: int = 6, last: int = 8) -> dict[tuple[int, str], float]:
    """Snapshot `last` beats `second`, which beats `first`, which beats `last`: main-0 on its way to each of
    them plays so. Afterwards it has found the remedy."""
    return {
        (second - 1, plan.snapshot(first)): 4.0,
        (last - 1, plan.snapshot(second)): 4.0,
        (last - 1, plan.snapshot(first)): -12.0,
    }


def plant(folder: Path, rng: np.random.Generator, plan: Plan | None = None) -> Path:
    """A run at `folder`, which must not be there. Returns it."""
    row = {"name": "planted", "env": "tic_tac_toe", "seed": 0}
    planter = Planter(rng, plan or Plan())
    with (
        using(Unsynced()),
        mock.patch("storage.archive.time.time", planter.now),
        Archive.create(folder, CONFIG, row) as archive,
    ):
        planter.write(archive)
    return folder


class Planter:
    """What happens in a planted run, written through an archive."""

    def __init__(self, rng: np.random.Generator, plan: Plan) -> None:
        self.rng, self.plan = rng, plan
        self.skill: dict[str, float] = {}  # of everything that does not change, as it is
        self.rated: dict[str, float] = {}
        self.games: dict[str, int] = {}
        self.match_id = 0
        self.clock = BEGAN
        self.trained = {PLAYER: 0, EXPLOITER: 0}
        self.updates = {PLAYER: 0, EXPLOITER: 0}
        self.dropped = 0.0
        self.exploiter_snapshots = 0

    def now(self) -> float:
        """Seconds since the epoch, on the run's own clock."""
        return self.clock

    def write(self, archive: Archive) -> None:
        self.archive = archive
        archive.add_player(LivePlayer(PLAYER, MAIN))
        self._freeze(PLAYER, f"{PLAYER}@0", self.plan.skill(0.0))
        if self.plan.exploiter_every:
            archive.add_player(LivePlayer(EXPLOITER, MAIN_EXPLOITER))
            self._freeze(EXPLOITER, f"{EXPLOITER}@0", self.plan.skill(0.0))
        for stage in range(self.plan.snapshots + 1):
            self._stage(stage)

    def _stage(self, stage: int) -> None:
        plan = self.plan
        for batch in range(plan.batches):
            progress = plan.progress(stage, batch)
            skill = plan.skill(progress) + plan.wobble * self.rng.standard_normal()
            self._play(PLAYER, skill, stage, progress)
            if plan.exploiter_every and progress < plan.starved_since:
                part = (stage % plan.exploiter_every + batch / plan.batches) / plan.exploiter_every
                self._play(EXPLOITER, self._exploiter_skill(part, progress), stage, progress)
        end = plan.progress(stage + 1)
        if stage < plan.snapshots:
            self._freeze(PLAYER, plan.snapshot(stage + 1), plan.skill(end))
        if plan.exploiter_every and (stage + 1) % plan.exploiter_every == 0 and end < plan.starved_since:
            self.exploiter_snapshots += 1
            name = plan.exploiter(self.exploiter_snapshots)
            self._freeze(EXPLOITER, name, self._exploiter_skill(1.0, end))

    def _exploiter_skill(self, part: float, progress: float) -> float:
        """It starts over after each freeze, and comes near to main-0."""
        start = self.plan.skill(0.0)
        return start + part * (self.plan.skill(progress) - 2.0 - start)

    def _freeze(self, player: str, name: str, skill: float) -> None:
        role = MAIN if player == PLAYER else MAIN_EXPLOITER
        step = int(name.split("@")[1])
        first = step == 0
        parents = [other for other in self.skill if other.startswith(f"{player}@")]
        parent = None if first else parents[-1] if player == PLAYER else parents[0]
        freeze = Freeze(player=player, reason="schedule", evidence={"env_steps": float(step)})
        made_up.add_snapshot(
            self.archive,
            step,
            {"w": torch.full((2,), float(step))},
            {},
            player=player,
            role=role,
            updates=self.updates[player],
            parent_id=parent,
            reason="initial weights" if first else "schedule",
            decisions=() if first else (freeze,),
        )
        self.skill[name] = skill
        anchor = player == PLAYER and first
        self.rated[name] = 25.0 if anchor else self._rating(skill)
        self.games[name] = 0
        sigma = 25.0 / 300.0 if anchor else 25.0 / 3.0
        self.archive.append_ratings([RatingChange(name, self.rated[name], sigma, 0)])
        if player == EXPLOITER and not first:
            reset = Reset(player=player, reason="always", target=f"{EXPLOITER}@0")
            self.archive.append_decisions([reset])

    def _rating(self, skill: float) -> float:
        progress = self.match_id / (self.plan.matches * self.plan.batches * (self.plan.snapshots + 1))
        return skill + self.plan.inflation * min(1.0, progress) + 0.3 * self.rng.standard_normal()

    def _play(self, learner: str, skill: float, stage: int, progress: float) -> None:
        """A batch of `learner`'s: a quarter of main-0's against itself, the rest against who is hard."""
        plan = self.plan
        count = plan.matches if learner == PLAYER else plan.matches // 2
        pool = [name for name in self.skill if learner == PLAYER or name.startswith(f"{PLAYER}@")]
        bonus = [plan.advantage.get((stage, name), 0.0) if learner == PLAYER else 0.0 for name in pool]
        gap = skill + np.array(bonus) - np.array([self.skill[name] for name in pool])
        weight = (1.0 - ndtr(gap / (math.sqrt(2.0) * BETA))) ** 2 + 0.05 / len(pool)
        opponent = self.rng.choice(len(pool), size=count, p=weight / weight.sum())
        itself = self.rng.random(count) < (0.25 if learner == PLAYER else 0.0)
        margin = math.sqrt(2.0) * BETA * NormalDist().inv_cdf((DRAWS + 1.0) / 2.0)
        performed = np.where(itself, 0.0, gap[opponent])
        performed = performed + math.sqrt(2.0) * BETA * self.rng.standard_normal(count)
        result = np.where(performed > margin, 0, np.where(performed < -margin, 2, 1)).astype(np.int8)
        seat = np.stack([np.zeros(count), np.where(itself, 0, opponent + 1)], axis=1).astype(np.int32)
        outcome = np.stack([result, 2 - result], axis=1)
        turned = np.arange(count) % 2 == 1
        seat[turned], outcome[turned] = seat[turned, ::-1], outcome[turned, ::-1]
        seconds = 60.0 / plan.batches
        played = made_up.matches(
            (learner, *pool),
            seat,
            env="tic_tac_toe",
            match_types=MATCH_TYPES,
            match_type=np.where(itself, 0, 1),
            learning=seat == 0,
            match_id=self.match_id + np.arange(count),
            seed=self.rng.integers(2**62, size=count),
        )
        results = made_up.results(
            played,
            outcome,
            score=1.0 - outcome,
            rank=outcome == 2,
            env_steps=STEPS,
            started_at=self.clock + seconds * np.arange(count) / count,
            seconds=0.01,
        )
        self.match_id += count
        self.clock += seconds
        met = [pool[i] for i in np.unique(opponent[~itself])]
        self.archive.append_results(results, self._changes(learner, skill, met, opponent[~itself], pool))
        self._learn(learner, count * STEPS, progress)

    def _changes(
        self, learner: str, skill: float, met: list[str], opponent: np.ndarray, pool: list[str]
    ) -> list[RatingChange]:
        """Learners move; what does not change is fixed where it was placed."""
        self.games[learner] = self.games.get(learner, 0) + len(opponent)
        counts = np.bincount(opponent, minlength=len(pool))
        changes = [RatingChange(learner, self._rating(skill), 0.8, self.games[learner])]
        for name in met:
            self.games[name] += int(counts[pool.index(name)])
            sigma = 25.0 / 300.0 if name == f"{PLAYER}@0" else 0.9
            changes.append(RatingChange(name, self.rated[name], sigma, self.games[name]))
        return changes

    def _learn(self, learner: str, steps: int, progress: float) -> None:
        share = self.plan.dropped(progress)
        self.dropped += share * steps
        self.trained[learner] += int((1.0 - share) * steps)
        self.updates[learner] += max(1, steps // 500)
        lag = self.plan.lag(progress) * float(np.exp(0.1 * self.rng.standard_normal()))
        metrics = {
            "policy_loss": 0.01 * float(self.rng.standard_normal()),
            "value_loss": 0.2,
            "entropy": 1.5 - progress,
            "gradient_norm": 0.3,
            "queue_depth": 1.0,
            "queue_waits": 3.0,
            "queue_wait_seconds": 1.0,
            "queue_dropped_rollouts": float(self.dropped // 1000) if learner == PLAYER else 0.0,
            "queue_dropped_steps": float(int(self.dropped)) if learner == PLAYER else 0.0,
            "queue_age_seconds": 0.1,
        }
        record = UpdateRecord(learner, self.updates[learner], self.trained[learner], lag, metrics)
        self.archive.append_updates([record])
