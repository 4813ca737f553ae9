"""Bots play as they say: legally, uniformly over what they prefer, and with exact log-probabilities."""

import sys
import types

import numpy as np
import pytest
import scipy.stats

from league.envs import registry
from league.envs.spaces import ActionSpec
from league.models.actor import Look
from league.models.bots.scripted import RandomBot, UnknownBot, bots_for, make_bot
from league.models.bots.settings import OwnBotSettings


class Strict(RandomBot):
    """A user's bot that plays one game only."""

    def __init__(self, env_id):
        if env_id != "kuhn_poker":
            raise UnknownBot(f"bot 'strict' cannot play '{env_id}'")


class First:
    """A user's bot that can act and no more."""

    def __init__(self, env_id):
        self.env_id = env_id

    def act(self, observation, mask, rng, greedy=False):
        return mask.argmax(1), np.zeros(len(mask), np.float32)


@pytest.mark.parametrize(("env_id", "name"), [(e, b) for e in registry.ids() for b in bots_for(e)])
def test_every_bot_plays_its_game_legally_to_the_end(env_id, name):
    game = registry.make(env_id, 64)
    game.reset(np.arange(64), np.arange(64))
    bot, rng = make_bot(name, env_id), np.random.default_rng(0)
    while game.active.any():
        (block,) = game.due()
        action, log_prob = bot.act(block.observation, block.mask, rng)
        assert (action.dtype, log_prob.dtype) == (np.int64, np.float32)
        assert action.shape == log_prob.shape == (len(block),)
        assert block.mask[np.arange(len(block)), action].all()
        assert np.isfinite(log_prob).all()
        game.step([action])


def test_random_is_uniform_over_legal_actions_and_says_so():
    mask = np.tile([True, False, True, True], (30_000, 1))
    action, log_prob = make_bot("random", "kuhn_poker").act(
        np.zeros((30_000, 1)), mask, np.random.default_rng(0)
    )
    counts = np.bincount(action, minlength=4)
    assert counts[1] == 0
    assert np.abs(counts[[0, 2, 3]] - 10_000).max() < 4 * np.sqrt(10_000 * 2 / 3)
    assert log_prob == pytest.approx(np.log(1 / 3))


def test_random_is_uniform_over_several_choices_at_once():
    n = 20_000
    bot = make_bot("random", "mine:Game", ActionSpec("multi_discrete", (2, 3)))
    mask = np.tile([True, True, True, False, True], (n, 1))
    chosen = bot.decide(Look(np.zeros((n, 1)), mask), np.random.default_rng(0))
    assert (chosen.action.shape, chosen.action.dtype) == ((n, 2), np.int64)
    joint = np.bincount(3 * chosen.action[:, 0] + chosen.action[:, 1], minlength=6)
    assert joint[[1, 4]].tolist() == [0, 0]
    assert np.abs(joint[[0, 2, 3, 5]] - n / 4).max() < 4 * np.sqrt(n * 3 / 16)
    assert chosen.log_prob == pytest.approx(np.log(1 / 4))


def test_random_is_uniform_between_the_bounds():
    n, action = 20_000, ActionSpec("continuous", low=(0.1, -2.0), high=(0.7, 5.0))
    drawn, log_prob = make_bot("random", "mine:Game", action).act(
        np.zeros((n, 1)), np.ones((n, 0), bool), np.random.default_rng(0)
    )
    assert (drawn.shape, drawn.dtype) == ((n, 2), np.float32)
    low, high = np.array(action.low), np.array(action.high)
    assert ((drawn.astype(np.float64) >= low) & (drawn.astype(np.float64) <= high)).all()
    unit = (drawn - low) / (high - low)
    assert np.abs(unit.mean(axis=0) - 0.5).max() < 4 / np.sqrt(12 * n)
    assert np.abs(unit.std(axis=0) - 1 / np.sqrt(12)).max() < 0.01
    assert log_prob == pytest.approx(-np.log(0.6 * 7.0))


def test_random_draws_choices_and_numbers_together_with_their_density():
    n, action = 20_000, ActionSpec("joint", (2, 3), (-np.inf, 0.0), (np.inf, 4.0))
    mask = np.tile([True, True, True, False, True], (n, 1))
    chosen = make_bot("random", "mine:Game", action).decide(Look(mask, mask), np.random.default_rng(0))
    assert (chosen.action.shape, chosen.action.dtype) == ((n, 4), np.float32)
    assert np.unique(chosen.action[:, :2], axis=0).tolist() == [[0, 0], [0, 2], [1, 0], [1, 2]]
    log_density = scipy.stats.logistic.logpdf(chosen.action[:, 2]) - np.log(4.0)
    np.testing.assert_allclose(chosen.log_prob, np.log(1 / 4) + log_density, atol=1e-3)
    assert not chosen.certain.any()


def test_the_same_generator_state_gives_the_same_actions():
    mask = np.ones((100, 7), bool)
    first, second = (RandomBot().act(mask, mask, np.random.default_rng(3))[0] for _ in range(2))
    assert first.tolist() == second.tolist()


def test_bots_are_listed_by_game():
    assert bots_for("tic_tac_toe") == ["one_ply", "perfect", "random"]
    assert bots_for("connect_four") == ["one_ply", "random"]
    assert bots_for("rock_paper_scissors") == ["beat_last", "paper", "random", "rock", "scissors"]
    assert bots_for("some.module:Game") == ["random"]


@pytest.mark.parametrize(
    ("name", "env_id", "message"),
    [
        ("perfect", "connect_four", "bot 'perfect' cannot play 'connect_four'; .* one_ply, random"),
        ("alphazero", "tic_tac_toe", "no bot 'alphazero'; .* one_ply, perfect, random"),
        ("no_such_module:Bot", "tic_tac_toe", "module 'no_such_module' cannot be imported"),
        ("math:pi", "tic_tac_toe", "expected a function choose"),
        ("builtins:str", "tic_tac_toe", "has no act"),
    ],
)
def test_a_bot_that_is_not_there_is_answered_with_those_that_are(name, env_id, message):
    with pytest.raises(UnknownBot, match=message):
        make_bot(name, env_id)


def test_a_bot_with_settings_goes_by_the_name_it_was_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(choose=lambda o, mask, rng: [1]))
    settings = {"taker": OwnBotSettings(use="my_bots:choose")}
    bot = make_bot("taker", "some.module:Game", None, settings)
    assert bot.act(np.zeros((1, 3)), np.ones((1, 2), bool), np.random.default_rng(0))[0].tolist() == [1]
    with pytest.raises(
        UnknownBot, match="no bot 'take'; for 'kuhn_poker' there are: equilibrium, random, taker"
    ):
        make_bot("take", "kuhn_poker", None, settings)


def test_a_users_bot_is_found_by_its_import_path_and_may_refuse_a_game(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(Strict=Strict))
    assert isinstance(make_bot("my_bots:Strict", "kuhn_poker").bot, Strict)
    with pytest.raises(UnknownBot, match="cannot play 'tic_tac_toe'"):
        make_bot("my_bots:Strict", "tic_tac_toe")


def test_a_users_bot_that_can_only_act_decides_like_all_others(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(First=First))
    bot, observation = make_bot("my_bots:First", "kuhn_poker"), np.zeros((1, 3))
    chosen = bot.decide(Look(observation, np.array([[False, True]])), np.random.default_rng(0))
    assert chosen.action.tolist() == chosen.raw.tolist() == [1]
    assert chosen.seen is observation
    assert (bot.memory_size, bot.wants_reward) == (0, False)
