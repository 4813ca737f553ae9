"""Sizes of play follow what a trial of the game cost."""

import pytest
import yaml

from league.config.loading import load
from league.envs import registry
from league.envs.trial.matches import Cost, cost_of
from league.rollout.settings import USUAL_SIZE
from league.training.loop import train
from league.training.sizes import (
    REQUEST_SECONDS,
    Sizes,
    sizes_for,
    with_policies,
    with_recorded_sizes,
    with_sizes,
)

GIB, FRAME, BOARD = 2**30, 84 * 84 * 4, 100


def cost(milliseconds, match_steps, decisions=1.0):
    return Cost(milliseconds / 1e3, decisions, match_steps)


def test_a_game_of_microseconds_keeps_the_usual_sizes():
    assert sizes_for(cost(0.002, 40), BOARD, GIB, USUAL_SIZE) is None


def test_a_slow_game_with_short_matches_is_played_whole_fewer_at_a_time():
    assert sizes_for(cost(0.4, 60), BOARD, GIB, USUAL_SIZE) == Sizes(40, None)


@pytest.mark.parametrize("length", [50, 1_000, 20_000, None])
@pytest.mark.parametrize("milliseconds", [0.01, 1.0, 40.0, 3_000.0])
@pytest.mark.parametrize("size", [BOARD, FRAME, 100 * FRAME])
def test_a_request_takes_a_second_and_no_more_than_its_bytes(length, milliseconds, size):
    found = sizes_for(cost(milliseconds, length), size, GIB, USUAL_SIZE)
    steps = length if found is None or found.fragment_steps is None else found.fragment_steps
    slots = USUAL_SIZE if found is None else found.slots
    assert slots * steps * milliseconds / 1e3 <= REQUEST_SECONDS or (slots, steps) == (1, 1)
    assert slots * steps * size <= GIB


def test_long_matches_and_matches_without_an_end_are_played_in_fragments():
    assert sizes_for(cost(1.0, 1_000), FRAME, GIB, USUAL_SIZE) == Sizes(8, 125)
    assert sizes_for(cost(0.01, None), BOARD, GIB, USUAL_SIZE) == Sizes(64, 128)


def test_matches_at_a_time_that_are_given_are_kept():
    assert sizes_for(cost(1.0, 2_000), FRAME, GIB, USUAL_SIZE, given=8) == Sizes(8, 125)
    assert sizes_for(cost(0.4, 60), BOARD, GIB, USUAL_SIZE, given=512) is None


def test_the_cost_of_a_game_is_that_of_its_steps_and_matches():
    found = cost_of(lambda slots: registry.make("rock_paper_scissors", slots, rounds=5))
    assert found.decisions == 2.0
    assert 5.0 <= found.match_steps < 10.0  # matches under way when it ended count, too
    assert 0.0 < found.step_seconds < 0.1


@pytest.mark.slow
def test_sizes_of_a_heavy_game_are_those_of_its_run_also_after_a_resume(tiny, tmp_path):
    rollout = {"slots": "auto", "matches_per_request": "auto"}
    settings = load(tiny("tic_tac_toe", rollout=rollout, stop={"env_steps": 2_000}))
    sized, line = with_sizes(settings, cost(2.0, 1_000))
    assert (sized.rollout.slots, sized.rollout.matches_per_request) == (8, 8)
    assert "8 matches at a time are played in fragments of 62 steps" in line
    run = train(sized, tmp_path / "run")
    assert yaml.safe_load((run / "config.yaml").read_text())["rollout"]["slots"] == 8
    again, line = with_recorded_sizes(settings, run)
    assert (again.rollout, line) == (sized.rollout, "")


def test_the_cost_of_a_step_has_that_of_the_policies_that_decide_in_it(tiny):
    settings = load(tiny("tic_tac_toe"))
    assert with_policies(None, settings) is None
    steps = [with_policies(cost(2.0, 50, decisions), settings).step_seconds for decisions in (0.0, 1.0)]
    assert steps[0] == 2e-3 < steps[1]


def test_sizes_that_are_given_are_not_changed(tiny):
    rollout = {"slots": 8, "matches_per_request": 16, "fragment_steps": None}
    settings = load(tiny(rollout=rollout))
    assert with_sizes(settings, cost(50.0, 1_000)) == (settings, "")


@pytest.mark.parametrize(
    ("env_steps", "runners", "matches", "batch"),
    [(40_000, 0, 56, 256), (400_000, 0, 512, 2048), (4_000_000, 0, "auto", 4096), (40_000, 2, "auto", 256)],
)
def test_a_run_of_few_env_steps_is_32_requests_and_128_batches(env_steps, runners, matches, batch):
    """40,000 steps of Connect Four were two requests and ten updates, and learned nothing."""
    settings = load({"env": {"id": "connect_four"}, "runners": runners, "stop": {"env_steps": env_steps}})
    assert settings.learner.batch_steps == batch
    sized, line = with_sizes(settings, None)
    assert (sized.rollout.slots, sized.rollout.matches_per_request) == (matches, matches)
    assert ("so that 40,000 env steps are 32 requests" in line) == (matches == 56)
    assert with_sizes(settings, None) == (sized, line)


def test_all_seats_that_act_at_once_count_in_a_run_of_few_env_steps():
    env = {"id": "rock_paper_scissors", "options": {"rounds": 5}}  # 10 env steps a match
    sized, line = with_sizes(load({"env": env, "runners": 0, "stop": {"env_steps": 32 * 640}}), None)
    assert (sized.rollout.slots, line.endswith("the trial played matches of 10 each")) == (64, True)


def test_a_heavy_game_has_no_more_matches_at_a_time_in_a_run_of_few_env_steps():
    short = {"env": {"id": "connect_four"}, "runners": 0, "stop": {"env_steps": 40_000}}
    assert with_sizes(load(short), cost(0.1, 20))[0].rollout.slots == 56  # of 496 that take a second
    assert with_sizes(load(short), cost(2.0, 20))[0].rollout.slots == 24  # these take a second


def test_matches_or_a_batch_that_are_given_are_kept_in_a_short_run():
    short = {"env": {"id": "connect_four"}, "runners": 0, "stop": {"env_steps": 40_000}}
    given = load(short, ["rollout.slots=512", "learner.batch_steps=700"])
    assert with_sizes(given, None) == (given, "")
    assert given.learner.batch_steps == 700
    by_name = ["runners=0", "stop.env_steps=40_000"]
    assert load("connect_four", by_name).learner.batch_steps == 256
    for override in ("learner.batch_steps=700", "learner={batch_steps: 700}"):
        assert load("connect_four", [*by_name, override]).learner.batch_steps == 700


def test_matches_of_a_game_that_was_not_tried_are_not_counted(tiny):
    """One may be broken, or take hours."""
    rollout = {"slots": "auto", "matches_per_request": "auto"}
    untried = load(tiny("tests.league.envs.trial.broken_batched:NeverEnds", rollout=rollout))
    assert with_sizes(untried, None) == (untried, "")
