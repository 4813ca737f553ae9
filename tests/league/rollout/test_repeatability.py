"""What comes of a request depends on the request alone, whatever its runner has played before."""

import numpy as np
import pytest

from league.envs.slots import SlotGame
from league.models.spec import PolicySettings
from league.rollout.env_runner import EnvRunner
from league.rollout.openings import Openings
from league.rollout.requests import PlaySetup
from league.rollout.settings import RolloutSettings
from tests.league.rollout.conftest import GRU, STACKED, unlearned

ARRAYS = ("outcome", "score", "rank", "env_steps", "reason", "digest")


def between_snapshots(request, *, plies=0, temperature=1.0):
    """The request without its learner, whose place another snapshot takes."""
    seat = np.where(request.matches.seat == 0, len(request.sources) - 1, request.matches.seat)
    openings = Openings(plies) if plies else None
    modes = [temperature] * len(request.sources)
    return unlearned(request, seat, modes, openings=openings, fingerprint=True)


def expect_same(results, others):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(results, name), getattr(others, name), err_msg=name)
    for name in ("row", "offset", "action"):
        np.testing.assert_array_equal(
            getattr(results.recordings, name), getattr(others.recordings, name), err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options", "settings"),
    [
        ("connect_four", {}, PolicySettings(hidden=(16,))),
        ("connect_four", {}, STACKED),
        ("leduc_poker", {}, GRU),
        ("rock_paper_scissors", {"rounds": 7}, STACKED),
        ("signals", {"actions": "continuous", "parts": True}, GRU),
        ("signals", {"actions": "multi_discrete"}, PolicySettings(hidden=(16,))),
    ],
)
def test_a_request_gives_the_same_on_a_used_runner_as_on_a_fresh_one(
    make_request, signals, env, options, settings
):
    env = signals if env == "signals" else env
    playing = RolloutSettings(slots=32, record=1.0, policy_map_capacity=2)
    asked, weights = make_request(env, 70, snapshots=[settings] * 4, options=options, seed=3)
    asked = between_snapshots(asked, plies=2)
    fresh, _, _ = EnvRunner(PlaySetup(env, options, playing)).play(asked, weights)
    used = EnvRunner(PlaySetup(env, options, playing))
    for seed, number in enumerate((90, 5, 33)):
        other, live = make_request(env, number, snapshots=[settings] * 3, options=options, seed=40 + seed)
        other = between_snapshots(other, plies=seed, temperature=0.5) if seed else other
        used.play(other, live)
        again, _, _ = used.play(asked, weights)
        expect_same(fresh, again)


def test_bots_keep_nothing_from_one_request_to_the_next(make_request):
    playing = RolloutSettings(slots=32, record=1.0)
    asked, weights = make_request("connect_four", 60, bots=("random", "one_ply"))
    asked = between_snapshots(asked)
    fresh, _, _ = EnvRunner(PlaySetup("connect_four", {}, playing)).play(asked, weights)
    used = EnvRunner(PlaySetup("connect_four", {}, playing))
    for seed in (1, 2):
        other, live = make_request("connect_four", 30, bots=("one_ply", "random"), seed=seed)
        used.play(between_snapshots(other), live)
        expect_same(fresh, used.play(asked, weights)[0])


def test_matches_that_are_objects_keep_nothing_either(make_request):
    env, options = "pettingzoo:classic/connect_four_v3", {}
    playing = RolloutSettings(slots=4, record=1.0)
    asked, weights = make_request(env, 12, options=options)
    asked = between_snapshots(asked, plies=3)
    fresh_runner = EnvRunner(PlaySetup(env, options, playing))
    assert isinstance(fresh_runner.game, SlotGame)
    fresh, _, _ = fresh_runner.play(asked, weights)
    used = EnvRunner(PlaySetup(env, options, playing))
    other, live = make_request(env, 7, options=options, seed=8)
    used.play(between_snapshots(other), live)
    expect_same(fresh, used.play(asked, weights)[0])
