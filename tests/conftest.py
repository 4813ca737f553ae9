import gc
import os
import re

import pytest

# Several tests at a time: numpy's threads would wait for one another by spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported
# Ray keeps the first mode of a process: one that used a token cannot own actors of a cluster without.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
# Ray's workers would starve beside the processes of another test: what starves looks as if it hung.
os.environ.setdefault("RAY_worker_niceness", "0")

# Collecting tests makes millions of objects that stay: a third of its time would go into looking for garbage.
THRESHOLDS = gc.get_threshold()
gc.set_threshold(200_000, 20, 50)

BUDGET_SECONDS = 1.0
MARKED = {"slow", "alone", "long"}
_SECONDS: dict[str, float] = {}  # of the unmarked tests that took longer than the budget
FOUND_BY = {
    "long": r"mark\.long|mostly_long",
    "alone": r"mark\.alone",
}  # in the text of a file, by the Makefile
SLOW_FIXTURES = {"trained"}  # a whole run of the command line: seconds, even for a test that only reads it


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items):
    """Mark slow whatever asks for a run that was trained; refuse marks that the Makefile does not find."""
    texts = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        for mark, found in FOUND_BY.items():
            if mark in marks and not re.search(found, texts[item.path]):
                raise pytest.UsageError(
                    f"{item.nodeid}: is {mark}, but its file has no `{found}`; see Makefile"
                )
        if SLOW_FIXTURES & set(item.fixturenames) and not MARKED & marks:
            item.add_marker("slow")


def pytest_collection_finish():
    """Look for garbage as often as Python does again."""
    gc.set_threshold(*THRESHOLDS)


def pytest_runtest_logreport(report):
    """Note each unmarked test whose own call took longer than the budget."""
    if report.when == "call" and report.duration > BUDGET_SECONDS and not MARKED & set(report.keywords):
        _SECONDS[report.nodeid] = report.duration


def pytest_terminal_summary(terminalreporter):
    """List the unmarked tests over their budget: each costs everyone who runs `make check`."""
    if not _SECONDS:
        return
    terminalreporter.section(f"unmarked tests over their budget of {BUDGET_SECONDS:g} s: {len(_SECONDS)}")
    for test, seconds in sorted(_SECONDS.items(), key=lambda item: -item[1])[:20]:
        terminalreporter.write_line(f"{seconds:5.1f} s  {test}")
    terminalreporter.write_line("Make them faster, or mark them `slow` (see tests/README.md).")


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory):
    """No test finds what another run of the tests, or the user, has left in the node's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def browser():
    """A browser without a screen, of the whole session."""
    from tests.analysis.browser import Browser

    with Browser() as browser:
        yield browser
