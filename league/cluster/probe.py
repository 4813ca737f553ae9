"""A probe of a Ray cluster: a process of its own that joins it, looks at each node, and ends.

Joining is left to another process since Ray waits for minutes, prints pages and may abort where it cannot
join. The process gets one JSON object on its standard input and prints one for each step it has taken:

    {"step": "joining"}                         Ray is imported
    {"step": "failed", "causes": [...]}         the errors, each the cause of the one before
    {"step": "joined", "nodes": [...]}          names of the living nodes
    {"step": "node", "id": ..., "node": ..., "missing": [...], "version": ...}

Functions for other nodes are sent by value, so a node needs nothing but Ray to answer.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

MARK = "@probe "  # before each line of ours: libraries print, too


def say(**fields: Any) -> None:
    """Print one step."""
    print(MARK + json.dumps(fields), flush=True)


def causes(error: BaseException | None) -> list[str]:
    """Return the texts of an error and of what caused it, in order."""
    found: list[str] = []
    while error is not None and len(found) < 10:
        found.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return found


def look(modules: list[str]) -> dict[str, Any]:
    """Return what the node that runs this has of `modules`, of which only parent packages are imported."""
    import importlib.metadata
    import importlib.util
    import socket

    missing = []
    for module in modules:
        try:
            there = importlib.util.find_spec(module) is not None
        except (ImportError, ValueError):
            there = False
        if not there:
            missing.append(module)
    try:
        version = importlib.metadata.version("checkpoint-league")
    except importlib.metadata.PackageNotFoundError:  # sent along with the run
        version = ""
    return {"node": socket.gethostname(), "missing": missing, "version": version}


def main() -> int:
    """Probe the cluster that standard input names."""
    asked = json.load(sys.stdin)
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    say(step="joining")
    try:
        ray.init(
            address=asked["address"],
            runtime_env=asked["runtime_env"],
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
        nodes = [node for node in ray.nodes() if node["Alive"]]
        say(step="joined", nodes=[node["NodeManagerHostname"] for node in nodes])
        looking: Any = ray.remote(look)
        ids = {
            looking.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(asked["modules"]): node["NodeID"]
            for node in nodes
        }
        waiting = list(ids)
        while waiting:
            (first, *_), waiting = ray.wait(waiting, num_returns=1)
            say(step="node", id=ids[first], **ray.get(first))
    except Exception as error:
        say(step="failed", causes=causes(error))
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Ray's own end takes seconds, and the cluster notices ours
