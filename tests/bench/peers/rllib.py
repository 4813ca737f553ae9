"""RLlib on the same game, beside this project: Connect Four, 2x256, one main against 32 frozen policies.

    python -m tests.bench.peers.rllib [--seconds 75] [--folder DIR]

RLlib goes into a virtual environment of its own, in a temporary folder, or in DIR, where it stays for
the next time: it needs another gymnasium. Its game steps by itself and its networks are its own; an
env step is one decision in both. `--envs`: matches at once in each of RLlib's runners.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.bench.throughput import measure_league

# what RLlib 2.60 asks for; torch as the project has it
REQUIREMENTS = ("ray[rllib]==2.60.0", "torch==2.13.0")
CHILD = Path(__file__).with_name("rllib_league.py")


def make_environment(folder: Path) -> Path:
    """The python of a virtual environment in `folder` that has RLlib; made unless it is there."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
    return python


def measure_rllib(
    python: Path, algorithm: str, seconds: float, runners: int, snapshots: int, envs: int
) -> float:
    """Env steps per second of RLlib's training."""
    command = [str(python), "-W", "ignore", str(CHILD), "--algorithm", algorithm, "--seconds", str(seconds)]
    command += ["--runners", str(runners), "--snapshots", str(snapshots), "--envs", str(envs)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=python.parent)
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not found:
        sys.exit(f"RLlib's {algorithm} failed:\n{done.stderr[-4000:]}")
    return float(json.loads(found[0].removeprefix("RESULT ")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=75.0, help="of each league")
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--snapshots", type=int, default=32)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="of the virtual environment; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        python = make_environment(arguments.folder or Path(temporary) / "rllib")
        of_rllib = {
            algorithm: measure_rllib(
                python,
                algorithm,
                arguments.seconds,
                arguments.runners,
                arguments.snapshots,
                arguments.envs,
            )
            for algorithm in ("appo", "impala")
        }
    ours = measure_league(arguments.seconds, arguments.runners, arguments.snapshots).env_steps
    for algorithm, rate in of_rllib.items():
        print(f"RLlib, {algorithm:<8} {rate:>10,.0f} env steps/s   ours is {ours / rate:,.0f} times as fast")
    print(f"ours            {ours:>10,.0f} env steps/s")


if __name__ == "__main__":
    main()
