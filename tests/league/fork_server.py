"""The command `league`, forked from a process that has imported everything already: each in a process of its
own, as a user's is, without the seconds of imports that hundreds of tests would pay for again and again.

Reads requests from standard input, a JSON object on each line: arguments, cwd, out and err (files), timeout.
Answers each with its exit code on a line of standard output; null: it took too long and was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            return  # from here on as `league` itself does: its exit handlers run, its exit code is sent
        print(json.dumps(ended(child, request["timeout"])), file=answers)


def become(request: dict) -> None:
    """Run the command in this process; ends with SystemExit."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, err = (os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err"))
    for given, number in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(given, number)
    os.chdir(request["cwd"])
    sys.argv = ["league", *request["arguments"]]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the server's has read ahead
    from league.commands.app import main

    main()


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

    serve()
