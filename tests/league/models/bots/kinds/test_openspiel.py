"""OpenSpiel's bots search in matches of OpenSpiel's games, repeatably, and in those alone that allow it."""

import numpy as np
import pytest

from league.envs import registry
from league.models.actor import Look
from league.models.bots.bot import UnknownBot
from league.models.bots.scripted import make_bot
from league.models.bots.settings import MctsSettings, OpenSpielSettings
from storage.errors import Mistake
from tests.league.models.bots.games.matches import played

TIC_TAC_TOE = "openspiel:tic_tac_toe"


def mcts(env_id, simulations, **more):
    settings = MctsSettings(kind="mcts", simulations=simulations, **more)
    return make_bot("searcher", env_id, None, {"searcher": settings})


def registered(env_id, bot, **parameters):
    settings = OpenSpielSettings(kind="openspiel", bot=bot, parameters=parameters)
    return make_bot("theirs", env_id, None, {"theirs": settings})


def at(bot, game, block, rng, rows=slice(None), temperature=1.0):
    slot, seat, seen, mask = (part[rows] for part in (block.slot, block.seat, block.observation, block.mask))
    return bot.decide_at(game, slot, seat, Look(seen, mask), rng, temperature)


def after(env_id, line):
    """A game with one match in which `line` was played, and its open decision."""
    game = registry.make(env_id, 1)
    game.reset(np.arange(1), np.arange(1))
    for action in line:
        game.due()
        game.step([np.array([action])])
    (block,) = game.due()
    return game, block


@pytest.mark.parametrize(("line", "best"), [([0, 3, 1, 4], 2), ([0, 3, 1], 2), ([8, 0, 4, 1], 2)])
def test_a_search_wins_where_it_can_and_stops_the_opponent_where_it_must(line, best):
    game, block = after(TIC_TAC_TOE, line)
    bot = mcts(TIC_TAC_TOE, 500)
    before = str(game.native(0))
    for seed in range(5):
        chosen = at(bot, game, block, np.random.default_rng(seed))
        assert chosen.action.tolist() == [best]
        assert chosen.log_prob.tolist() == [0.0]
        assert chosen.certain.tolist() == [False]  # another seed may search elsewhere
    assert str(game.native(0)) == before


def test_the_same_generator_gives_the_same_matches_and_another_gives_others():
    bots = (mcts("openspiel:connect_four", 20), make_bot("random", "openspiel:connect_four"))
    first, again, other = (played("openspiel:connect_four", bots, 5, seed)[1] for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_more_simulations_play_better():
    few, many = (mcts(TIC_TAC_TOE, simulations) for simulations in (4, 400))
    returns = played(TIC_TAC_TOE, (few, many), 30)[0] + played(TIC_TAC_TOE, (many, few), 30)[0][:, ::-1]
    assert returns[:, 1].mean() > 0.5


def test_chance_is_no_hindrance_to_a_search():
    game = registry.make("openspiel:backgammon", 2)
    game.reset(np.arange(2), np.arange(2))
    bot, rng = mcts("openspiel:backgammon", 3), np.random.default_rng(0)
    for _ in range(6):
        (block,) = game.due()
        transition = game.step([at(bot, game, block, rng).action])
        assert not transition.forfeited.any()


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        (
            "openspiel:kuhn_poker",
            "cannot play 'openspiel:kuhn_poker': found hidden information, expected turns, perfect",
        ),
        ("openspiel:goofspiel(num_cards=4,imp_info=false)", "found simultaneous moves"),
        ("connect_four", "found a game that is not OpenSpiel's, expected one such as openspiel:tic_tac_toe"),
    ],
)
def test_a_game_that_does_not_allow_a_search_is_refused(env_id, message):
    with pytest.raises(UnknownBot, match=f"^bot 'searcher' of kind mcts .*{message}"):
        mcts(env_id, 10)


def test_who_has_observations_only_is_told_that_a_search_needs_the_match():
    bot = mcts(TIC_TAC_TOE, 10)
    with pytest.raises(Mistake, match=r"bot 'searcher' cannot act on observations, .* let it play in a run"):
        bot.act(np.zeros((1, 27)), np.ones((1, 9), bool), np.random.default_rng(0))


def test_a_bot_of_openspiels_plays_by_its_own_probabilities():
    game, block = after(TIC_TAC_TOE, [0, 2])
    bot = registered(TIC_TAC_TOE, "fixed_action_preference", actions="2:0:5:4")
    chosen = at(bot, game, block, np.random.default_rng(0))
    assert (chosen.action.tolist(), chosen.log_prob.tolist()) == ([5], [0.0])
    assert chosen.certain.tolist() == [True]
    chosen = [
        at(registered(TIC_TAC_TOE, "uniform_random"), game, block, np.random.default_rng(seed))
        for seed in range(60)
    ]
    assert {int(c.action[0]) for c in chosen} == {1, 3, 4, 5, 6, 7, 8}
    assert {float(c.log_prob[0]) for c in chosen} == {np.log(np.float32(1 / 7))}
    assert not any(c.certain[0] for c in chosen)


def test_a_bot_of_openspiels_takes_its_likeliest_or_first_action_at_temperature_zero():
    game, block = after(TIC_TAC_TOE, [0, 2])
    bot = registered(TIC_TAC_TOE, "uniform_random")
    for seed in range(5):
        chosen = at(bot, game, block, np.random.default_rng(seed), temperature=0.0)
        assert (chosen.action.tolist(), chosen.certain.tolist()) == ([1], [True])


@pytest.mark.parametrize(
    ("env_id", "bot", "message"),
    [
        (
            TIC_TAC_TOE,
            "alphazero",
            "OpenSpiel has no 'alphazero' for it; expected one of: fixed_action_preference, un",
        ),
        (
            "openspiel:kuhn_poker",
            "uniform_restricted_actions",
            "OpenSpiel cannot load 'uniform_restricted_actions' with parameters {}: Spiel",
        ),
        ("kuhn_poker", "uniform_random", "not OpenSpiel's"),
    ],
)
def test_a_bot_that_openspiel_has_not_is_refused(env_id, bot, message):
    with pytest.raises(
        UnknownBot, match=f"^bot 'theirs' of kind openspiel cannot play '{env_id}': .*{message}"
    ):
        registered(env_id, bot)


def test_a_bot_of_openspiels_that_fails_in_a_match_is_told_in_one_sentence():
    game, block = after(TIC_TAC_TOE, [0, 2])
    bot = registered(TIC_TAC_TOE, "fixed_action_preference", actions="2:0")
    (failed,) = at(bot, game, block, np.random.default_rng(0)).failed.values()
    assert failed.cause.startswith("bot 'theirs': in a match it raised SpielError: No legal actions in")
