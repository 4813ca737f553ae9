"""The session of Ray in this process: its head, what it prints here, and how it ends at once.

A thread asks the head of the cluster for a sign of life, and prints a line when there is none.

Without a head nothing can begin, and Ray ends each of its processes that has not reached it for a minute.
Until then runs go on as far as they can. Shortly before that they end in good order: at their next turn
`require_head` raises HeadLost. Where a process of Ray's has ended on this machine, they end at once: if it is
the raylet, and Ray is asked for something before this thread looks, Ray ends the process that asked.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from league.cluster.cards import is_broken
from league.terminal import STDERR
from storage.errors import Failure

LOOK_SECONDS = 2.0  # between two questions
ANSWER_SECONDS = 5.0  # for the answer to one
RAY_GIVES_UP = "RAY_gcs_rpc_server_reconnect_timeout_s", 60.0  # a variable of the environment, seconds
MOST_SECONDS = 2 * (LOOK_SECONDS + ANSWER_SECONDS)  # of the time between two looks, that count
PART = 0.8  # of that time, after which a run ends: the rest is for saving


class HeadLost(Failure):
    """The head of the cluster is gone, or cannot be reached."""


class HeadWatch:
    """A thread that asks the head again and again."""

    def __init__(
        self,
        name: str,
        ask: Callable[[], object],
        ended: Callable[[], str],
        give_up_seconds: float,
        kept: str = "",
        *,
        say: Callable[[str], None],
        seconds: float = LOOK_SECONDS,
    ) -> None:
        """Watch the head `name`.

        `ask` raises if the head does not answer; `ended` returns which of Ray's processes has ended here, ""
        if none is known to; `kept`: the folder with Ray's own messages; `seconds` between two questions.
        """
        self._name, self._ask, self._ended_here, self._kept = name, ask, ended, kept
        self._give_up, self._say, self._seconds = give_up_seconds, say, seconds
        self._lost = ""
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="head", daemon=True).start()

    def require(self) -> None:
        """Raise HeadLost if it is to be waited for no longer."""
        if self._lost:
            kept = f" Ray's own messages are in {self._kept}" if self._kept else ""
            raise HeadLost(
                f"{self._name} is lost: {self._lost}. Everything that was recorded is kept: go on with "
                f"--resume.{kept}"
            )

    @property
    def lost(self) -> bool:
        """Whether it is lost."""
        return bool(self._lost)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _run(self) -> None:
        looked, silent, said = time.monotonic(), 0.0, False
        while not self._ended.wait(self._seconds):
            try:
                gone = self._ended_here()
                self._lost = gone and f"its process {gone} on this machine has ended"
                if not gone:
                    self._ask()
            except Exception:
                # the head is not silent while this process itself is stopped
                silent += min(time.monotonic() - looked, MOST_SECONDS)
                if silent > self._give_up:
                    self._lost = f"it has not answered for {silent:.0f} s"
                elif not said:
                    said = True
                    self._say(
                        f"{self._name} has not answered for {silent:.0f} s: what is under way goes on as far "
                        f"as it can, and after {self._give_up:.0f} s without an answer the run ends"
                    )
            else:
                if said and not self._lost:
                    said = False
                    self._say(f"{self._name} answers again, after {silent:.0f} s")
                silent = 0.0
            looked = time.monotonic()
            if self._lost and not self._ended.is_set():
                self._say(f"{self._name} is lost: {self._lost}; the run is saved and ends")
                return


_watch: HeadWatch | None = None  # of the session of Ray in this process, of which there is one at most
_lost_one = threading.Event()  # whether one was lost in this process


def require_head() -> None:
    """Raise HeadLost if the head of this process's Ray session is lost."""
    if _watch is not None:
        _watch.require()


def is_lost() -> bool:
    """Return whether the head of this process's Ray session is lost: Ray's calls may then never return."""
    return _watch is not None and _watch.lost


def end_process(code: int) -> NoReturn:
    """End this process; at once where the clean-up of a library would hang or crash.

    Ray waits for a head that was lost, or crashes. Freeing what is on a broken GPU aborts, with pages of
    addresses.
    """
    if _lost_one.is_set() or is_broken():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextlib.contextmanager
def watched_head(worker: Any, address: str | None) -> Iterator[HeadWatch]:
    """Watch the head of this process's Ray session; yield the watch.

    `worker`: that of Ray in this process; `address`: of the cluster that was joined, `None`: of this machine.
    """
    global _watch
    node, client = worker.node, worker.gcs_client
    name = "Ray on this machine" if address is None else f"the head of the Ray cluster at {node.gcs_address}"
    variable, seconds = RAY_GIVES_UP
    _watch = HeadWatch(
        name,
        lambda: client.internal_kv_get(b"league", b"league", timeout=ANSWER_SECONDS),
        _first_ended(_own_processes(node)),
        PART * float(os.environ.get(variable, seconds)),
        node.get_logs_dir_path(),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        yield _watch
    finally:
        if _watch.lost:
            _lost_one.set()
        _watch.close()
        _watch = None


def _own_processes(node: Any) -> list[Any]:
    """Return the processes on this machine without which a session cannot go on, as far as they are found."""
    import psutil

    session, found = node.get_session_dir_path(), []
    for process in psutil.process_iter(["name", "cmdline"]):
        arguments = process.info["cmdline"] or []
        raylet = f"--raylet_socket_name={node.raylet_socket_name}" in arguments
        head = f"--session-dir={session}" in arguments and process.info["name"] == "gcs_server"
        if raylet or head:
            found.append(process)
    return found


def _first_ended(processes: Sequence[Any]) -> Callable[[], str]:
    """Return a function that returns the name of one of the processes that has ended, "" if none has."""
    import psutil

    def ended() -> str:
        for process in processes:
            try:
                if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                    return str(process.info["name"])
            except psutil.NoSuchProcess:
                return str(process.info["name"])
        return ""

    return ended


# ------------------------------------------------------------------ its begin and end


@contextlib.contextmanager
def begun(address: str | None, move_lines: Callable[[Path], None]) -> Iterator[None]:
    """Watch over the session that Ray has begun in this process, and end it.

    `address`: of the cluster that was joined, `None`: of this machine; `move_lines` is given the file for
    what is printed past Python.
    """
    worker = sys.modules["ray._private.worker"].global_worker
    move_lines(Path(worker.node.get_logs_dir_path(), f"league-{os.getpid()}.err"))
    with deaths_unprinted(), watched_head(worker, address) as watch:
        try:
            yield
        finally:
            end_ray(lost=watch.lost)


def end_ray(*, lost: bool) -> None:
    """End Ray in this process, and kill the processes that it has started here and those of its raylet.

    Ray itself would send them a SIGTERM, which they never get, and wait a second for each. With `lost` its
    head does not answer, and to end Ray might take a minute: that is left to the end of this process.
    """
    worker = sys.modules["ray._private.worker"]
    node = worker._global_node
    if node is not None and node.all_processes:  # else a cluster was joined
        pids = [info.process.pid for infos in node.all_processes.values() for info in infos]
        kill_all = node.kill_all_processes

        def kill(**options: Any) -> None:
            _kill_trees(pids)
            kill_all(**options | {"allow_graceful": False})

        node.kill_all_processes = kill
        if lost:
            _kill_trees(pids)
    if not lost:
        worker.shutdown()


def _kill_trees(pids: Iterable[int]) -> None:
    """Kill processes and all that they have started."""
    import psutil

    found: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found += [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()


@contextlib.contextmanager
def deaths_unprinted() -> Iterator[None]:
    """Keep Ray from printing a paragraph about each process that dies: incidents name it in one line.

    Ray has no option for that. Without the function that prints it, nothing is changed.
    """
    module = sys.modules.get("ray._private.worker")
    printing = getattr(module, "print_to_stdstream", None)
    if module is None or printing is None:
        yield
        return
    module.print_to_stdstream = lambda *_, **__: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.print_to_stdstream = printing  # type: ignore[attr-defined]


@contextlib.contextmanager
def errors_to_file() -> Iterator[None]:
    """Have Ray's loggers write where its libraries print: to a file, in a command (`league.terminal`)."""
    logger = logging.getLogger("ray")
    before = list(logger.handlers)
    with open(STDERR, "w", closefd=False, buffering=1) as file:
        logger.handlers = [logging.StreamHandler(file)]
        try:
            yield
        finally:
            logger.handlers = before
