"""What a command loads before it answers: time that is paid at each call."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.analysis.planted_runs import Plan, plant

CONFIGS = Path(__file__).parents[3] / "configs"
NEVER = {"torch", "ray", "matplotlib"}
HEAVY = NEVER | {"scipy", "pandas", "duckdb", "pyarrow", "gymnasium", "numpy", "pydantic"}
HEAVY |= {"psutil", "analysis.solution"}
CODE = """
import contextlib, io, json, sys
from league.commands.app import app
heavy, found = set(json.loads(sys.argv[1])), []
for words in json.loads(sys.argv[2]):
    with contextlib.redirect_stdout(io.StringIO()):
        app(words, standalone_mode=False)
    found.append(sorted(heavy & set(sys.modules)))
found.append([name for name in ("scipy.interpolate", "scipy.stats", "scipy.optimize") if name in sys.modules])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_command_loads_no_library_that_its_answer_does_not_need(tmp_path):
    run = plant(tmp_path / "run", np.random.default_rng(0), Plan(snapshots=2, batches=1, matches=20))
    commands = {
        "help": ["--help"],
        "show": ["config", "show", str(CONFIGS / "kuhn_poker.yaml")],
        "mirror": ["config", "show", str(CONFIGS / "connect_four.yaml")],
        "explain": ["config", "explain", "learner.lr"],
        "runs": ["runs", str(tmp_path)],
        "snapshots": ["snapshots", str(run), "list"],
        "ratings": ["ratings", str(run)],
        "sql": ["sql", str(run), "SELECT count(*) FROM matches"],
    }
    words = [json.dumps(sorted(HEAVY)), json.dumps(list(commands.values()))]
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *found, parts_of_scipy = json.loads(done.stdout)
    loaded = {name: set(modules) for name, modules in zip(commands, found, strict=True)}
    assert loaded["help"] == set()
    for name in ("show", "mirror", "explain"):
        assert loaded[name] <= {"numpy", "gymnasium", "pydantic"}, name
    for name in ("runs", "snapshots", "ratings"):
        assert not loaded[name] & (NEVER | {"pandas"}), name
    assert not loaded["sql"] & NEVER
    assert parts_of_scipy == []
