import os

import pytest

# Several tests at a time: numpy's threads would wait for one another by spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory):
    """No test finds what another run of the tests, or the user, has left in the node's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
