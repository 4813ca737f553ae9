"""The command `league`, forked from a process that has imported everything already: each in a process of its
own, as a user's is, without the seconds of imports that hundreds of tests would pay for again and again.

Reads requests from standard input, a JSON object on each line: arguments, cwd, out and err (files), timeout.
Answers each with its exit code on a line of standard output; null: it took too long and was killed.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import sys
import threading
import time

IMPORTED = [
    "analysis.diagnostics",
    "analysis.history.history",
    "analysis.history.named_queries",
    "analysis.plots",
    "analysis.report",
    "analysis.tournaments.tournament",
    "league.commands.app",
    "league.config.settings",
    "league.envs.conformance",
    "league.exploit.measure",
    "league.models.bots.scripted",
    "league.rules.matchmaking.branches",
    "league.arena.comparison",
    "league.tournament.play",
    "league.tournament.view",
    "league.training.counterfactual",
    "league.training.loop",
    "league.training.view",
    "league.watching.play",
    "league.watching.replay",
    "storage.archive",
    "storage.remote.mirror",
    "storage.upkeep.exports",
    "storage.upkeep.garbage",
    "storage.upkeep.imports",
    "storage.upkeep.verification",
]


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
        print(json.dumps(ended(child, request["timeout"])), file=answers)


def become(request: dict) -> None:
    """Run the command in this process, and end it with the exit code and exit handlers that `league` has."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, err = (os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err"))
    for given, number in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(given, number)
    os.chdir(request["cwd"])
    sys.argv = ["league", *request["arguments"]]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the server's has read ahead
    from league.commands import console
    from league.commands.app import main

    console.LONG_SECONDS = 3600.0  # lines of progress would depend on the load of the machine
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)  # to take a thousand modules apart first would take a second
    raise AssertionError("`main` always exits")


def ended(child: int, timeout_seconds: float) -> int | None:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    del sys.path[0]  # this folder, which no user has there
    for name in IMPORTED:
        importlib.import_module(name)
    serve()
