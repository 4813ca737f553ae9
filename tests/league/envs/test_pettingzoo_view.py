"""Native games through PettingZoo's eyes: its own tests, and the way there and back."""

import warnings

import numpy as np
import pytest

from league.envs import registry
from league.envs.adapters.pettingzoo.game import game_from
from league.envs.pettingzoo_view import aec_env, parallel_env
from league.envs.registry import BadOption

with warnings.catch_warnings():
    # PettingZoo's tests import an env of its own in the way that it deprecates
    warnings.filterwarnings("ignore", "The old environment creation API")
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

SIMULTANEOUS = ("blotto", "rock_paper_scissors", "rush", "tron")

# `api_test` knows by name which envs may show a dict, and would like to see no empty board
pytestmark = [
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array"),
    pytest.mark.filterwarnings("ignore:Observation space for each agent probably should be"),
    pytest.mark.filterwarnings("ignore:Observation numpy array is all zeros"),
]


@pytest.mark.parametrize("env_id", registry.ids())
def test_every_native_game_passes_pettingzoos_own_tests(env_id):
    api_test(aec_env(env_id), num_cycles=60)
    parallel_api_test(parallel_env(env_id), num_cycles=60)
    seed_test(lambda: aec_env(env_id), num_cycles=60)
    parallel_seed_test(lambda: parallel_env(env_id), num_cycles=60)


def step_both(one, other, rng):
    """Answer all that is due at random, the same in both games; what happened must be the same."""
    blocks, others = one.due(), other.due()
    actions = []
    for block, same in zip(blocks, others, strict=True):
        assert block.slot.tolist() == same.slot.tolist()
        assert block.seat.tolist() == same.seat.tolist()
        np.testing.assert_array_equal(block.observation, same.observation)
        np.testing.assert_array_equal(block.mask, same.mask)
        actions.append((rng.random(block.mask.shape) * block.mask).argmax(axis=1))
    transition, mirrored = one.step(actions), other.step(actions)
    np.testing.assert_array_equal(transition.rewards, mirrored.rewards)
    assert transition.ended.tolist() == mirrored.ended.tolist()
    assert transition.truncated.tolist() == mirrored.truncated.tolist()


@pytest.mark.parametrize(
    ("env_id", "export"),
    [(env_id, parallel_env) for env_id in registry.ids()]
    + [(env_id, aec_env) for env_id in registry.ids() if env_id not in SIMULTANEOUS],
)
def test_a_game_that_goes_to_pettingzoo_and_comes_back_is_the_same(env_id, export):
    native = registry.make(env_id, 4)
    returned = game_from(lambda: export(env_id), "returned")(4, loss_reward=native.loss_reward)
    rng = np.random.default_rng(0)
    for seed in range(3):
        slots = np.arange(4)
        native.reset(slots, 100 * seed + slots)
        returned.reset(slots, 100 * seed + slots)
        while native.active.any():
            step_both(native, returned, rng)
        assert not returned.active.any()


def test_who_acts_at_once_is_asked_in_turn_and_sees_nothing_of_the_others_choice():
    env = aec_env("rock_paper_scissors", rounds=2)
    env.reset(seed=1)
    before = env.observe("player_1")
    assert env.agent_selection == "player_0"
    env.step(0)
    assert env.agent_selection == "player_1"
    assert env.rewards == {"player_0": 0.0, "player_1": 0.0}
    np.testing.assert_array_equal(env.observe("player_1")["observation"], before["observation"])
    env.step(1)
    assert env.rewards == {"player_0": -0.5, "player_1": 0.5}
    assert env.observe("player_0")["observation"][:6].tolist() == [0, 1, 0, 1, 0, 0]


def test_an_illegal_action_ends_the_match_at_the_offenders_cost():
    env = aec_env("tic_tac_toe")
    env.reset(seed=0)
    env.step(4)
    env.step(4)
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert all(env.terminations.values())
    for _ in range(2):
        env.step(None)
    assert env.agents == []


def test_a_step_limit_truncates():
    env = parallel_env("tic_tac_toe", step_limit=2)
    observations, _ = env.reset(seed=0)
    for cell in (0, 1):
        assert observations[f"player_{cell}"]["action_mask"].any()
        assert not observations[f"player_{1 - cell}"]["action_mask"].any()
        observations, _, terminations, truncations, _ = env.step({"player_0": cell, "player_1": cell})
    assert not any(terminations.values())
    assert all(truncations.values())
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_a_seed_settles_the_matches_after_it_too():
    def deals(seed):
        env = aec_env("leduc_poker")
        env.reset(seed=seed)
        shown = []
        for _ in range(20):
            env.reset()
            shown.append(env.observe("player_0")["observation"].tolist())
        return shown

    assert deals(3) == deals(3)
    assert deals(3) != deals(4)


def test_a_missing_action_of_one_who_must_act_is_named():
    env = parallel_env("rock_paper_scissors")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="'rock_paper_scissors': no action of player_1, expected one"):
        env.step({"player_0": 0})


def test_text_is_shown_where_the_game_has_it():
    env = aec_env("tic_tac_toe", render_mode="ansi")
    env.reset(seed=0)
    env.step(4)
    assert env.render() == env._match.game.render(0)
    assert env.render().strip()
    with pytest.raises(ValueError, match="'tic_tac_toe': render_mode is 'human', expected one of"):
        aec_env("tic_tac_toe", render_mode="human")


def test_what_pettingzoo_cannot_mask_and_wrong_options_are_refused():
    with pytest.raises(BadOption, match="no option 'colour'"):
        aec_env("tic_tac_toe", colour="red")
    with pytest.raises(ValueError, match="'gymnasium:Pendulum-v1': actions are Box"):
        parallel_env("gymnasium:Pendulum-v1")
