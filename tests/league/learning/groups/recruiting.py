"""Recruits for tests, players that learn alike but for their seeds; and counted GPUs for them to learn on."""

import contextlib
import os
import sys
import time

from league.cluster.runtime import ResourceSettings, ray_session
from league.envs.spaces import ActionSpec, ObservationSpec
from league.learning.groups import ray_learners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shard_learners import Recruit, Recruits
from league.learning.groups.shards import plan_shards
from league.learning.settings import LearnerSettings, LearnersSettings
from league.models.spec import PolicySettings, PolicySpec
from tests.league.fake_ray import FakeRay

SPEC = PolicySpec(PolicySettings(hidden=(8,)), ObservationSpec((4,), "float32"), ActionSpec("discrete", (3,)))
PLAYERS = ("main-0", "main-1")
ONE, TWO = plan_shards(0, PLAYERS), plan_shards(0, PLAYERS, shards=2)  # a process for both, and for each
STORE = 80 * 2**20  # bytes of memory for objects, of each raylet


def recruits_of(spec, settings, seeds, **shared):
    """Players of `seeds` (player: seed), with one policy and one set of settings; `shared`: by all."""
    each = tuple(Recruit(player, spec, settings, seed) for player, seed in seeds.items())
    return Recruits(each, shared=LearnersSettings(**shared))


def shared_of(settings):
    """Take from `settings` (by name) those that all learners share."""
    return {key: settings.pop(key) for key in LearnersSettings.model_fields if key in settings}


def collect(group, count, seconds=60.0):
    """`count` reports, in order of arrival."""
    reports, give_up = [], time.monotonic() + seconds
    while len(reports) < count:
        assert time.monotonic() < give_up, f"{len(reports)} of {count} reports came"
        reports += group.ready(0.1)
    return reports


def fake_ray(monkeypatch, process):
    """A Ray that is a fake, in which learners are in processes of the class `process`."""
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr("league.learning.groups.shard_actors.RemoteShardLearners", process)
    for name in ("reserve", "release", "inside"):
        monkeypatch.setattr(ray_learners, name, lambda *arguments, **others: None)
    return fake


def on_fake_ray(fake, shards=TWO, runners=0, patience="auto", **settings):
    """Learners of both players there."""
    shared = {"copy_seconds": None, **shared_of(settings)}
    own = LearnerSettings(**{"batch_steps": 64, **settings})
    recruits = recruits_of(SPEC, own, {"main-0": 1, "main-1": 2}, **shared)
    return RayLearners(shards, recruits, num_runners=runners, patience=patience, clock=fake.clock)


def learner_of(group, player):
    """The process that `player` learns in now."""
    return group._of(player).processes[0]


def submit(fake, group, player, make_episodes, **content):
    """Submit a block of experience that makes one update."""
    group.submit(player, fake.put(make_episodes([16] * 4, player=player, **content)), 0.0, 64)


@contextlib.contextmanager
def raylets(head, *nodes):
    """A cluster and a session on it; `head` and `nodes` are the CPUs and GPUs that each counts as its own."""
    for name in ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "RAY_USAGE_STATS_ENABLED"):
        os.environ.setdefault(name, "0")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={**head, "object_store_memory": STORE})
    try:
        made.workers = [made.add_node(**node, object_store_memory=STORE) for node in nodes]
        with ray_session(ResourceSettings(address=made.address), num_actors=0):
            yield made
    finally:
        made.shutdown()


def node_of(actor):
    """The node that an actor is on, asked of the actor itself (`__ray_call__`)."""
    import ray

    return ray.get_runtime_context().get_node_id()
