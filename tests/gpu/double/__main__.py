"""Run a command of Python with cards: those of this machine, or else doubles of cards.

    python -m tests.gpu.double [--cards 2] -m pytest tests/gpu
    python -m tests.gpu.double -m league train configs/tic_tac_toe.yaml --set resources.gpus=2

Where torch sees no card, each process that imports torch sees doubles: tensors that report "cuda:i", compute
on the CPU and fail where those of a card would (tensors.py). They need g++ and a CPU build of torch.
Elsewhere the command runs without cards, and tests that need some are skipped by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.gpu.double import building

SEEN = "import sys, torch; sys.exit(not torch.cuda.is_available())"


def main(arguments: list[str]) -> None:
    """Replace this process by the command."""
    cards, command = "2", arguments
    if arguments[:1] == ["--cards"]:
        cards, command = arguments[1], arguments[2:]
    environment = dict(os.environ)
    if subprocess.run([sys.executable, "-c", SEEN]).returncode:
        if obstacle := building.obstacle():
            print(f"no GPU here, and {obstacle}", flush=True)
        else:
            building.built()  # once, before many processes want it
            start = str(Path(__file__).with_name("start"))
            paths = [start, *filter(None, [environment.get("PYTHONPATH")])]
            environment |= {"DOUBLE_CARDS": cards, "PYTHONPATH": os.pathsep.join(paths)}
    os.execve(sys.executable, [sys.executable, *command], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
