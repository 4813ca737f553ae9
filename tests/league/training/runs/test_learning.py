"""The league gets strong: the examples of `configs/`, cut short, measured against exact truths."""

from pathlib import Path

import numpy as np
import pytest

import analysis
import league
from analysis.solution.nash import max_entropy_nash
from league.arena.comparison import compare
from league.envs import registry
from league.exploit.exact import exact
from storage.archive import open_reader

CONFIGS = Path(__file__).parents[4] / "configs"


def trained(name, folder, env_steps, runners):
    """The run of a shipped config, cut short; with `runners` of 0 it is the same run each time."""
    overrides = [f"stop={{env_steps: {env_steps}}}", f"runners={runners}"]
    return league.train(CONFIGS / f"{name}.yaml", folder / "run", overrides=overrides)


SELF_PLAY_IN_SECONDS = """\
env: {id: tic_tac_toe}
seed: 1
runners: 0
league:
  preset: self_play
  players: {main: 1}
  freeze_every: 37_500
policy: {hidden: [64, 64]}
rollout: {slots: 256, matches_per_request: 256}
learner: {batch_steps: 512, lr: 3.0e-3, entropy: 0.02, epochs: 1}
stop: {env_steps: 150_000}
"""


@pytest.mark.slow
def test_a_few_seconds_of_self_play_beat_random_play(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(SELF_PLAY_IN_SECONDS)
    run = league.train(config, tmp_path / "run")
    before, after = (
        compare(run, snapshot, "random", pairs=200).pair_scores.mean() for snapshot in ("main-0@0", "main-0")
    )
    assert before < 0.6
    assert after > 0.68  # seeds 0, 1 and 2: 0.76 to 0.78


@pytest.mark.long
def test_kuhn_poker_comes_close_to_equilibrium(tmp_path):
    run = trained("kuhn_poker", tmp_path, 750_000, runners=0)
    snapshots = [s.snapshot_id for s in open_reader(run).snapshots() if s.player == "main-0"]
    assert exact(run, snapshots[0]).nash_conv > 0.8
    assert exact(run, snapshots[-1]).nash_conv < 0.2  # 0.135, and 0.19 after half a million


@pytest.mark.long
def test_the_mixture_of_psro_comes_close_to_equilibrium_in_kuhn_poker(tmp_path):
    run = trained("psro", tmp_path, 450_000, runners=0)
    sixth = open_reader(run).snapshots()[5].snapshot_id
    assert exact(run, f"{sixth}:nash").nash_conv < 0.35  # seeds 0, 1 and 2: 0.24, 0.26 and 0.21


@pytest.mark.long
@pytest.mark.alone
def test_connect_four_soon_beats_random_play(tmp_path):
    run = trained("connect_four", tmp_path, 1_500_000, runners=2)
    for other in ("random", "main-0@0"):  # 0.85 and 0.80 of seed 0, without Ray
        assert compare(run, "main-0", other, pairs=250).pair_scores.mean() > 0.7


@pytest.mark.long
def test_rock_paper_scissors_fills_a_pool_that_nobody_can_exploit(tmp_path):
    run = trained("rock_paper_scissors", tmp_path, 1_000_000, runners=0)
    game = registry.make("rock_paper_scissors", 1)
    game.reset(np.arange(1), np.arange(1))
    (block,) = game.due()
    loaded = [league.load_policy(run, snapshot.snapshot_id) for snapshot in open_reader(run).snapshots()]
    policies = np.array([p.evaluate(block.observation, block.mask)[0].mean(axis=0) for p in loaded])
    beats = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # rock, paper, scissors
    payoff = policies @ beats @ policies.T
    assert len(policies) >= 10
    others = payoff + np.where(np.eye(len(payoff), dtype=bool), np.inf, 0.0)
    assert (0.5 + 0.5 * others.min(axis=1) <= 0.6).all()  # no player wins over 60 % against every other
    mixture = max_entropy_nash(payoff) @ policies
    assert (beats @ mixture).max() < 0.1

    with analysis.open_run(run) as history:  # and what was played agrees with what was computed
        played = history.payoff().set_index(["home", "away"])
    ids = [snapshot.snapshot_id for snapshot in open_reader(run).snapshots()]
    assert set(played.index.get_level_values("away")) >= set(ids[:3])
    assert played["win_rate"].between(0.0, 1.0).all()


def returns(run):
    """Scores of the training matches of a game for one, in the order in which they were recorded."""
    with analysis.open_run(run) as history:
        return history.sql("SELECT score FROM seats ORDER BY seq")["score"].to_numpy()


@pytest.mark.long
def test_cartpole_is_balanced_within_200_000_steps_and_stays_so(tmp_path):
    run = league.train(CONFIGS / "cartpole.yaml", tmp_path / "run", overrides=["stop.env_steps=200_000"])
    mean_of_20 = np.convolve(returns(run), np.full(20, 1 / 20), mode="valid")
    assert mean_of_20.max() >= 4.5  # hundreds of steps
    assert mean_of_20[-1] >= 4.5


@pytest.mark.long
def test_recall_is_solved_by_memory(tmp_path):
    overrides = ["policy.memory=gru", "stop.env_steps=250_000"]
    run = league.train(CONFIGS / "recall.yaml", tmp_path / "run", overrides=overrides)
    last = returns(run)[-1000:]  # 1 for the right answer, -1 for another
    assert (last > 0).mean() > 0.95
