"""`league train` on a card that fails: one sentence, exit code 1, and all is kept.

A kernel that reads out of bounds and a card without memory: `failures` of the page about one GPU
(test_bench.py).
"""

import os
import subprocess
import sys

import pytest

from league.training.loop import train
from league.training.resume import newest_settings
from storage import query
from tests.bench.gpu_stages import ROOT
from tests.gpu.cards import needs_cards, needs_double

pytestmark = [pytest.mark.alone, needs_cards()]

SMALL = ["runners=0", "resources.gpus=1", "league.players={main: 1}", "stop={env_steps: 40000}"]
SMALL += ["rollout.matches_per_request=64", "learner.batch_steps=128", "evaluation.yardsticks=[]"]


def trained(run, *settings, **environment):
    """Exit code and error output of a training, without the warnings of libraries."""
    sets = [word for each in (*SMALL, *settings) for word in ("--set", each)]
    return league_of("train", "configs/tic_tac_toe.yaml", "--run", str(run), *sets, **environment)


def league_of(*words, **environment):
    """Exit code and error output of a command, without the warnings of libraries."""
    command = [sys.executable, "-m", "league", *map(str, words)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=900, env={**os.environ, **environment}
    )
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("league: ")], done


@needs_double
def test_a_card_that_fails_for_good_ends_the_run_which_can_be_resumed(tmp_path):
    breaks = tmp_path / "breaks"
    breaks.touch()
    code, said, done = trained(tmp_path / "run", DOUBLE_BREAKS=f"{breaks}:3000")
    assert (code, len(said)) == (1, 1), done.stderr
    assert "failed: CUDA error: an illegal memory access was encountered. What was rec" in said[0]
    assert said[0].startswith("league: player main-0: GPU 0 of ")
    assert "Traceback" not in done.stderr
    settings = newest_settings(tmp_path / "run", ["stop.env_steps=12000"])
    train(settings, tmp_path / "run", resume=True)


@needs_double
def test_a_clone_whose_card_fails_ends_in_one_sentence_and_cannot_be_resumed(tmp_path):
    assert trained(tmp_path / "run", "resources.gpus=0", "stop={env_steps: 1000}")[0] == 0
    breaks = tmp_path / "breaks"
    breaks.touch()
    words = (tmp_path / "run", tmp_path / "clone", "--set", "resources.gpus=1")
    code, said, done = league_of("clone", *words, DOUBLE_BREAKS=f"{breaks}:300")
    assert (code, len(said)) == (1, 1), done.stderr
    assert said[0].startswith("league: player main-0: GPU 0 of ")
    assert said[0].endswith("memory access was encountered")


@needs_double
@needs_cards(2)
def test_on_ray_a_card_that_fails_costs_its_process_alone(tmp_path):
    """One of two learners and a runner, each on a card: whichever computes the 3,000th operator first."""
    pytest.importorskip("ray")
    breaks = tmp_path / "breaks"
    breaks.touch()
    settings = ["runners=1", "resources.gpus=2", "league.players={main: 2}", "learners.copy_seconds=1"]
    code, said, done = trained(tmp_path / "run", *settings, DOUBLE_BREAKS=f"{breaks}:3000")
    assert (code, said) == (0, []), done.stderr
    assert not breaks.exists()
    found = query(tmp_path / "run", "SELECT kind, cause FROM incidents").to_pylist()
    assert [incident["kind"] for incident in found] == ["learner"]
    assert "failed: CUDA error: an illegal memory access was encountered" in found[0]["cause"]
