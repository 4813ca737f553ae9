"""Stages of the page about one GPU (`tests.bench.gpu`), the most useful first. Each notes rows of tables."""

from __future__ import annotations

import contextlib
import cProfile
import importlib.metadata
import importlib.util
import itertools
import json
import multiprocessing
import os
import platform
import pstats
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tests.gpu.cards import ON_DOUBLE

ROOT = Path(__file__).parents[2]
NEEDED = (  # all that is imported beside the standard library
    *("torch", "numpy", "scipy", "pyarrow", "duckdb", "blake3", "safetensors", "psutil", "pyyaml", "pytest"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    *("gymnasium", "farama-notifications", "cloudpickle"),
    *("typer", "annotated-doc", "shellingham", "rich", "pygments"),
)
USEFUL = ("pytest-timeout", "pytest-xdist")  # tests end in time, and several at a time
PAPER = {  # estimates for an H100, counted from launches, bytes and products
    ("play", "boards", 1): "2..3 M",
    ("play", "boards", 32): "2..3 M",
    ("play", "boards", 256): "1.8..2.4 M",
    ("play", "go", 1): "65 k",
    ("play", "go", 256): "30..40 k",
    ("play", "frames", 1): "65 k",
    ("learn", "boards", "float32"): "800..1,300",
    ("learn", "go", "tf32"): "5",
    ("learn", "go", "bfloat16"): "10",
    ("learn", "frames", "float32"): "14",
}
PYTEST = ["-m", "pytest", "-v", "--tb=short", "-rfEs", "-p", "no:cacheprovider", "-o", "addopts="]
PYTEST += ["--strict-markers", "--import-mode=importlib", "--color=no", "-W", "default"]  # warnings in log
ENDS = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED)\b")


class Notes:
    """Rows of tables, written as they are found."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, table: str, **row: Any) -> None:
        """Add a row to a table."""
        with self._path.open("a") as file:
            file.write(json.dumps({"table": table, **row}) + "\n")
        print(f"{table}: {row}", flush=True)


@dataclass(frozen=True)
class Stage:
    """A stage, and its share of the time."""

    title: str
    share: float
    work: Callable[[Notes, str, float, bool], None]  # of notes, device, seconds, quick


def sees_card() -> bool:
    """Return whether torch sees a GPU, asked in a process of its own."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code]).returncode == 0


def run(name: str, notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Do the work of a stage in this process."""
    STAGES[name].work(notes, device, seconds, quick)


# ------------------------------------------------------------------ the machine


def machine(notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Note the card, the libraries, and what is missing."""
    on_card = device != "cpu"
    properties = torch.cuda.get_device_properties(0) if on_card else None
    rows = {
        "card": torch.cuda.get_device_name(0) if on_card else "the CPU: these figures are of no card",
        "cards": torch.cuda.device_count(),
        "memory": f"{properties.total_memory / 2**30:.1f} GiB" if properties else "",
        "multiprocessors": properties.multi_processor_count if properties else "",
        "driver": _output(
            "nvidia-smi", "--query-gpu=driver_version,pstate,power.limit", "--format=csv,noheader"
        ),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()) if torch.backends.cudnn.is_available() else "",
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "TF32 of convolutions": torch.backends.cudnn.allow_tf32,
        "TF32 of products": torch.backends.cuda.matmul.allow_tf32,
    }
    for what, found in rows.items():
        notes("machine", what=what, found=found)
    versions = {name: _version(name) for name in (*NEEDED, *USEFUL)}
    notes("libraries", found=", ".join(f"{name} {version}" for name, version in versions.items() if version))
    missing = [name for name, version in versions.items() if not version]
    notes("libraries", found=f"missing: {', '.join(missing) or 'nothing'}")


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({type(error).__name__})"
    return done.stdout.strip() or done.stderr.strip()


class Meter:
    """Utilisation and memory of the card while a block runs, as nvidia-smi samples them."""

    def __init__(self, device: str) -> None:
        self._command = [
            "nvidia-smi",
            "--query-gpu=utilization.gpu,memory.used",
            "--format=csv,noheader,nounits",
        ]
        self._wanted = device != "cpu"
        self.figures: dict[str, Any] = {"utilisation": "unknown", "card's MiB": "unknown"}

    def __enter__(self) -> Meter:
        self._process = None
        if self._wanted:
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [*self._command, "-lms", "200"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._process.terminate()
        text, _ = self._process.communicate()
        rows = [line.split(",") for line in text.splitlines()]
        pairs = [(float(a), float(b)) for a, b in (row for row in rows if len(row) == 2) if _is_number(a, b)]
        if pairs:
            busy = sum(share for share, _ in pairs) / len(pairs)
            self.figures = {"utilisation": f"{busy:.0f} %", "card's MiB": max(used for _, used in pairs)}


def _is_number(*texts: str) -> bool:
    return all(text.strip().replace(".", "", 1).isdigit() for text in texts)


# ------------------------------------------------------------------ speed


def speed(notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Note how fast the three loads learn and play, and what each update and request asks of the card."""
    from tests.bench import gpu_loads

    torch.set_num_threads(1)
    found = gpu_loads.loads(quick=quick)
    each = 0.0 if quick else seconds / 60  # about 40 measurements, each with its preparation
    began = time.monotonic()
    for number, load in enumerate(found, 1):
        ends = began + 0.4 * seconds * number / len(found)  # a slow load costs no other
        ways: list[tuple[str, int | None]] = [(mode, None) for mode in modes(device)]
        if load.name == "go":  # whose batch takes most memory
            ways.append((ways[1][0], load.batch_steps // 4))
        for mode, micro_steps in ways:
            if time.monotonic() < ends:
                with _tried(notes, "learn", load=load.name, precision=mode):
                    _learn(notes, load, device, mode, micro_steps, each)
    for number, load in enumerate(found, 1):
        ends = began + seconds * (0.4 + 0.4 * number / len(found))
        for snapshots in (1, 2) if quick else (1, 32, 256):
            if time.monotonic() < ends:
                with _tried(notes, "play", load=load.name, snapshots=snapshots):
                    _play(notes, load, device, snapshots, each, quick)
    for number, load in enumerate(found, 1):
        ends = began + seconds * (0.8 + 0.15 * number / len(found))
        with _tried(notes, "passes", load=load.name):
            _passes(notes, load, device, each, ends)


@contextlib.contextmanager
def _tried(notes: Notes, table: str, **row: Any) -> Iterator[None]:
    """Note an error in place of a row, and go on with the next one."""
    try:
        yield
    except Exception as error:
        import traceback

        traceback.print_exc()
        notes(table, **row, error=f"{type(error).__name__}: {error}"[:300])
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _rate(work: Callable[[], int], seconds: float, device: str) -> tuple[float, dict[str, Any]]:
    """Return how much of `work` is done in a second, and memory and utilisation meanwhile."""
    from tests.bench.shared import per_second

    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    with Meter(device) as meter:
        rate = per_second(work, seconds)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device != "cpu" else 0.0
    return rate, {"GiB": round(peak, 3), **meter.figures}


def _play(notes: Notes, load: Any, device: str, snapshots: int, seconds: float, quick: bool) -> None:
    from tests.bench import gpu_loads

    request = gpu_loads.play(load, device, snapshots)
    began = time.perf_counter()
    steps = request()  # the weights reach the device
    first = time.perf_counter() - began
    rate, figures = _rate(request, seconds, device)
    asked = asks(request, device)
    row = {"load": load.name, "snapshots": snapshots, "env steps/s": rate}
    row["paper"] = PAPER.get(("play", load.name, snapshots), "")
    notes("play", **row, **figures, **{"first request s": round(first, 2), "steps a request": steps})
    notes("asked by one request of play", load=load.name, snapshots=snapshots, **asked)
    if snapshots == (2 if quick else 32):
        for place, share in _hot(request):
            notes("where the host's time goes in play", load=load.name, place=place, share=share)


def modes(device: str) -> tuple[str, ...]:
    """Return the precisions in which learners compute on the device."""
    return ("float32", "bfloat16") if device == "cpu" else ("float32", "tf32", "bfloat16")


def _learn(notes: Notes, load: Any, device: str, mode: str, micro_steps: int | None, seconds: float) -> None:
    from tests.bench import gpu_loads

    whole, ready = gpu_loads.learning(load, device, mode, micro_steps)
    whole()
    rate, figures = _rate(whole, seconds, device)
    ready()
    at_once, _ = _rate(ready, seconds, device)
    row = {"load": load.name, "precision": mode, "at a time": micro_steps or load.batch_steps}
    row["updates/s"] = rate
    row["paper"] = PAPER.get(("learn", load.name, mode), "")
    row["steps/s"] = rate * load.batch_steps
    notes("learn", **row, **{"updates/s, batch on the card": at_once}, **figures)
    if micro_steps is None and mode in ("float32", "bfloat16"):
        asked = asks(whole, device)
        made = 2  # updates of one call
        per = {
            key: round(value / made, 2) if isinstance(value, int) else value for key, value in asked.items()
        }
        notes("asked by one update", load=load.name, precision=mode, **per)
    if mode == "float32":
        for place, share in _hot(whole):
            notes("where the host's time goes in learning", load=load.name, place=place, share=share)


def _passes(notes: Notes, load: Any, device: str, seconds: float, ends: float) -> None:
    """Note how long a forward and a backward pass of the bare network take, in several precisions."""
    from league.cluster.cards import computing
    from league.models.networks.networks import build_network
    from league.models.policies.policy import initial_weights
    from tests.bench.shared import per_second
    from tests.gpu.kinds import experience

    block = experience(load.spec, 0, load.batch_steps, load.length)
    seen = torch.from_numpy(block.observation).to(device)
    for name, mode, low, layout in (
        ("float32", "float32", False, torch.contiguous_format),
        ("tf32", "tf32", False, torch.contiguous_format),
        ("tf32, channels last", "tf32", False, torch.channels_last),
        ("bfloat16", "tf32", True, torch.contiguous_format),
        ("bfloat16, channels last", "tf32", True, torch.channels_last),
    ):
        if time.monotonic() > ends:
            return
        network = build_network(load.spec)
        network.load_state_dict(initial_weights(load.spec, 0))
        network.to(device).to(memory_format=layout)
        memory = torch.zeros(len(seen), network.memory_size, device=device)

        def once(network=network, memory=memory, low=low, grad=True) -> int:
            with torch.autocast(device, torch.bfloat16, enabled=low), torch.set_grad_enabled(grad):
                parameters, value = network(seen, memory)
                if grad:
                    (parameters.float().square().mean() + value.float().square().mean()).backward()
            if device != "cpu":
                torch.cuda.synchronize()
            return 1

        row = {"load": load.name, "precision": name, "rows": len(seen)}
        with computing(mode), _tried(notes, "passes", **row):
            once()
            both = 1000.0 / per_second(once, seconds / 4)
            forward = 1000.0 / per_second(lambda once=once: once(grad=False), seconds / 4)
            notes("passes", **row, **{"forward ms": forward, "forward and backward ms": both})
        del network


def asks(work: Callable[[], int], device: str) -> dict[str, Any]:
    """Return what a call asks of the card: launches, waits, copies, and the share of time it computes."""
    if device == "cpu":
        work()
        return {}
    if ON_DOUBLE:
        from tests.gpu.double import counts

        with counts.counted() as found:
            work()
        kinds = {f"copies, {kind}": count for (_, kind), count in found.copies.items()}
        return {"launches": found.launches.total(), "waits": found.waits.total(), **kinds}
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken = time.perf_counter() - began
    launches = waits = 0
    busy, copies = 0.0, {}
    for event in profiled.key_averages():
        name = event.key
        if "LaunchKernel" in name:
            launches += event.count
        elif "Synchronize" in name:
            waits += event.count
        elif name.startswith("Memcpy"):
            copies[f"copies, {name}"] = event.count
        if event.device_type == torch.autograd.DeviceType.CUDA:
            busy += getattr(event, "self_device_time_total", 0.0)
    return {"launches": launches, "waits": waits, **copies, "card busy": f"{busy / 1e4 / taken:.0f} %"}


def _hot(work: Callable[[], int], most: int = 12) -> list[tuple[str, str]]:
    """Return the functions in which the host spends most time, each with its share."""
    profiler = cProfile.Profile()
    profiler.enable()
    work()
    profiler.disable()
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    hottest = sorted(stats.items(), key=lambda item: -item[1][2])[:most]
    return [
        (f"{Path(file).name}:{line} {name}", f"{100 * own / total:.0f} %, {calls} calls")
        for (file, line, name), (_, calls, own, _, _) in hottest
    ]


# ------------------------------------------------------------------ tests and numerics


def tests(notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Note how the tests of GPUs end, apart from those of every kind of learner, which have a stage."""
    command = [sys.executable, *PYTEST, "tests/gpu", "--ignore=tests/gpu/test_every_kind.py"]
    command += ["--ignore=tests/gpu/test_bench.py"]
    if importlib.util.find_spec("pytest_timeout") is not None:
        command += [f"--timeout={max(30.0, seconds / 2):.0f}"]
    if importlib.util.find_spec("xdist") is not None and (os.cpu_count() or 1) >= 8:
        command += ["-n", "6", "--dist", "worksteal"]
    if quick:
        command += ["-k", "decide or alone_in_its"]
    counted = dict.fromkeys(("PASSED", "FAILED", "ERROR", "SKIPPED"), 0)
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    summary = False
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            summary = summary or "short test summary" in line
            if summary and line.startswith(("FAILED", "ERROR", "SKIPPED")):
                notes("tests that did not pass", test=line.strip()[:400])
            elif not summary and "::" in line and (ended := ENDS.search(line)):
                counted[ended[1]] += 1
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        notes("tests", **{name.lower(): count for name, count in counted.items()}, code=process.poll())


def state_differences(number: int, device: str) -> tuple[int, float, float, str]:
    """Return the number of a kind, its differences from the CPU as it is and in TF32, and its error."""
    from tests.gpu.kinds import KINDS, difference, learned

    torch.set_num_threads(1)
    kind = KINDS[number]
    try:
        here = learned(kind, "cpu")
        usual = difference(here, learned(kind, device))
        rounded = usual
        if device != "cpu" and "precision" not in kind.settings:
            tf32 = replace(kind, settings={**kind.settings, "precision": "tf32"})
            rounded = difference(here, learned(tf32, device))
    except Exception as error:
        return number, float("nan"), float("nan"), f"{type(error).__name__}: {error}"[:300]
    return number, usual, rounded, ""


def numerics(notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Note how far every kind of learner on the card is from the same one on the CPU."""
    from tests.gpu.kinds import KINDS, NETWORKS

    on_card = "cpu" if device == "cpu" else "cuda"
    by_network = [
        [number for number, kind in enumerate(KINDS) if kind.name.split()[0] == network]
        for network in NETWORKS
    ]
    # a kind of each network in turn: whatever the time, all networks are among them
    order = [n for group in itertools.zip_longest(*by_network) for n in group if n is not None]
    order = order[:12] if quick else order
    workers = 2 if quick else max(2, min(8, (os.cpu_count() or 2) // 2))
    done: list[tuple[int, float, float, str]] = []
    ends = time.monotonic() + 0.9 * seconds
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    waiting = [pool.submit(state_differences, number, on_card) for number in order]
    with contextlib.suppress(OutOfTime):
        for future in as_completed(waiting, max(1.0, ends - time.monotonic())):
            done.append(future.result())  # noqa: PERF401  # those that were done before time was out
    for network in NETWORKS:
        rows = [row for row in done if KINDS[row[0]].name.split()[0] == network and not row[3]]
        exact = [row for row in rows if KINDS[row[0]].tolerance < 1e-2]
        loose = [row for row in rows if KINDS[row[0]].tolerance >= 1e-2]
        note: dict[str, Any] = {"network": network, "kinds": len(rows)}
        note["agree"] = sum(row[1] < KINDS[row[0]].tolerance for row in rows)
        for name, part in (("float32", exact), ("adam or bfloat16", loose)):
            for column, label in ((1, "worst"), (2, "worst with TF32")):
                worst = max(part, key=lambda row, c=column: row[c], default=None)  # type: ignore[misc]
                shown = f"{worst[column]:.1e} ({KINDS[worst[0]].name})" if worst else ""
                note[f"{label}, {name}"] = shown
        notes("learners beside the CPU", **note)
    for number, usual, rounded, error in done:
        if error or usual >= KINDS[number].tolerance:
            notes("kinds that differ", kind=KINDS[number].name, usual=usual, tf32=rounded, error=error)
    notes("kinds tried", kinds=len(done), of=len(KINDS))
    pool.shutdown(wait=False, cancel_futures=True)
    for process in list(getattr(pool, "_processes", None) or {}):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


# ------------------------------------------------------------------ whole runs


def _league(
    arguments: list[str], seconds: float, environment: Mapping[str, str] | None = None
) -> tuple[int | str, str, float]:
    """Run the command `league`; return its exit code, what it printed, and its seconds."""
    began = time.monotonic()
    command = [sys.executable, "-m", "league", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
        )
        code: int | str = done.returncode
        text = done.stdout
    except subprocess.TimeoutExpired as error:
        text = (
            error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else (error.stdout or "")
        )
        code = f"none after {seconds:.0f} s"
    print(f"$ {' '.join(command)}\n{text}\nexit code {code}", flush=True)
    return code, text, time.monotonic() - began


PACE = """
SELECT sum(env_steps) / (max(epoch(started_at) + seconds) - min(epoch(started_at))) AS pace FROM matches
"""
ON_CARD = ["rollout.device=cuda", "rollout.slots=8192", "rollout.matches_per_request=8192"]


def _gpus(device: str) -> list[str]:
    return [] if device == "cpu" else ["--set", "resources.gpus=1"]


def training(notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Note how fast a league trains in one process, and whether two equal runs come to the same bits."""
    with tempfile.TemporaryDirectory() as folder:
        part = seconds / 5
        minutes = 0.05 if quick else max(0.1, (part - 12) / 60)
        for play in ("cpu",) if device == "cpu" else ("cpu", "cuda"):
            run = f"{folder}/{play}"
            sets = ["--set", "runners=0", *_gpus(device), "--set", f"stop.minutes={minutes:.3f}"]
            sets += ["--set", "evaluation.yardsticks=[]"]
            if play == "cuda":  # requests that are large enough for a card
                sets += [word for each in ON_CARD for word in ("--set", each)]
            with Meter(device) as meter:
                code, text, _ = _league(["train", "configs/connect_four.yaml", "--run", run, *sets], 2 * part)
            rate = next(iter(_asked(run, PACE)), {}).get("pace", "unknown")
            row = {"play": play, "code": code, "minutes": minutes, "env steps/s": rate}
            notes("league train", **row, **meter.figures)
            for line in text.strip().splitlines()[:6] + text.strip().splitlines()[-3:]:
                notes("what league train printed", play=play, line=line[:200])
        _equal_runs(notes, device, folder, 2 * part, quick)


def _equal_runs(notes: Notes, device: str, folder: str, seconds: float, quick: bool) -> None:
    """Note whether two runs of the same config, an mlp's and a cnn's, have the same snapshots to the bit."""
    networks = {
        "mlp": [],
        "cnn": [
            "policy.mirror=null",
            "policy.torso={kind: cnn, channels: [16, 32]}",
            "policy.connectors=[{kind: reshape, shape: [2, 7, 6]}]",
        ],
    }
    steps = 4_000 if quick else 60_000
    common = ["runners=0", "stop.minutes=null", f"stop.env_steps={steps}", f"rollout.device={device}"]
    common += ["evaluation.yardsticks=[]", f"league.freeze_every={steps // 4}"]

    def snapshots(network: str, turn: int) -> tuple[int | str, list[dict[str, Any]]]:
        run = f"{folder}/{network}{turn}"
        sets = [word for each in (*common, *networks[network]) for word in ("--set", each)]
        arguments = ["train", "configs/connect_four.yaml", "--run", run, *_gpus(device), *sets]
        code, _, _ = _league(arguments, seconds)
        query = "SELECT snapshot_id, blob_hash FROM snapshots ORDER BY snapshot_id"
        return code, _asked(run, query)

    cases = [(network, turn) for network in networks for turn in (1, 2)]
    with ThreadPoolExecutor(len(cases)) as pool:  # their bits do not depend on time
        found = dict(zip(cases, pool.map(lambda case: snapshots(*case), cases), strict=True))
    for network in networks:
        (one, first), (other, second) = found[network, 1], found[network, 2]
        rows = len(first)
        same = first == second and rows > 0 if one == other == 0 else "unknown"
        notes(
            "two equal runs, to the bit", network=network, codes=f"{one}, {other}", same=same, snapshots=rows
        )


def _asked(run: str, question: str) -> list[dict[str, Any]]:
    """Return the rows that answer a question about a run; none if it did not begin."""
    from storage import query
    from storage.errors import StorageError

    with contextlib.suppress(StorageError):
        return query(run, question).to_pylist()
    return []


def failures(notes: Notes, device: str, seconds: float, quick: bool) -> None:
    """Note what follows when a card has no memory left, and when a kernel reads out of bounds."""
    if device == "cpu":
        notes("failures", what="nothing: the CPU has none of them")
        return
    common = ["runners=0", "resources.gpus=1", "stop.minutes=0.5", "evaluation.yardsticks=[]"]
    wide, narrow = ["policy.mirror=null", "policy.hidden=[4096, 4096]"], ["learner.batch_steps=128"]
    cases = {
        "no memory left to learn": [] if ON_DOUBLE else ["learner.batch_steps=262144", *ON_CARD],
        "no memory left for snapshots": ["rollout.device=cuda", *(narrow if ON_DOUBLE else wide)],
        "an index out of range": ["learner.loss={use: 'tests.bench.gpu_loads:OUTSIDE'}"],
    }
    rooms = {"no memory left to learn": 2**22, "no memory left for snapshots": 2**22}  # of a double
    for what, settings in cases.items():
        environment, hog = {}, None
        if what in rooms and ON_DOUBLE:
            environment["DOUBLE_BYTES"] = str(rooms[what])
        elif what in rooms:  # all but a gigabyte, of which the context takes half
            free, _ = torch.cuda.mem_get_info()
            hog = torch.empty(free - 2**30, dtype=torch.uint8, device="cuda")
        with tempfile.TemporaryDirectory() as folder:
            sets = [word for each in (*common, *settings) for word in ("--set", each)]
            arguments = ["train", "configs/connect_four.yaml", "--run", f"{folder}/run", *sets]
            code, text, taken = _league(arguments, seconds / len(cases) - 1.0, environment)
        del hog
        torch.cuda.empty_cache()
        lines = text.strip().splitlines()
        row = {"what": what, "code": code, "seconds": round(taken, 1), "lines": len(lines)}
        said = [line for line in lines if line.startswith("league: ")]
        notes("failures", **row, sentences=len(said), traceback="Traceback" in text)
        notes("what was printed at the end", what=what, line=(said or lines or [""])[-1][:400])


STAGES = {
    "machine": Stage("The machine", 0.04, machine),
    "tests": Stage("Tests", 0.2, tests),
    "speed": Stage("Speed", 0.38, speed),
    "numerics": Stage("Numerics", 0.1, numerics),
    "training": Stage("A league in one process", 0.16, training),
    "failures": Stage("Failures of the card", 0.15, failures),
}
