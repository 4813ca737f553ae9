"""Policies seen through OpenSpiel's interface."""

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms.exploitability import nash_conv
from open_spiel.python.policy import UniformRandomPolicy

from league.envs import registry
from league.envs.openspiel_policy import as_openspiel_policy
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec


class Uniform:
    memory_size = 0
    wants_reward = False

    def __init__(self):
        self.calls = []

    def evaluate(self, observation, mask):
        self.calls.append(len(mask))
        return (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32), np.zeros(len(mask), np.float32)


def network(env_id, **settings):
    spec = PolicySpec.for_game(PolicySettings(hidden=(16,), **settings), registry.make(env_id, 1))
    weights = {name: tensor * 3 for name, tensor in initial_weights(spec, seed=1).items()}  # far from uniform
    return Policy(spec, weights)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "kuhn_poker",
        "leduc_poker",
        "turn_based_simultaneous_game(game=goofspiel(num_cards=3,imp_info=True))",
    ],
)
def test_a_uniform_actor_has_the_nash_conv_of_openspiels_uniform_policy(name):
    policy = as_openspiel_policy(name, Uniform())
    expected = nash_conv(policy.game, UniformRandomPolicy(policy.game))
    assert nash_conv(policy.game, policy) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("observation", ["auto", "information_state"])
def test_a_network_plays_every_state_as_it_does_in_our_own_matches(observation):
    env_id = "openspiel:leduc_poker"
    actor = network(env_id)
    policy = as_openspiel_policy(env_id, actor, observation)
    game = registry.make(env_id, 64, observation=observation)
    rng = np.random.default_rng(0)
    game.reset(np.arange(64), np.arange(64))
    seen = set()
    while game.active.any():
        (block,) = game.due()
        expected, _ = actor.evaluate(block.observation, block.mask)
        for row, slot in enumerate(block.slot):
            found = policy.action_probabilities(game.native(slot))
            assert list(found) == np.flatnonzero(block.mask[row]).tolist()
            assert list(found.values()) == pytest.approx(expected[row][block.mask[row]].tolist(), abs=1e-6)
            seen.add(game.native(slot).information_state_string(block.seat[row]))
        game.step([(rng.random(block.mask.shape) * block.mask).argmax(axis=1)])
    assert len(seen) > 50


@pytest.mark.slow
def test_all_states_are_asked_about_in_one_call_and_boards_that_look_alike_once():
    poker, board = Uniform(), Uniform()
    nash_conv(pyspiel.load_game("leduc_poker"), as_openspiel_policy("leduc_poker", poker))
    assert poker.calls == [936]
    as_openspiel_policy("mnk(m=3,n=2,k=2)", board)
    assert board.calls == [len(positions(pyspiel.load_game("mnk(m=3,n=2,k=2)").new_initial_state()))]


def positions(state):
    """Every board on which a seat must move, as text."""
    if state.is_terminal():
        return set()
    return {str(state)}.union(*(positions(state.child(action)) for action in state.legal_actions()))


def test_a_tree_too_large_to_walk_is_asked_about_state_by_state():
    actor = Uniform()
    policy = as_openspiel_policy("connect_four", actor, whole_tree=False)
    assert actor.calls == []
    state = policy.game.new_initial_state()
    for _ in range(2):
        assert policy.action_probabilities(state) == pytest.approx(dict.fromkeys(range(7), 1 / 7))
    assert actor.calls == [1]


def test_games_and_policies_without_a_table_of_answers_are_refused():
    with pytest.raises(ValueError, match=r"seats act at once, expected a turn-based game"):
        as_openspiel_policy("goofspiel(num_cards=3)", Uniform())
    for settings in ({"memory": {"kind": "gru", "size": 8}}, {"connectors": [{"kind": "previous"}]}):
        with pytest.raises(ValueError, match=r"uses memory or rewards"):
            as_openspiel_policy("openspiel:kuhn_poker", network("openspiel:kuhn_poker", **settings))
    with pytest.raises(LookupError, match=r"did you mean leduc_poker"):
        as_openspiel_policy("leduc_pokr", Uniform())
