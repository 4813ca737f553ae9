"""What Ray prints in this process, which goes to a file, and what it has started here, which ends at once."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from league.cluster.head import watched_head
from league.terminal import STDERR


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
