"""A siege: a league is trained in a cluster of three machines while victims die or hang at random.

    python -m tests.league.cluster.faults.siege --kills 200 --seed 7        (make faults-cluster)

After each death the league must play and learn on for every player, within `PATIENCE`, with all its processes
replaced; a head, a driver and a driver that was cut off go on by --resume. While a process is stopped the
others go on: `kept` is the part of their matches a second, by the ledger, that they keep from GRACE seconds
after the stop on. At the end nothing that was acknowledged is lost or there twice, and ratings are those of a
replay (`checks`).

Times are those of an idle machine with a core for each process that starts; `--slow` stretches them. The
table that is printed has a line for each death, and the seed and the folder of what failed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from league.commands.app import INTERRUPTED
from tests.league.cluster.faults.checks import check
from tests.league.cluster.faults.leagues import CPUS, HUNG_SECONDS, RUNNERS, SCENES, Driver, Scene, write
from tests.league.cluster.faults.machines import Machine, can_be_blind, cluster, send
from tests.league.cluster.faults.witness import Witness

PATIENCE = 30.0  # seconds until there is progress
PATIENCE_MACHINE = 60.0  # after the death of a raylet, a head or a driver
GROWTH_MEGABYTES = 400.0  # of a driver, from its first progress on
WEIGHTS = {
    "runner": 6,
    "all runners": 1,
    "learner": 5,  # or a peer, where a shard has two processes
    "aggregator": 3,
    "supply": 1,
    "several": 4,  # actors of any kind, one after the other, before what died is back
    "raylet": 3,
    "machine": 2,  # all of its processes at once
    "both machines": 1,  # all but the head: nothing has room until they are back
    "experience": 2,  # a machine with runners, while what they played waits for a learner that is stopped
    "stopped runner": 4,  # by SIGSTOP, for a while
    "stopped learner": 6,
    "stopped aggregator": 2,
    "stopped raylet": 1,
    "partition": 4,  # a machine whose network is gone for a while
    "driver": 2,
    "head": 1,
    "cut off": 1,  # a driver that is stopped while another one goes on
}
STOPPED = 5.0, 120.0  # seconds, least and most, of what is stopped or cut off
BEFORE, GRACE = 10.0, 5.0  # seconds of the rate before a stop, and after it
BACK_SECONDS = 3.0  # after which a raylet has ended that was given up while it could not be reached
KEPT = 0.8  # of their rate, by those that are not stopped
DISTURB_NONE = ("runner", "learner", "aggregator", "supply")  # beside the players of a shard
RECORDED = ("runner", "all runners", "learner", "aggregator")  # each of these deaths is an incident


class Event(NamedTuple):
    """One death, and what followed."""

    number: int
    kind: str
    kills: int
    what: str
    seconds: float  # until there was progress
    gap: float  # longest time without a match
    stall: float | None  # longest time without an update of a player whose learner was not touched
    kept: float | None  # part of their rate that others kept while a process was stopped
    incidents: int
    grown: float  # megabytes of the driver's memory, beyond those at the first progress


class Siege:
    """One league under siege."""

    def __init__(self, scene: Scene, seed: int, folder: Path, stop_seconds: float, slow: float) -> None:
        self.scene, self.seed, self.folder = scene, seed, folder
        self.shared = folder / "shared"
        self.shared.mkdir(parents=True)
        self.run = self.shared / "run"
        self.events: list[Event] = []
        self._rng = random.Random(seed)
        self._stop_seconds, self._slow = stop_seconds, slow
        self._first_megabytes = 0.0
        self._kills = 0  # of the death that is under way
        self._kept: float | None = None
        write(folder, scene, seed, self.shared)

    # ------------------------------------------------------------------ from begin to end

    def go(self, kinds: list[str]) -> dict[str, int]:
        """Train while these deaths happen, then end the run and check it. Return what was counted."""
        with cluster(self.shared, CPUS) as self.cluster:
            self.witness = Witness(self.run)
            self.driver = self._begin()
            try:
                self._await_progress(time.monotonic(), 3 * PATIENCE_MACHINE, "the start")
                self._first_megabytes = self.driver.megabytes()
                self._rest()
                for number, kind in enumerate(kinds, start=1):
                    time.sleep(self._rng.uniform(0.5, 3.0))
                    self._suffer(number, kind)
                self.driver.interrupt()
                assert self.driver.process.wait(60 * self._slow) == INTERRUPTED, self.driver.tail()
            finally:
                self.driver.destroy()
                self.witness.close()
            assert self.witness.error is None, self.witness.error
            self._await(lambda: not any(self.cluster.census().values()), 15.0, "the cluster is clean")
            remote = f"file://{self.folder}/remote" if self.scene.remote else None
            return check(self.run, self.witness.frames, self.cluster.blind_lives, remote)

    def _begin(self, *, resume: bool = False) -> Driver:
        return Driver(self.folder, self.run, f"resources.address={self.cluster.address}", resume=resume)

    def _rest(self) -> None:
        """Print the gap and the stall of a while without a death, with which those of deaths compare."""
        began = time.monotonic()
        time.sleep(self._stop_seconds)
        now = time.monotonic()
        gap, stall = self.witness.longest_gap(began, now), self._stall(began, now, set()) or 0.0
        print(
            f"   0  {'none':18}  {now - began:5.1f} s  gap {gap:5.1f} s  stall of others {stall:4.1f} s",
            flush=True,
        )

    def _suffer(self, number: int, kind: str) -> None:
        for machine in self.cluster.others:
            self._start_again(machine)
        began, before = time.monotonic(), len(self.witness.incidents)
        self._kills, self._kept = 1, None
        what, since, patience = getattr(self, "_" + kind.replace(" ", "_"))()
        at = self._await_recovery(since, patience, f"{number}: {kind} ({what})")
        assert not any(decision == "stop" for decision, _ in self.witness.decisions), "a player was stopped"
        incidents = self.witness.incidents[before:]
        event = Event(
            number,
            kind,
            self._kills,
            what,
            at - since,
            self.witness.longest_gap(began, at),
            self._stall(began, at, {who for _, _, who, _ in incidents}) if kind in DISTURB_NONE else None,
            self._kept,
            len(incidents),
            self._grown(),
        )
        self.events.append(event)
        assert kind not in RECORDED or incidents, f"{number}: the death of {kind} ({what}) is no incident"
        assert event.grown < GROWTH_MEGABYTES, f"the driver has grown by {event.grown:.0f} MB"
        stall = "" if event.stall is None else f"stall of others {event.stall:4.1f} s"
        stall = stall if event.kept is None else f"others kept {event.kept:4.0%}"
        print(
            f"{number:4}  {kind:18}  {event.seconds:5.1f} s  gap {event.gap:5.1f} s  {stall:21}  "
            f"{event.incidents} incidents  {what}",
            flush=True,
        )

    def _grown(self) -> float:
        return self.driver.megabytes() - self._first_megabytes if self.driver.process.poll() is None else 0.0

    # ------------------------------------------------------------------ deaths: what, since when, patience

    def _one(self, kind: str, busy: bool = False) -> tuple[psutil.Process, Machine, str]:
        """Draw an actor of a kind; if `busy`, one that is in a call if there is any."""
        found = [actor for actor in self.cluster.actors() if actor[0] == kind]
        assert found, f"there is no {kind}"
        working = [actor for actor in found if actor[1]]
        _, method, process, machine = self._rng.choice(working if busy and working else found)
        return process, machine, f"{method or 'idle'} on {self._name(machine)}"

    def _name(self, machine: Machine) -> str:
        return f"machine {self.cluster.machines.index(machine)}"

    def _kill_one(self, kind: str) -> tuple[str, float, float]:
        process, _, what = self._one(kind, busy=self._rng.random() < 0.5)
        send([process], signal.SIGKILL)
        return what, time.monotonic(), PATIENCE

    def _runner(self) -> tuple[str, float, float]:
        return self._kill_one("runner")

    def _all_runners(self) -> tuple[str, float, float]:
        found = [process for kind, _, process, _ in self.cluster.actors() if kind == "runner"]
        send(found, signal.SIGKILL)
        self._kills = len(found)
        return f"{len(found)} at once", time.monotonic(), PATIENCE

    def _learner(self) -> tuple[str, float, float]:
        return self._kill_one("learner")

    def _aggregator(self) -> tuple[str, float, float]:
        return self._kill_one("aggregator")

    def _supply(self) -> tuple[str, float, float]:
        return self._kill_one("supply")

    def _several(self) -> tuple[str, float, float]:
        drawn = []
        for _ in range(self._rng.randint(3, 6)):
            found = self.cluster.actors()
            if found:
                kind, method, process, machine = self._rng.choice(found)
                send([process], signal.SIGKILL)
                drawn.append(f"{kind} {method or 'idle'} on {self._name(machine)}")
            time.sleep(self._rng.choice([0.0, 0.5, 2.0]))
        self._kills = len(drawn)
        return "; ".join(drawn), time.monotonic(), 2 * PATIENCE

    def _raylet(self) -> tuple[str, float, float]:
        machine = self._rng.choice(self.cluster.others)
        raylet = machine.raylet()
        assert raylet is not None
        return self._without(machine, lambda: send([raylet], signal.SIGKILL))

    def _machine(self) -> tuple[str, float, float]:
        machine = self._rng.choice(self.cluster.others)
        return self._without(machine, machine.kill)

    def _both_machines(self) -> tuple[str, float, float]:
        for machine in self.cluster.others:
            machine.kill()
        since = time.monotonic()
        time.sleep(self._stop_seconds)
        for machine in self.cluster.others:
            machine.start()
        for machine in self.cluster.others:
            self._await(machine.is_there, PATIENCE_MACHINE, "a raylet starts again")
        return f"for {self._stop_seconds:.0f} s", since + self._stop_seconds, PATIENCE_MACHINE

    def _without(self, machine: Machine, kill: Callable[[], None]) -> tuple[str, float, float]:
        """Kill a machine, and start it again when the league goes on without it."""
        had = [kind for kind, *_ in machine.actors()]
        what = f"{self._name(machine)} with {', '.join(had) or 'nothing'}"
        kill()
        return self._restarted(machine, what)

    def _restarted(self, machine: Machine, what: str) -> tuple[str, float, float]:
        """Start a machine again that has just died, when the league goes on without it."""
        since = time.monotonic()
        took = self._await_recovery(since, PATIENCE_MACHINE, what) - since
        machine.start()
        self._await(machine.is_there, PATIENCE_MACHINE, "a raylet starts again")
        return f"{took:.1f} s without {what}", since, 2 * PATIENCE_MACHINE

    def _experience(self) -> tuple[str, float, float]:
        """Kill a machine with runners while rollouts of them lie there unread."""
        runners = [
            machine
            for kind, _, _, machine in self.cluster.actors()
            if kind == "runner" and machine in self.cluster.others
        ]
        if not runners:
            return self._machine()
        machine = self._rng.choice(runners)
        learners = [process for kind, _, process, _ in self.cluster.actors() if kind == "learner"]
        send(learners, signal.SIGSTOP)
        time.sleep(1.5)
        had = [kind for kind, *_ in machine.actors()]
        machine.kill()
        send(learners, signal.SIGCONT)
        return self._restarted(machine, f"{self._name(machine)} with {', '.join(had)}, experience under way")

    def _stopped_runner(self) -> tuple[str, float, float]:
        return self._stop("runner")

    def _stopped_learner(self) -> tuple[str, float, float]:
        return self._stop("learner")

    def _stopped_aggregator(self) -> tuple[str, float, float]:
        return self._stop("aggregator")

    def _stop(self, kind: str) -> tuple[str, float, float]:
        time.sleep(BEFORE)  # their rate is not that of a while in which they were made again
        seconds, before = self._rng.uniform(*STOPPED), len(self.witness.incidents)
        process, _, what = self._one(kind)
        send([process], signal.SIGSTOP)
        began = time.monotonic()
        time.sleep(seconds)
        now = time.monotonic()
        send([process], signal.SIGCONT)
        runners = RUNNERS - (kind == "runner")
        self._kept = self._kept_by_others(began, now, runners=runners, learners=int(kind != "runner"))
        assert seconds < HUNG_SECONDS * self._slow or len(self.witness.incidents) > before, (
            f"a {kind} ({what}) hung for {seconds:.0f} s, and no incident says so"
        )
        return f"{what} for {seconds:.0f} s", now, PATIENCE

    def _partition(self) -> tuple[str, float, float]:
        """Pull the cable of a machine for a while."""
        network = self.cluster.network
        if network is None:
            return self._stopped_raylet()
        time.sleep(BEFORE)
        seconds, machine = self._rng.uniform(*STOPPED), self._rng.choice(self._not_alone())
        had = [kind for kind, *_ in machine.actors()]
        what = f"{self._name(machine)} with {', '.join(had) or 'nothing'} for {seconds:.0f} s"
        network.cut(machine.address)
        began = time.monotonic()
        time.sleep(seconds)
        now = time.monotonic()
        network.cut(machine.address, mend=True)
        lost = min(RUNNERS, had.count("runner"))  # one of them may evaluate
        self._kept = self._kept_by_others(began, now, runners=RUNNERS - lost, learners=had.count("learner"))
        self._back_again(machine)
        return what, now, PATIENCE_MACHINE

    def _not_alone(self) -> list[Machine]:
        """Return the machines beside which another one plays and learns; without any, all but the head."""
        found = []
        for machine in self.cluster.others:
            kinds = [kind for kind, *_ in machine.actors()]
            if kinds.count("runner") < RUNNERS and kinds.count("learner") < self.scene.actors["learner"]:
                found.append(machine)
        return found or self.cluster.others

    def _kept_by_others(self, began: float, until: float, *, runners: int, learners: int) -> float | None:
        """Return the part of their rate that the players kept whose shard was not hit.

        It is compared with what `runners` of RUNNERS can play; `learners` are not there. `None` if nothing is
        left of either, or the time is too short.
        """
        whole = self.scene.shards - learners > 0 or not learners
        if until - began < 2 * GRACE or not runners or not whole:
            return None
        rates = [
            (self.witness.rate(name, began - BEFORE, began), self.witness.rate(name, began + GRACE, until))
            for name in (f"main-{i}" for i in range(self.scene.players))
        ]
        if learners:
            return max(after / rate for rate, after in rates) * RUNNERS / runners  # the other one of two
        return sum(after for _, after in rates) / sum(before for before, _ in rates) * RUNNERS / runners

    def _stopped_raylet(self) -> tuple[str, float, float]:
        machine = self._rng.choice(self.cluster.others)
        raylet = machine.raylet()
        assert raylet is not None
        send([raylet], signal.SIGSTOP)
        time.sleep(self._stop_seconds)
        send([raylet], signal.SIGCONT)
        since = time.monotonic()
        self._back_again(machine)
        return f"{self._name(machine)} for {self._stop_seconds:.0f} s", since, PATIENCE_MACHINE

    def _back_again(self, machine: Machine) -> None:
        """Start the raylet of a machine again if it was given up meanwhile, and ends now."""
        time.sleep(BACK_SECONDS)
        self._start_again(machine)

    def _start_again(self, machine: Machine) -> None:
        """Start the raylet of a machine that has ended, as late as it may have heard that it was given up."""
        if machine.raylet() is None:
            machine.start()
            self._await(machine.is_there, PATIENCE_MACHINE, "a raylet starts again")

    def _driver(self) -> tuple[str, float, float]:
        self.driver.kill()
        since = time.monotonic()
        clean = self._await(lambda: not any(self.cluster.census().values()), 15.0, "the cluster is clean")
        self._last_word(self.driver)
        self.driver = self._begin(resume=True)
        return f"the cluster was clean after {clean - since:.1f} s", since, PATIENCE_MACHINE

    def _head(self) -> tuple[str, float, float]:
        head = self.cluster.head
        whole = self._rng.random() < 0.5
        if whole:
            head.kill()
        else:
            send([p for p in head.processes() if p.name() == "raylet"], signal.SIGKILL)
        since = time.monotonic()
        self._await(lambda: self.driver.process.poll() is not None, PATIENCE_MACHINE, "the driver ends")
        ended = time.monotonic() - since
        assert self.driver.process.returncode != 0
        self._last_word(self.driver)
        self.cluster.kill()
        self.cluster.start()
        since = time.monotonic()
        self.driver = self._begin(resume=True)
        return (
            f"{'all of it' if whole else 'its raylet'}; the driver ended after {ended:.1f} s",
            since,
            PATIENCE_MACHINE,
        )

    def _cut_off(self) -> tuple[str, float, float]:
        """Stop the driver, let another one go on without the cluster, then let the first one run again."""
        first = self.driver
        first.process.send_signal(signal.SIGSTOP)
        small = ("resources.address=null", "runners=1", "evaluation.runners=0", "learners.aggregators=0")
        second = self.driver = Driver(self.folder, self.run, *small, "learners.processes=1", resume=True)
        try:
            since = time.monotonic()
            self._await_progress(since, PATIENCE_MACHINE + 30.0, "another driver goes on")
            went_on = time.monotonic() - since
            first.process.send_signal(signal.SIGCONT)
            self._await(lambda: first.process.poll() is not None, PATIENCE, "the first driver ends")
            assert first.process.returncode != 0
            assert len(first.errors()) == 1, first.tail()
            assert "was cut off and writes nothing more" in first.errors()[0], first.tail()
            self._await_progress(time.monotonic(), PATIENCE, "the other driver is not disturbed")
            second.interrupt()
            assert second.process.wait(60 * self._slow) == INTERRUPTED, second.tail()
        finally:
            second.destroy()
            first.destroy()
        since = time.monotonic()
        self.driver = self._begin(resume=True)
        return f"another went on after {went_on:.1f} s", since, PATIENCE_MACHINE

    def _last_word(self, driver: Driver) -> None:
        """One sentence is on the screen, and no traceback."""
        self._await(lambda: bool(driver.errors()), 5.0, "the driver's last word")
        assert len(driver.errors()) == 1, driver.tail()

    # ------------------------------------------------------------------ waiting

    def _is_whole(self) -> bool:
        return self.cluster.census() == self.scene.actors

    def _progress(self, since: float) -> float | None:
        """Return when every player had played and learned after `since`; `None`: not yet.

        The first row of a player's updates may be about what it learned before, so two are waited for.
        """
        times = []
        for i in range(self.scene.players):
            player = f"main-{i}"
            rows = [seen.at for seen in self.witness.updates[player] if seen.at > since]
            if len(rows) < 2 or self.witness.played.get(player, 0.0) <= since:
                return None
            times.append(rows[1])
        return max(times)

    def _await_progress(self, since: float, seconds: float, what: str) -> float:
        self._await(
            lambda: self._progress(since) is not None, seconds, f"progress after {what}", watched=True
        )
        found = self._progress(since)
        assert found is not None
        return found

    def _await_recovery(self, since: float, seconds: float, what: str) -> float:
        """Wait until all processes are back and every player plays and learns since; return when."""
        whole = self._await(self._is_whole, seconds, f"all processes are back after {what}")
        left = since + seconds * self._slow - whole
        return self._await_progress(whole, left / self._slow, what)

    def _await(self, done: Callable[[], bool], seconds: float, what: str, *, watched: bool = False) -> float:
        """Wait until something is done; return when. Raise AssertionError after `seconds`, stretched."""
        began = time.monotonic()
        while not done():
            assert self.witness.error is None, self.witness.error
            if watched:
                assert self.driver.process.poll() is None, (
                    f"{what}: the driver has ended\n{self.driver.tail()}"
                )
            waited = time.monotonic() - began
            assert waited < seconds * self._slow, (
                f"{what}: not within {seconds * self._slow:.0f} s; actors {self.cluster.census()}, expected "
                f"{self.scene.actors}\n{self.driver.tail()}"
            )
            time.sleep(0.1)
        return time.monotonic()

    def _stall(self, since: float, until: float, hit: set[str]) -> float | None:
        """Return the longest time without updates of a player whose shard no incident names.

        Return `None` if there is none. Player i is in shard i, or all are in the only one.
        """
        shards = {int(number) for who in hit for number in re.findall(r"shard (\d+)", who)}
        if self.scene.shards == 1 and shards:
            return None
        longest = None
        for i in set(range(self.scene.players)) - shards:
            rows = self.witness.updates[f"main-{i}"]
            times = [since, *(seen.at for seen in rows if since < seen.at < until), until]
            longest = max(longest or 0.0, *(b - a for a, b in itertools.pairwise(times)))
        return longest


def draw(kills: int, seed: int) -> list[str]:
    """Return kinds of deaths by their weights, each at least once if there is room."""
    rng = random.Random(seed)
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    chosen = kinds[:kills] + rng.choices(kinds, weights, k=max(0, kills - len(kinds)))
    rng.shuffle(chosen)
    return chosen


def lay(scene: Scene, kinds: list[str], seed: int, stop_seconds: float, slow: float) -> list[Event]:
    """Run one siege in a new folder, which is kept if something fails. Raise AssertionError."""
    folder = Path(tempfile.mkdtemp(prefix="siege-"))
    siege = Siege(scene, seed, folder, stop_seconds, slow)
    print(f"{scene.text}, seed {seed}: {len(kinds)} deaths", flush=True)
    try:
        counted = siege.go(kinds)
    except BaseException as error:
        print(
            f"FAILED: {scene.text}, seed {seed}, after {len(siege.events)} deaths; kept: {folder}\n{error!r}",
            flush=True,
        )
        if siege.events:
            print(table(siege.events), flush=True)
        raise
    print("checked: " + ", ".join(f"{n:,} {what}" for what, n in counted.items()), flush=True)
    shutil.rmtree(folder)
    return siege.events


def table(events: list[Event]) -> str:
    """Return a line for each kind of death."""
    by_kind = defaultdict(list)
    for event in events:
        by_kind[event.kind].append(event)
    header = ("death", "n", "kills", "median s", "max s", "max gap", "max stall", "least kept", "max MB")
    rows = [
        (
            kind,
            len(own),
            sum(event.kills for event in own),
            f"{statistics.median(event.seconds for event in own):.1f}",
            f"{max(event.seconds for event in own):.1f}",
            f"{max(event.gap for event in own):.1f}",
            f"{max(event.stall or 0.0 for event in own):.1f}",
            "".join(f"{least:.0%}" for least in sorted(e.kept for e in own if e.kept is not None)[:1]),
            f"{max(event.grown for event in own):.0f}",
        )
        for kind, own in [*sorted(by_kind.items()), ("all", events)]
    ]
    return "\n".join(f"{row[0]:18}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in [header, *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--stop-seconds", type=float, default=30.0, help="how long a stopped raylet is, or both machines"
    )
    parser.add_argument("--slow", type=float, default=1.0, help="times the patience, on a busy machine")
    parser.add_argument("--scene", type=int, choices=range(len(SCENES)), help="this league alone")
    parser.add_argument("--kinds", help="these deaths in this order, with commas between, and no others")
    args = parser.parse_args()
    if not can_be_blind(Path("/tmp")):
        sys.exit("mount namespaces need root")
    scenes = SCENES if args.scene is None else (SCENES[args.scene],)
    events: list[Event] = []
    failed = []
    for i, scene in enumerate(scenes):
        kills = args.kills // len(scenes) + (i < args.kills % len(scenes))
        seed = args.seed + i
        kinds = args.kinds.split(",") if args.kinds else draw(kills, seed)
        try:
            events += lay(scene, kinds, seed, args.stop_seconds, args.slow)
        except AssertionError as error:
            failed.append(f"{scene.text}, seed {seed}: {error}")
    print("\n" + table(events) if events else "")
    failed += [
        f"{event.kind} ({event.what}): others kept {event.kept:.0%} of their rate, less than {KEPT:.0%}"
        for event in events
        if event.kept is not None and event.kept < KEPT / args.slow
    ]
    for line in failed:
        print(f"FAILED: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
