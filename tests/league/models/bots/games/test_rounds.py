"""Bots of games of rounds play what they are named after, and remember what they saw."""

import numpy as np
import pytest

from league.envs import registry
from league.envs.games.rock_paper_scissors import PAPER, ROCK, SCISSORS
from league.models.actor import Look
from league.models.bots.scripted import make_bot


@pytest.mark.parametrize(("name", "action"), [("rock", ROCK), ("paper", PAPER), ("scissors", SCISSORS)])
def test_a_bot_named_after_its_action_takes_no_other(name, action):
    chosen, log_prob = make_bot(name, "rock_paper_scissors").act(
        np.zeros((5, 7)), np.ones((5, 3), bool), np.random.default_rng(0)
    )
    assert chosen.tolist() == [action] * 5
    assert log_prob.tolist() == [0.0] * 5


@pytest.mark.parametrize("stubborn", ["rock", "paper", "scissors"])
def test_beat_last_wins_every_round_but_the_first_against_one_who_repeats_himself(stubborn):
    rounds, slots = 10, np.arange(60)
    game = registry.make("rock_paper_scissors", len(slots), rounds=rounds)
    bots = [make_bot(name, "rock_paper_scissors") for name in ("beat_last", stubborn)]
    rng = np.random.default_rng(0)
    game.reset(slots, slots)
    won = []
    while game.active.any():
        (block,) = game.due()
        actions = np.zeros(len(block), np.int64)
        for seat, bot in enumerate(bots):
            actions[seat::2], _ = bot.act(block.observation[seat::2], block.mask[seat::2], rng)
        won.append(game.step([actions]).rewards[:, 0].copy() * rounds)
    assert set(won[0].round()) == {-1, 0, 1}
    assert np.array(won[1:]) == pytest.approx(1.0)


def test_the_perfect_bot_of_recall_names_the_cue_long_after_it_was_shown():
    game, slots = registry.make("recall", 50, cues=4, length=12), np.arange(50)
    bot, rng = make_bot("perfect", "recall"), np.random.default_rng(0)
    memory = np.zeros((50, bot.memory_size), np.float32)
    game.reset(slots, slots)
    while game.active.any():
        (block,) = game.due()
        chosen = bot.decide(Look(block.observation, block.mask, memory), rng)
        transition = game.step([chosen.action])
    assert transition.rewards[:, 0].tolist() == [1.0] * 50
    assert len(set(memory[:, 0])) == 4


def test_without_a_cue_in_sight_or_in_memory_any_answer_will_do():
    bot, nothing = make_bot("perfect", "recall"), np.zeros((4000, 5), np.int8)
    action, log_prob = bot.act(nothing, np.ones((4000, 4), bool), np.random.default_rng(0))
    assert np.bincount(action).min() > 850
    assert log_prob == pytest.approx(np.log(1 / 4))
