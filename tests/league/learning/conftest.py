import numpy as np
import pytest
import torch

from league.episode import Episodes

torch.set_num_threads(1)


@pytest.fixture
def make_episodes():
    """Episodes with random content: lengths as given, the i-th truncated if `truncated[i]`."""

    def make(lengths, truncated=None, *, shape=(4,), actions=3, seed=0, version=0):
        rng = np.random.default_rng(seed)
        n, e = sum(lengths), len(lengths)
        terminated = np.ones(e, bool) if truncated is None else ~np.asarray(truncated)
        return Episodes(
            player="main-0",
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

    return make
