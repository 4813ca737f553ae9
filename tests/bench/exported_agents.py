"""Do exported agents play as they do here, where there is only onnxruntime and numpy?

    python -m tests.bench.exported_agents [--games 1000] [--decisions 10000] [--python PATH] [--seed 0]

Five kinds of agents are trained for a moment (mlp, cnn, gru, continuous actions, a mixture of snapshots),
written by `league export`, and given to `peers/onnxruntime_alone.py`, which runs isolated (`python -I`) in an
environment that has onnxruntime and numpy (made for this, from the package index; or that of --python). It
compares every output on recorded decisions, then plays games by rules of its own: against random moves, or
alone where the game is for one. Beside it `league evaluate` plays as many. Exit code 1 if logits (means of
continuous actions) differ by more than 1e-5, or if a return differs by more than 3.3 standard errors, which
one in a thousand does by chance.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np

import league
from league.arena.evaluation import evaluate
from league.competitors.decisions import record
from league.competitors.exporting import export_to
from league.competitors.mixtures import Mixture
from league.competitors.modes import SAMPLE
from league.competitors.names import Names, load_snapshot, mixture_actor, mixture_source, source_of
from league.envs import registry
from storage.archive import open_reader

PLAYER = Path(__file__).parent / "peers" / "onnxruntime_alone.py"
TOLERANCE, MOST_ERRORS = 1e-5, 3.3
BOARD = {"kind": "reshape", "shape": [2, 7, 6]}
QUICK = {"loss": "ppo", "batch_steps": 1024, "epochs": 4, "shuffle": True, "lr": 2e-3, "entropy": 0.01}
# env, who, steps, and what else the config has
KINDS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "mlp": ("tic_tac_toe", "main-0", 200_000, {"learner": QUICK}),
    "cnn": (
        "connect_four",
        "main-0",
        100_000,
        {
            "policy": {"architecture": "cnn", "channels": [16, 16], "connectors": [BOARD]},
            "learner": QUICK,
        },
    ),
    "gru": (
        "recall",
        "main-0",
        150_000,
        {
            "policy": {"hidden": [32], "memory": "gru", "memory_size": 32},
            "league": {"preset": "none"},
            "learner": QUICK | {"batch_steps": 640, "lr": 3e-3},
        },
    ),
    "continuous": (
        "gymnasium:Pendulum-v1",
        "main-0",
        60_000,
        {
            "policy": {"hidden": [32], "connectors": [{"kind": "normalise"}]},
            "league": {"preset": "none"},
            "learner": QUICK
            | {"batch_steps": 1600, "sequence_length": 200, "discount": 0.95, "entropy": 0.0},
        },
    ),
    "mixture": (
        "kuhn_poker",
        "main-0:average",
        60_000,
        {"league": {"freeze_every": 6_000}, "learner": QUICK},
    ),
}


def make_environment(folder: Path) -> Path:
    """The python of a new environment with onnxruntime, numpy and nothing else."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "onnxruntime", "numpy"], check=True)
    return python


def make_agent(kind: str, folder: Path, decisions: int) -> Path:
    """Train an agent in `folder`; write its file, and decisions of it recorded here. Return its run."""
    env, who, steps, more = KINDS[kind]
    config = {"env": {"id": env}, "seed": 5, "runners": 0, "stop": {"env_steps": steps}} | more
    config["rollout"] = {"slots": 64, "matches_per_request": 64}
    run = league.train(config, folder / "run")
    reader = open_reader(run)
    export_to(reader, who, "onnx", folder / "agent.onnx", decisions=decisions, seed=2)
    found = Names(reader, env).find(who).who
    if isinstance(found, Mixture):
        actor = mixture_actor(mixture_source(reader, found, None))
    else:
        actor = load_snapshot(source_of(reader, found, SAMPLE, None))
    game = registry.make(env, 64)
    recorded = record(actor, game, list(range(game.num_seats)), decisions, np.random.default_rng(7))
    columns = {f"given.{name}": values for name, values in recorded.given.items()}
    columns |= {f"found.{name}": values for name, values in recorded.found.items()}
    np.savez(folder / "decisions.npz", **columns)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--games", type=int, default=1_000)
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--python", type=Path, help="of an environment with onnxruntime and numpy alone")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        python = given.python or make_environment(Path(temporary) / "empty")
        header = "kind        game                   decisions  logits      value       games  return alone"
        print(f"{header}          return here             apart", flush=True)
        for kind, (env, who, _, _) in KINDS.items():
            folder = Path(temporary) / kind
            folder.mkdir()
            run = make_agent(kind, folder, given.decisions)
            done = subprocess.run(
                [python, "-I", PLAYER, folder, str(given.games), str(given.seed)],
                cwd=folder,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                sys.exit(done.stderr)
            alone = json.loads(done.stdout)
            assert alone["found"] == [], f"the environment is not empty: {alone['found']}"
            here = evaluate(run, who, episodes=given.games, seed=given.seed + 1).returned
            assert here.low is not None
            assert here.high is not None
            error = (alone["error"] ** 2 + ((here.high - here.low) / 3.92) ** 2) ** 0.5
            apart = (alone["mean"] - here.mean) / error
            outputs = [
                alone["worst"][name] for name in ("logits", "mean", "log_std") if name in alone["worst"]
            ]
            half = 1.96 * alone["error"]
            print(
                f"{kind:11} {env:22} {alone['decisions']:9,}  {max(outputs):.1e}     "
                f"{alone['worst']['value']:.1e} {alone['games']:9,}  "
                f"{alone['mean']:8.3f} +- {half:6.3f}  {here.mean:8.3f} [{here.low:.3f}, {here.high:.3f}]  "
                f"{apart:+.1f} errors",
                flush=True,
            )
            if max(outputs) > TOLERANCE or abs(apart) > MOST_ERRORS:
                failed.append(kind)
        print(f"alone: onnxruntime {alone['onnxruntime']}, numpy {alone['numpy']}; +- and [] are 95 %")
    if failed:
        sys.exit(f"play otherwise: {', '.join(failed)}")


if __name__ == "__main__":
    main()
