import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.episode import Episodes
from league.learning.learner.learner import Learner
from league.learning.settings import LearnerSettings
from league.models.spec import PolicySettings, PolicySpec

torch.set_num_threads(1)

ACTIONS = {
    "discrete": ActionSpec("discrete", (3,)),
    "multi_discrete": ActionSpec("multi_discrete", (3, 2)),
    "continuous": ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 2.0)),
}


@pytest.fixture
def make_spec():
    """The spec of a small network: four numbers in, an action of some kind out."""

    def make(kind="discrete", **settings):
        settings = {"hidden": (16,), **settings}
        return PolicySpec(PolicySettings(**settings), ObservationSpec((4,), "float32"), ACTIONS[kind])

    return make


@pytest.fixture
def learner(make_spec):
    """A learner of such a network; `policy`: settings of that, `replay`: part of each update, or settings."""

    def make(policy=None, seed=1, replay=0.0, teacher=None, **settings):
        old = replay if isinstance(replay, dict) else {"proportion": replay}
        own = LearnerSettings(**{"batch_steps": 64, "replay": old, **settings})
        return Learner("main-0", make_spec(**(policy or {})), own, seed, teacher=teacher)

    return make


def same(a, b):
    """Whether both have the same tensors by name, to the bit."""
    return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def make_episodes():
    return random_episodes


def random_episodes(lengths, truncated=None, *, shape=(4,), actions=3, seed=0, version=0, player="main-0"):
    """Episodes with random content: lengths as given, the i-th truncated if `truncated[i]`."""
    rng = np.random.default_rng(seed)
    n, e = sum(lengths), len(lengths)
    terminated = np.ones(e, bool) if truncated is None else ~np.asarray(truncated)
    return Episodes(
        player=player,
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        match_id=np.arange(e),
        seat=np.zeros(e, np.int8),
        version=np.full(e, version),
        terminated=terminated,
        observation=rng.normal(size=(n, *shape)).astype(np.float32),
        mask=np.ones((n, actions), bool),
        action=rng.integers(0, actions, n),
        log_prob=np.full(n, -np.log(actions), np.float32),
        reward=rng.normal(size=n).astype(np.float32),
        bootstrap=rng.normal(size=(int((~terminated).sum()), *shape)).astype(np.float32),
    )
