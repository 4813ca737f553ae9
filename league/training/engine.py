"""What plays and learns in a run: runners, learners and evaluation runners, in this process or on Ray."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from league.cluster.cards import repeatable
from league.cluster.connection import own_modules
from league.cluster.nodes import NodeWatch, gpus_of_nodes
from league.cluster.runners import Elastic
from league.cluster.runtime import over_nodes, ray_session
from league.config.placement import place
from league.config.settings import Settings
from league.learning.groups.learners import Learners
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shard_learners import Recruits
from league.learning.groups.shards import num_cpus
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import LocalRunnerGroup, RayRunnerGroup, RunnerGroup
from league.rollout.snapshots import start_peers
from league.training.sources import recruit_of
from league.training.state.state import player_seed


class Engine(NamedTuple):
    """What plays and learns."""

    runners: RunnerGroup
    learners: Learners
    evaluators: RunnerGroup | None = None  # their matches are recorded but not learned from
    elastic: Elastic | None = None  # where nodes may come and go


@contextlib.contextmanager
def start_engine(settings: Settings) -> Iterator[Engine]:
    """Yield what plays and learns by `settings`, and close it at the end."""
    with contextlib.ExitStack() as stack:
        if settings.most_runners:
            engine = _on_ray(settings, stack)
        else:
            if settings.resources.gpus or settings.rollout.device != "cpu":
                stack.enter_context(repeatable())
            shards = place(settings).shards
            engine = Engine(
                LocalRunnerGroup(play_setup(settings)), LocalLearners(shards, _recruits(settings))
            )
        stack.callback(engine.runners.close)
        stack.callback(engine.learners.close)
        yield engine


def _recruits(settings: Settings) -> Recruits:
    """Return the learners of all players as they begin."""
    specs, resources = settings.policy_specs(), settings.resources
    return Recruits(
        tuple(
            recruit_of(
                player, specs[player], settings.learner_of(player, role), player_seed(settings.seed, i)
            )
            for i, (player, role) in enumerate(settings.players().items())
        ),
        "cuda" if resources.gpus else "cpu",
        settings.processes.threads if settings.most_runners else resources.threads,
        settings.learners,
    )


def play_setup(settings: Settings) -> PlaySetup:
    """Return how matches are played to train."""
    here = settings.resources.address is None  # where the cores are counted
    return PlaySetup(
        settings.env.id,
        settings.env.options,
        settings.rollout_of_runners,
        settings.resources.threads,
        settings.storage.cache(),
        settings.bots,
        trust=settings.own_code(),
        precision=settings.precision_of_play,
        gives_way=bool(settings.most_runners) and here and settings.processes.crowded,
        patience=settings.resources.patience_seconds,
    )


def _on_ray(settings: Settings, stack: contextlib.ExitStack) -> Engine:
    """Start Ray and all that runs on it; `stack` closes what the engine does not."""
    resources, n = settings.resources, settings.least_runners
    num_runners = n + settings.evaluation.runners  # there must be room for these; others wait for it
    num_actors = num_cpus(place(settings).shards, settings.learners.aggregators)
    stack.enter_context(ray_session(resources, num_actors, num_runners, own_modules(settings.model_dump())))
    play = replace(play_setup(settings), peers=start_peers(resources, settings.storage.cache()))
    known = resources.address is not None and resources.wait_seconds is None
    learners = RayLearners(
        place(settings, gpus_of_nodes() if known else None).shards,
        _recruits(settings),
        num_runners=num_runners,
        of_runner=resources.of_runner,
        wait_seconds=resources.wait_seconds,
        share=resources.share_of_learners(num_runners),
        placement=resources.placement,
        patience=resources.patience_seconds,
    )
    seats, of_runner = learners.seats, resources.of_runner
    evaluators = None
    if settings.evaluation.runners:
        calm = replace(play, precision="float32")
        evaluators = RayRunnerGroup(num_runners - n, calm, of_runner, seats[n:], "evaluation_runner")
        stack.callback(evaluators.close)
    runners = RayRunnerGroup(
        settings.most_runners, play, of_runner, seats[:n], as_room=settings.most_runners > n
    )
    elastic = None
    if over_nodes(resources):
        watch = NodeWatch()
        stack.callback(watch.close)
        elastic = Elastic(watch, learners.follow, [runners] if evaluators is None else [runners, evaluators])
    return Engine(runners, learners, evaluators, elastic)
