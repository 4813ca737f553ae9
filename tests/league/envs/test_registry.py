"""Games by id or import path, and mistakes that are answered with what would have been right."""

import pytest

from league.envs import registry
from league.envs.base import BatchedGame
from league.envs.games.rock_paper_scissors import RockPaperScissors
from league.envs.registry import BadOption, UnknownEnv
from storage.errors import Mistake


@pytest.mark.parametrize("env_id", registry.ids())
def test_every_native_game_is_made_under_its_own_id(env_id):
    game = registry.make(env_id, 4, step_limit=100)
    assert isinstance(game, BatchedGame)
    assert (game.id, game.num_slots, game.step_limit) == (env_id, 4, 100)


def test_gymnasiums_envs_are_games_by_their_prefix():
    game = registry.make("gymnasium:CartPole-v1", 2, step_limit=100)
    assert (game.id, game.num_slots, game.num_seats, game.step_limit) == ("gymnasium:CartPole-v1", 2, 1, 100)
    assert registry.game_class("gymnasium:CartPole-v1") is type(game)
    assert not any(env_id.startswith("gymnasium") for env_id in registry.ids())


def test_options_reach_the_game():
    assert registry.make("rock_paper_scissors", 1, rounds=7).rounds == 7


def test_every_game_has_a_draw_margin_that_makes_draws_possible():
    game = registry.make("leduc_poker", 1, draw_margin=0.5)
    assert (game.draw_margin, game.draw_possible) == (0.5, True)
    assert registry.make("gymnasium:CartPole-v1", 1, draw_margin=2).draw_margin == 2
    assert registry.make("leduc_poker", 1).draw_margin == 0.0


@pytest.mark.parametrize("margin", [-1.0, float("nan"), float("inf"), "wide", True])
def test_a_draw_margin_that_is_no_distance_is_refused(margin):
    with pytest.raises(BadOption, match=r"draw_margin is .*expected a number of at least 0"):
        registry.make("leduc_poker", 1, draw_margin=margin)


def test_a_class_is_found_by_its_import_path():
    game = registry.make("league.envs.games.rock_paper_scissors:RockPaperScissors", 2, rounds=2)
    assert type(game) is RockPaperScissors


def test_a_misspelt_id_is_answered_with_the_nearest():
    with pytest.raises(UnknownEnv, match="did you mean connect_four"):
        registry.make("conect4our", 1)


def test_an_id_like_no_other_is_answered_with_all_of_them():
    with pytest.raises(UnknownEnv, match="expected blotto, connect_four, kuhn_poker, leduc_poker"):
        registry.make("zzz", 1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:Game", "module 'no_such_module' cannot be imported"),
        ("league.envs.games.connect_four:ConnectFive", "did you mean 'ConnectFour'"),
        ("league.envs.games.connect_four:has_four", "expected a subclass of"),
        (":Game", "expected 'module:Name'"),
        ("league.envs.games.connect_four:", "expected 'module:Name'"),
    ],
)
def test_a_wrong_import_path_says_which_part_is_wrong(path, message):
    with pytest.raises(UnknownEnv, match=message):
        registry.make(path, 1)


@pytest.mark.parametrize("option", ["round", "num_slots", "self"])
def test_a_wrong_option_is_named_beside_those_that_exist(option):
    with pytest.raises(BadOption, match=f"no option '{option}'; its options: rounds, draw_margin$"):
        registry.make("rock_paper_scissors", 1, **{option: 3})


def test_a_refused_value_is_the_users_mistake():
    with pytest.raises(Mistake, match="rounds is 0, expected"):
        registry.make("rock_paper_scissors", 1, rounds=0)
