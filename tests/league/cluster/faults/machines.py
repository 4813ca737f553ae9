"""A Ray cluster of three raylets on this machine, two of which do not see the run's folder.

Each raylet is started by a process of its own, in a session of its own, and all processes are found through
it: never by name alone, as other clusters may run here. The two further raylets are in mount namespaces in
which an empty folder is where the run and its caches are, and, where that is allowed, in network namespaces
whose cables can be pulled.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

STORE_BYTES = 80 * 2**20
KINDS = {
    "RemoteRunner": "runner",
    "RemoteShardLearners": "learner",
    "Aggregator": "aggregator",
    "RayHolder": "supply",
}
ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_prestart_worker_first_driver": "0",  # idle workers would cost this machine most of its time
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # until a driver ends whose head is lost; Ray's own: 60
}


def blind(folder: Path) -> list[str]:
    """Return the beginning of a command that sees an empty `folder`."""
    return ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {folder} && exec "$@"', "sh"]


def can_be_blind(folder: Path) -> bool:
    return subprocess.run([*blind(folder), "true"], capture_output=True).returncode == 0


class Network:
    """A bridge on this machine, and a network namespace with a cable to it for each further machine."""

    def __init__(self) -> None:
        """Make the bridge. Raise CalledProcessError where that is not allowed."""
        taken = {path.name.split("-")[0] for path in Path("/sys/class/net").iterdir()}
        self._number = next(n for n in range(1, 255) if f"lg{n}" not in taken)  # 10.203.n.0/24
        self._name = f"lg{self._number}"
        self._spaces: list[str] = []
        self.address = f"10.203.{self._number}.1"
        _ip(f"link add {self._name} type bridge")
        try:
            _ip(f"addr add {self.address}/24 dev {self._name}")
            _ip(f"link set {self._name} up")
        except BaseException:
            self.close()
            raise

    def join(self) -> tuple[str, list[str]]:
        """Add a namespace. Return its address and the beginning of a command in it."""
        space = f"{self._name}-{len(self._spaces) + 1}"
        address = f"10.203.{self._number}.{len(self._spaces) + 11}"
        self._spaces.append(space)
        _ip(f"netns add {space}")
        _ip(f"link add {space} type veth peer name eth0 netns {space}")
        _ip(f"link set {space} master {self._name} up")
        for inside in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"):
            _ip(f"-n {space} {inside}")
        return address, ["ip", "netns", "exec", space]

    def cut(self, address: str, *, mend: bool = False) -> None:
        """Pull the cable of a namespace, or put it back."""
        space = self._spaces[int(address.rpartition(".")[2]) - 11]
        _ip(f"link set {space} {'up' if mend else 'down'}")

    def close(self) -> None:
        for space in self._spaces:
            _ip(f"netns del {space}")
        _ip(f"link del {self._name}")


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


def network() -> Network | None:
    """Return a network, `None` where none can be made."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return Network()
    return None


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and all that it has started, as far as they live."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to those that live still; psutil compares the time when each began."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


class Machine:
    """One raylet, and all processes that it has started."""

    def __init__(
        self, arguments: list[str], prefix: list[str], cpus: int, log: Path, address: str = ""
    ) -> None:
        self._command = [*prefix, str(Path(sys.executable).with_name("ray")), "start", *arguments]
        self._command += ["--block", f"--num-cpus={cpus}", f"--object-store-memory={STORE_BYTES}"]
        self._log, self.address = log, address
        self._known: list[psutil.Process] = []
        self.lives = 0
        self.start()

    def start(self) -> None:
        """Start it, or start it again when nothing of it is left."""
        send(self._known, signal.SIGKILL)
        self.lives += 1
        self._joined_before = self._joined()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=os.environ | ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
            )

    def processes(self) -> list[psutil.Process]:
        """Return all processes of this machine that live."""
        found = {process.pid: process for process in [*self._known, *tree(self._process.pid)]}
        for process in list(found.values()):  # those whose parent has died have others
            for child in tree(process.pid):
                found.setdefault(child.pid, child)
        self._known = [process for process in found.values() if _lives(process)]
        return self._known

    def is_there(self) -> bool:
        """Return whether it has joined its cluster and lives; start it again if it could not start."""
        if self._process.poll() is not None:  # on a busy machine Ray gives up after 30 s
            self.start()
        return self._joined() > self._joined_before and self.raylet() is not None

    def _joined(self) -> int:
        return self._log.read_bytes().count(b"Ray runtime started") if self._log.exists() else 0

    def raylet(self) -> psutil.Process | None:
        return next((process for process in self.processes() if _name(process) == "raylet"), None)

    def actors(self) -> list[tuple[str, str, psutil.Process]]:
        """Return (kind, method that it is in or "", process) of each actor of a league."""
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error, IndexError):
                title = process.cmdline()[0]
                parent = process.parent()
                if parent is not None and parent.cmdline()[0].startswith("ray::"):
                    continue  # a fork, in which a runner plays
                kind, _, method = title.removeprefix("ray::").partition(".")
                if title.startswith("ray::") and kind in KINDS:
                    found.append((KINDS[kind], method, process))
        return found

    def kill(self) -> None:
        """Kill everything on it at once."""
        send(self.processes(), signal.SIGKILL)
        self._process.wait()


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.name()
    return ""


class Cluster:
    """A head that sees `shared`, and two further raylets that do not; `cpus` of it and of each of them."""

    def __init__(self, shared: Path, cpus: tuple[int, int]) -> None:
        self._shared, self._cpus = shared, cpus
        self.network = network()
        self._places = [self.network.join() if self.network else ("", []) for _ in range(2)]
        # short: the path of a socket is limited
        self._temp = Path(tempfile.mkdtemp(prefix="lf-", dir="/tmp"))
        self.machines: list[Machine] = []
        self._heads = 0
        self.ended_lives = 0  # of machines that are blind
        self.start()

    @property
    def head(self) -> Machine:
        return self.machines[0]

    @property
    def others(self) -> list[Machine]:
        return self.machines[1:]

    @property
    def blind_lives(self) -> int:
        """How often a machine that does not see the run has begun with an empty cache."""
        return self.ended_lives + sum(machine.lives for machine in self.others)

    def start(self) -> None:
        """Start a head and the others, at a new address."""
        host = self.network.address if self.network else "127.0.0.1"
        with socket.create_server((host, 0)) as server:
            port = server.getsockname()[1]
        self.address = f"{host}:{port}"
        self._heads += 1
        head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={self._temp}"]
        head += [f"--node-ip-address={host}"] if self.network else []
        self.machines = [Machine(head, [], self._cpus[0], self._log())]
        give_up = time.monotonic() + 180
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((host, port), 1.0).close()
                if self.head.is_there():
                    break
            assert time.monotonic() < give_up, "the head does not start"
            time.sleep(0.2)
        for own, inside in self._places:
            arguments = [f"--address={self.address}", *([f"--node-ip-address={own}"] if own else [])]
            prefix = [*inside, *blind(self._shared)]
            self.machines.append(Machine(arguments, prefix, self._cpus[1], self._log(), own))
        for machine in self.others:
            while not machine.is_there():
                assert time.monotonic() < give_up, "a raylet does not start"
                time.sleep(0.2)

    def _log(self) -> Path:
        return self._shared.parent / f"ray-{self._heads}-{len(self.machines)}.log"

    def actors(self) -> list[tuple[str, str, psutil.Process, Machine]]:
        return [(*actor, machine) for machine in self.machines for actor in machine.actors()]

    def census(self) -> dict[str, int]:
        """Return the number of living actors of each kind."""
        kinds = [kind for kind, *_ in self.actors()]
        return {kind: kinds.count(kind) for kind in KINDS.values()}

    def kill(self) -> None:
        """Kill all machines, the head first."""
        for machine in self.machines:
            machine.kill()
        self.ended_lives += sum(machine.lives for machine in self.others)
        self.machines = []

    def close(self) -> None:
        self.kill()
        if self.network:
            self.network.close()
        shutil.rmtree(self._temp, ignore_errors=True)


@contextlib.contextmanager
def cluster(shared: Path, cpus: tuple[int, int]) -> Iterator[Cluster]:
    """A cluster that ends with the block, whatever happens in it."""
    made = Cluster(shared, cpus)
    try:
        yield made
    finally:
        made.close()
