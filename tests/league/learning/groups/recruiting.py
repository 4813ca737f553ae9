"""Recruits for tests, players that learn alike but for their seeds; and counted GPUs for them to learn on."""

import contextlib
import os
import time

from league.cluster.runtime import ResourceSettings, ray_session
from league.learning.groups.shard_learners import Recruit, Recruits
from league.learning.settings import LearnersSettings

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
