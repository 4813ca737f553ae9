"""`league train` on a card that fails or has no memory left: one sentence, exit code 1, and all is kept."""

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
PLAYS = ["resources.gpus=0", "rollout.device=cuda", "policy.hidden=[512, 512]", "league.freeze_every=500"]


def trained(run, *settings, **environment):
    """Exit code and error output of a training, without the warnings of libraries."""
    sets = [word for each in (*SMALL, *settings) for word in ("--set", each)]
    command = [sys.executable, "-m", "league", "train", "configs/tic_tac_toe.yaml", "--run", str(run), *sets]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=900, env={**os.environ, **environment}
    )
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("league: ")], done


def test_a_kernel_that_reads_out_of_bounds_ends_the_run_in_one_sentence(tmp_path):
    code, said, done = trained(tmp_path / "run", "learner.loss={use: 'tests.bench.gpu_loads:OUTSIDE'}")
    assert code == 1
    assert len(said) == 1, done.stderr
    assert "Traceback" not in done.stderr


@needs_double
def test_a_card_that_fails_for_good_ends_the_run_which_can_be_resumed(tmp_path):
    breaks = tmp_path / "breaks"
    breaks.touch()
    code, said, done = trained(tmp_path / "run", DOUBLE_BREAKS=f"{breaks}:3000")
    assert (code, len(said)) == (1, 1), done.stderr
    assert "failed: CUDA error: an illegal memory access was encountered. What was rec" in said[0]
    assert said[0].startswith("league: player main-0: GPU 0 of ")
    assert "Traceback" not in done.stderr
    settings = newest_settings(tmp_path / "run", ["stop.env_steps=41000"])
    train(settings, tmp_path / "run", resume=True)


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


@needs_double
@pytest.mark.parametrize(
    ("settings", "whose", "remedy"),
    [
        (["policy.hidden=[512, 512]"], "player main-0", "set learner.micro_steps"),
        (PLAYS, "play", "lower rollout.policy_map_capacity"),
    ],
)
def test_a_card_without_memory_is_one_sentence_with_bytes_and_settings(settings, whose, remedy, tmp_path):
    code, said, done = trained(tmp_path / "run", *settings, DOUBLE_BYTES=str(2**22))
    assert (code, len(said)) == (1, 1), done.stderr
    assert f"{whose}: GPU 0 of " in said[0]
    assert " were asked for, " in said[0]
    assert remedy in said[0]
    assert "Traceback" not in done.stderr
