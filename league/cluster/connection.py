"""Joining a Ray cluster: whether this process can, found out within 15 seconds, else why not, in a sentence.

    check_cluster(address, modules, runtime_env)    called before Ray is started in this process

First the address is reached for, then a process of its own joins (`league.cluster.probe`) and looks whether
each node has the modules that the run needs. What that process prints and raises becomes one sentence:
`explain` is a pure function of it. A cluster that joins but does not answer for its nodes in time is joined:
a node that is slow is no mistake.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from league.cluster.probe import MARK
from storage.errors import Mistake

REACH_SECONDS = 3.0  # for the address to accept a connection
JOIN_SECONDS = 9.0  # for Ray to join, once it is imported
IMPORT_SECONDS = 30.0  # for the import of Ray, on a busy machine
LOOK_SECONDS = 8.0  # for each node to answer, once the cluster is joined
TOKEN_MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_ADAPTERS = {"gymnasium": "gymnasium", "openspiel": "pyspiel", "pettingzoo": "pettingzoo"}
_NO_TOKEN = re.compile(r"unauthenticated|invalid ?auth ?token|no authentication token", re.IGNORECASE)
INSTALL = (
    "install it on every node, or send your code along with resources.runtime_env, such as {working_dir: .}"
)
_OWN = re.compile(r"([A-Za-z_][\w.]*):[^/\s]+")


@dataclass
class Probed:
    """What a probe has found out so far."""

    step: str = "begun"
    causes: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    looks: list[dict[str, Any]] = field(default_factory=list)
    printed: str = ""  # by Ray, on standard error

    def take(self, line: str) -> None:
        """Take in a line of the probe's output; others' lines are left out."""
        if not line.startswith(MARK):
            return
        said = json.loads(line.removeprefix(MARK))
        self.step = said["step"]
        if self.step == "failed":
            self.causes = said["causes"]
        elif self.step == "joined":
            self.nodes = said["nodes"]
        elif self.step == "node":
            self.looks.append(said)


Probe = Callable[[Mapping[str, Any]], Probed]


def check_cluster(
    address: str,
    modules: Sequence[str] = (),
    runtime_env: Mapping[str, Any] | None = None,
    probe: Probe | None = None,
) -> dict[str, str]:
    """Return the nodes that lack a module or have another version of this package, by id, with the cause.

    Raise Mistake, with one sentence, if this process cannot join the cluster, or if all nodes lack something.
    """
    reach(address)
    if "://" not in address and not has_node():
        raise Mistake(
            f"resources.address {address}: this machine is no node of a cluster, expected the driver on one; "
            f"run `ray start --address={address}` here first, or start the driver on the head"
        )
    use_token()
    asked = {"address": address, "modules": list(modules), "runtime_env": runtime_env}
    found = (probe or run_probe)(asked)
    problem = explain(address, found, token_source())
    if problem is not None:
        raise Mistake(f"resources.address {address}: {problem}")
    return unfit(found.looks)


def reach(address: str) -> None:
    """Raise Mistake unless something accepts connections at `host:port`; other forms are left to Ray."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        if address == "auto" or "://" in address:
            return
        raise Mistake(f"resources.address {address}: expected host:port, such as head:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except TimeoutError:
        reason = f"no answer in {REACH_SECONDS:.0f} s"
    except (OSError, OverflowError) as error:
        reason = str(getattr(error, "strerror", None) or error)
    else:
        return
    raise Mistake(
        f"resources.address {address}: nothing can be reached there ({reason}); start the cluster with "
        f"`ray start --head --port={port}`, or give the address of its head"
    )


def has_node() -> bool:
    """Return whether this machine is a node of some Ray cluster; without one Ray would wait for a minute."""
    import psutil

    return any(process.info["name"] == "raylet" for process in psutil.process_iter(["name"]))


def token_source() -> str | None:
    """Return where this process has a token for clusters from; `None` if it has none. As Ray looks for it."""
    if os.environ.get(TOKEN):
        return TOKEN
    if os.environ.get(TOKEN_PATH):
        return f"{TOKEN_PATH}={os.environ[TOKEN_PATH]}"
    with contextlib.suppress(RuntimeError):  # no home folder
        default = Path.home() / ".ray" / "auth_token"
        if default.is_file():
            return str(default)
    return None


def use_token() -> None:
    """Use a token if there is one and nothing else is set, by the rule of `ray start --head`."""
    if TOKEN_MODE not in os.environ and token_source() is not None:
        os.environ[TOKEN_MODE] = "token"


@functools.cache
def own_version() -> str:
    """Return the version of this package here; "" if it is not installed, but sent along."""
    try:
        return importlib.metadata.version("checkpoint-league")
    except importlib.metadata.PackageNotFoundError:
        return ""


def own_modules(settings: Mapping[str, Any]) -> list[str]:
    """Return the modules that the nodes need for `settings`: `league`, and those that they name.

    They are named as `module:Name` anywhere in the settings; what this process cannot find is no module.
    """
    found: dict[str, None] = {"league": None}
    for text in _texts(settings):
        match = _OWN.fullmatch(text)
        if match is not None:
            module = _ADAPTERS.get(match[1], match[1])
            with contextlib.suppress(ImportError, ValueError):
                if importlib.util.find_spec(module) is not None:
                    found[module] = None
    return list(found)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


# ---------------------------------------------------------------- what went wrong, in one sentence


def explain(address: str, found: Probed, token: str | None) -> str | None:
    """Return why the cluster cannot be joined, with a remedy; `None` if it can."""
    text, printed = " ".join(" ".join(found.causes).split()), " ".join(found.printed.split())
    low = text.lower()
    if found.nodes and not _is_of_runtime_env(low):
        some_fit = len(unfit(found.looks)) < max(len(found.looks), len(found.nodes))
        return None if some_fit else _missing(found.looks)
    if "version mismatch" in low:
        return _versions(text)
    # Ray also prints of tokens where they are not the cause
    if "authentication" in low or _NO_TOKEN.search(printed):
        return _token(low, token)
    if _is_of_runtime_env(low):
        return f"resources.runtime_env cannot be set up: {_first(found)}"
    if "no node info found" in low or "has an ip address of" in low:
        return (
            "this machine is a node of another cluster, expected the driver on a node of that one; run "
            f"`ray start --address={address}` here first, or start the driver on the head"
        )
    if found.step == "begun":
        return f"Ray could not be imported in {IMPORT_SECONDS:.0f} s: {_first(found) or 'no message'}"
    if not found.causes:
        return (
            f"no Ray cluster answers there within {JOIN_SECONDS:.0f} s; give the address that "
            "`ray start --head` printed (host:6379), not that of its dashboard or of Ray Client"
        )
    return f"Ray could not join: {_first(found)}"


def _is_of_runtime_env(low: str) -> bool:
    return any(word in low for word in ("runtime_env", "runtimeenv", "working_dir", "py_modules"))


def _versions(text: str) -> str:
    rays, pythons = re.findall(r"Ray: (\S+)", text), re.findall(r"Python: (\S+)", text)
    if len(rays) < 2 or len(pythons) < 2:
        return "it runs another version of Ray or Python; install the same on every node"
    return (
        f"the cluster runs Ray {rays[0]} with Python {pythons[0]}, this process Ray {rays[1]} with Python "
        f"{pythons[1]}; install the same on every node"
    )


def _token(low: str, token: str | None) -> str:
    remedy = "put the cluster's token into ~/.ray/auth_token or RAY_AUTH_TOKEN, on every node"
    if token is None or "no authentication token was found" in low:
        return f"the cluster requires a token, and there is none here; {remedy}"
    if os.environ.get(TOKEN_MODE, "").lower() != "token":
        return f"the cluster requires a token, but {TOKEN_MODE} is not token here; set {TOKEN_MODE}=token"
    return f"the cluster does not accept the token from {token}; {remedy}"


def unfit(looks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the nodes that cannot do this run's work, by id, each with the cause and the remedy."""
    found, own = {}, own_version()
    for look in looks:
        if look["missing"]:
            found[look["id"]] = f"it lacks the module {', '.join(look['missing'])}; {INSTALL}"
        elif look["version"] not in ("", own):
            found[look["id"]] = (
                f"found checkpoint-league {look['version']} there, expected {own} as on the driver's node; "
                "install the same on every node"
            )
    return found


def _missing(looks: Sequence[Mapping[str, Any]]) -> str | None:
    lacking: dict[str, list[str]] = {}
    for look in looks:
        for module in look["missing"]:
            lacking.setdefault(module, []).append(look["node"])
    if not lacking:
        return None
    parts = [f"{_nodes(nodes)} the module {module}" for module, nodes in lacking.items()]
    return f"{' and '.join(parts)}; {INSTALL}"


def _nodes(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"node {some} lacks" if len(names) == 1 else f"nodes {some} lack"


def _first(found: Probed) -> str:
    """Return the last cause on one line, else the last line that was printed."""
    lines = found.causes[-1:] or [line for line in found.printed.splitlines() if line.strip()][-1:]
    return " ".join(" ".join(lines).split())[:300]


# ---------------------------------------------------------------- the process that probes


def run_probe(asked: Mapping[str, Any], command: Sequence[str] | None = None) -> Probed:
    """Run the probe until it ends or a step takes too long; return what it has found by then."""
    found = Probed()
    allowed = {"begun": IMPORT_SECONDS, "joining": JOIN_SECONDS, "joined": LOOK_SECONDS, "node": LOOK_SECONDS}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            command or [sys.executable, "-m", "league.cluster.probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            env=environment,
            text=True,
            start_new_session=True,  # a Ctrl-C is for this process
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(asked))
            process.stdin.close()
        reader = threading.Thread(target=_read, args=(process, found), daemon=True)
        reader.start()
        step, since = found.step, time.monotonic()
        try:
            while reader.is_alive():
                reader.join(0.05)
                before, step = step, "joined" if found.step == "node" else found.step
                since = since if step == before else time.monotonic()
                if time.monotonic() - since > allowed.get(step, 0.0):
                    break
        finally:
            process.kill()
            process.wait()
            reader.join(1.0)
            if not reader.is_alive() and process.stdout is not None:
                process.stdout.close()
        printed.seek(0)
        found.printed = printed.read()[-20_000:]
    return found


def _read(process: subprocess.Popen[str], found: Probed) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        found.take(line)
