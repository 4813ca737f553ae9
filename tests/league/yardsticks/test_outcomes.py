"""Positions in the game: what an actor sees there, and what no position of the game is."""

import numpy as np
import pytest

from league.envs import registry
from league.models.actor import Look
from league.models.bots.kinds.exported import Greedy
from league.models.bots.scripted import make_bot
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.yardsticks.outcomes import has_likeliest, probabilities, reach
from league.yardsticks.positions import parse, stored
from storage.errors import Mistake

LINES = (
    "0 4 8 2 : . -1 . -1 . -1 1 -1 .",  # only 6 prevents a loss
    ": 0 0 0 0 0 0 0 0 0",
    "4 : 0 -1 0 -1 . -1 0 -1 0",
)


def reached(*lines, env="tic_tac_toe"):
    return reach(parse(lines, "mine", "mine.txt"), env, {})


def policy(env="tic_tac_toe", **settings):
    spec = PolicySpec.for_game(PolicySettings(hidden=(8,), **settings), registry.make(env, 1))
    return Policy(spec, initial_weights(spec, 3))


def shown(moves, env="tic_tac_toe"):
    game = registry.make(env, 1)
    game.reset(np.array([0]), np.array([5]))
    for move in moves:
        game.due()
        game.step([np.array([move])])
    (block,) = game.due()
    return block


def test_positions_of_any_length_are_seen_as_in_a_match():
    found = reached(*LINES)
    for row, moves in enumerate(found.positions.actions):
        block = shown(moves)
        assert found.seat[row] == block.seat[0]
        np.testing.assert_array_equal(found.observation[row], block.observation[0])
        np.testing.assert_array_equal(found.mask[row], block.mask[0])


def test_a_policy_gives_its_own_probabilities_and_a_bot_those_of_its_preferences():
    found, actor = reached(*LINES), policy()
    rng = np.random.default_rng(0)
    expected = actor.evaluate(found.observation, found.mask)[0]
    np.testing.assert_allclose(probabilities(actor, found, rng), expected)
    perfect = probabilities(make_bot("perfect", "tic_tac_toe"), found, rng)
    np.testing.assert_allclose(perfect.sum(axis=1), 1.0)
    assert perfect[0, 6] == 1.0
    np.testing.assert_array_equal(perfect[2] > 0.0, found.positions.best[2])
    assert (has_likeliest(actor), has_likeliest(make_bot("perfect", "tic_tac_toe"))) == (True, False)


def test_of_an_actor_without_probabilities_actions_are_drawn():
    found, actor = reached(*LINES), policy()
    drawn = probabilities(Greedy(actor), found, np.random.default_rng(0))
    likeliest = actor.evaluate(found.observation, found.mask)[0].argmax(axis=1)
    np.testing.assert_allclose(drawn, np.eye(9)[likeliest])


@pytest.mark.slow
def test_an_actor_with_memory_has_met_what_came_before():
    positions = stored("connect_four")
    found = reach(positions, "connect_four", {})
    actor = policy("connect_four", memory="gru")
    given = probabilities(actor, found, np.random.default_rng(0))
    for row in (0, 400, 999):
        moves = positions.actions[row]
        memory = np.zeros((1, actor.memory_size), dtype=np.float32)
        for ply in range(len(moves) % 2, len(moves), 2):
            block = shown(moves[:ply], "connect_four")
            actor.decide(Look(block.observation, block.mask, memory), np.random.default_rng(1))
        block = shown(moves, "connect_four")
        np.testing.assert_allclose(
            given[row], actor.evaluate(block.observation, block.mask, memory)[0][0], rtol=1e-5
        )
    memoryless = actor.evaluate(found.observation, found.mask)[0]
    assert not np.allclose(given, memoryless)


@pytest.mark.parametrize(
    ("lines", "env", "message"),
    [
        (["0 0 : . 1 1 1 1 1 1 1 1"], "tic_tac_toe", "found action 0 where legal ones are"),
        (["0 11 : . 1 1 1 1 1 1 1 1"], "tic_tac_toe", "position 1 (0 11): found action 11"),
        (["0 3 1 4 2 : . . . . . 1 1 1 1"], "tic_tac_toe", "the match is over by then"),
        (["0 : 1 1 1 1 1 1 1 1 ."], "tic_tac_toe", "expected 9 scores, with numbers for the legal actions"),
        (["0 : . 1 1"], "tic_tac_toe", "found 3 scores"),
        ([": 1 0"], "kuhn_poker", "expected a game without chance"),
        ([": 1 0 -1"], "rock_paper_scissors", "expected a game of turns"),
    ],
)  # fmt: skip
def test_what_is_no_position_of_the_game_is_one_message(lines, env, message):
    with pytest.raises(Mistake) as error:
        reached(*lines, env=env)
    assert message in str(error.value)
