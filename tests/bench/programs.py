"""What a program costs: games of connect_four per second against the bot one_ply, beside a function.

python -m tests.bench.programs
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from league.arena.agreement import agree
from league.arena.arena import Arena
from league.models.bots.settings import OwnBotSettings, ProgramSettings
from league.rollout.requests import BotSource
from tests.league.models.bots.kinds.test_program import PROGRAM

FUNCTION = "def choose(observation, mask, rng):\n    return mask.argmax(1)\n"
PAIRS = {
    "a function, in its process": 2000,
    "one process": 150,
    "64 processes": 150,
    "one process, many matches": 150,
}


def main() -> None:
    """Print the games per second of one kind after the other."""
    folder = Path(tempfile.mkdtemp())
    (folder / "bench_bot.py").write_text(FUNCTION)
    sys.path.insert(0, str(folder))
    commands = {}
    for name, hello in (("one", {}), ("many", {"many": True})):
        path = folder / f"{name}.py"
        path.write_text(
            PROGRAM.replace("HELLO", repr(hello))
            .replace("ACT", "pass")
            .replace('print("heard"', '0 and print("heard"')
        )
        commands[name] = f"{sys.executable} {path}"
    bots = {
        "a function, in its process": OwnBotSettings(use="bench_bot:choose"),
        "one process": ProgramSettings(kind="program", command=commands["one"], processes=1),
        "64 processes": ProgramSettings(kind="program", command=commands["one"], processes=64),
        "one process, many matches": ProgramSettings(kind="program", command=commands["many"]),
    }
    print(f"{'':28} games/s   load {os.getloadavg()[0]:.1f}")
    for name, pairs in PAIRS.items():
        arena = Arena(agree([], {"id": "connect_four", "options": {}}), bots=bots)
        seated = arena.seated([BotSource("one_ply"), BotSource(name)])
        table = arena.table("bench", 0)
        arena.play(seated, table.pairs(seated.names, np.tile([0, 1], (64, 1)), 10**6), 0)  # starts
        began = time.perf_counter()
        arena.play(seated, table.pairs(seated.names, np.tile([0, 1], (pairs, 1)), 0), 0)
        print(f"{name:28} {2 * pairs / (time.perf_counter() - began):8,.0f}")


if __name__ == "__main__":
    main()
