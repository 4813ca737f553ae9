"""What a user's function gives is taken as it is, or refused in one sentence that names the function."""

import re
import sys
import types

import numpy as np
import pytest

from league.envs import registry
from league.envs.spaces import ActionSpec
from league.models.actor import BadChoice, Look
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.own_bot import OwnBot
from league.models.bots.scripted import make_bot
from league.models.bots.settings import OwnBotSettings
from storage.records import EndReason

PAIR = ActionSpec("multi_discrete", (2, 3))
REAL = ActionSpec("continuous", low=(-1.0,), high=(1.0,))


@pytest.fixture
def named(monkeypatch):
    """Makes a bot of a function, as a config would name it."""

    def make(choose, action=None):
        monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(choose=choose))
        settings = {"mine": OwnBotSettings(use="my_bots:choose")}
        return make_bot("mine", "tic_tac_toe", action, settings)

    return make


def decide(bot, n=3, width=9):
    return bot.decide(Look(np.zeros((n, 18), np.int8), np.ones((n, width), bool)), np.random.default_rng(5))


def test_a_function_chooses_for_a_whole_batch_with_the_generator_it_is_given(named):
    bot = named(
        lambda observation, mask, rng: rng.integers(mask.shape[1], size=len(observation), dtype=np.int32)
    )
    chosen = decide(bot, n=1000)
    assert chosen.action.tolist() == np.random.default_rng(5).integers(9, size=1000, dtype=np.int32).tolist()
    assert chosen.action.dtype == np.int64
    assert chosen.log_prob.tolist() == [0.0] * 1000


def test_a_function_was_certain_if_it_drew_nothing_from_the_generator(named):
    assert decide(named(lambda observation, mask, rng: mask.argmax(1))).certain.tolist() == [True] * 3
    drawing = named(lambda observation, mask, rng: rng.integers(9, size=len(mask)))
    assert decide(drawing).certain.tolist() == [False] * 3


def test_a_bot_that_can_only_act_is_told_of_greedy_play_and_draws_are_no_certainty():
    class Acts:
        def act(self, observation, mask, rng, greedy):
            action = np.zeros(len(mask), np.int64) if greedy else rng.integers(9, size=len(mask))
            return action, np.zeros(len(mask), np.float32)  # as if it knew

    bot = OwnBot(Acts())
    observation, mask, rng = np.zeros((50, 1)), np.ones((50, 9), bool), np.random.default_rng(0)
    drawn, likeliest = (bot.decide(Look(observation, mask), rng, temperature) for temperature in (0.5, 0.0))
    assert drawn.action.any()
    assert drawn.certain.tolist() == [False] * 50
    assert not likeliest.action.any()
    assert likeliest.certain.tolist() == [True] * 50


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda n: 1 / 0, "it raised ZeroDivisionError"),
        (lambda n: None, "it raised TypeError"),
        (lambda n: np.zeros(n), "it raised ValueError"),
        (lambda n: (np.zeros(n + 1), np.zeros(n)), r"gave actions \[51\] and log-probabilities \[50\]"),
        (lambda n: (3, 0.0), r"gave actions \[\] and log-probabilities \[\]"),
    ],
)
def test_what_a_class_raises_or_gives_instead_of_actions_is_told_in_one_sentence(given, told):
    class Acts:
        def act(self, observation, mask, rng, greedy):
            return given(len(mask))

    with pytest.raises(BadChoice, match=f"bot 'a:B': .*{told}"):
        OwnBot(Acts(), "bot 'a:B'").decide(
            Look(np.zeros((50, 1)), np.ones((50, 9), bool)), np.random.default_rng(0)
        )


@pytest.mark.parametrize(
    ("action", "given", "dtype"), [(PAIR, [[1, 2]] * 3, np.int64), (REAL, [[0.5]] * 3, np.float32)]
)
def test_actions_of_every_kind_may_come_as_lists(named, action, given, dtype):
    chosen = decide(named(lambda observation, mask, rng: given, action))
    assert chosen.action.tolist() == given
    assert chosen.action.dtype == dtype


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (4, r"gave an array \[\] of int64, expected \[1\] of int64"),
        ([[1], [2], [3]], r"gave an array \[3, 1\] of int64"),
        ([1, 2], r"gave an array \[2\] of int64.*: one action for each observation"),
        ([0.5, 1.0, 2.0], r"gave an array \[3\] of float64"),
        (None, r"gave an array \[\] of object"),
        ([[1], [2, 3], []], "raised ValueError"),
    ],
)
def test_what_is_no_action_fails_each_row_with_one_sentence(named, given, found):
    failed = decide(named(lambda observation, mask, rng: given)).failed
    assert sorted(failed) == [0, 1, 2]
    assert len({failure.cause for failure in failed.values()}) == 1
    assert re.match(f"^bot 'mine'.*{found}", failed[0].cause)
    assert "\n" not in failed[0].cause


@pytest.mark.parametrize("name", ["mine", "bots_of_mine:choose"])
def test_what_a_function_raises_is_told_with_its_place_however_it_is_named(own_module, name):
    own_module("bots_of_mine", "def choose(observation, mask, rng):\n    return 1 / 0\n")
    bot = make_bot(name, "tic_tac_toe", None, {"mine": OwnBotSettings(use="bots_of_mine:choose")})
    said = r"it raised ZeroDivisionError: .*bots_of_mine.py, line 2, in choose\)$"
    assert [re.search(said, failed.cause) is not None for failed in decide(bot).failed.values()] == [True] * 3
    with pytest.raises(BadChoice, match=said):
        bot.act(np.zeros((1, 18), np.int8), np.ones((1, 9), bool), np.random.default_rng(5))


@pytest.mark.parametrize("illegal", [-1, 9, 2**40])
def test_an_illegal_action_forfeits_the_match(named, illegal):
    game = registry.make("tic_tac_toe", 2)
    game.reset(np.arange(2), np.arange(2))
    (block,) = game.due()
    bot = named(lambda observation, mask, rng: [0, illegal])
    end = game.step([bot.decide(Look(block.observation, block.mask), np.random.default_rng(0)).action])
    assert end.ended.tolist() == [1]
    assert end.reason.tolist() == [EndReason.ILLEGAL_ACTION]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:choose", "bot 'mine': 'no_such_module:choose': module .* cannot be imported"),
        ("math:chooose", "module 'math' has no 'chooose'"),
        ("math:pi", r"bot 'mine': 'math:pi' is 3.14.*, expected a function choose\(observation, mask, rng"),
    ],
)
def test_a_function_that_is_not_there_is_refused_when_the_bot_is_made(path, message):
    with pytest.raises(UnknownBot, match=message):
        make_bot("mine", "tic_tac_toe", None, {"mine": OwnBotSettings(use=path)})


def test_a_class_of_ones_own_is_made_with_the_env_and_its_options(monkeypatch):
    class Fixed:
        def __init__(self, env_id, action):
            self.env_id, self.action = env_id, action

        def act(self, observation, mask, rng, greedy):
            return np.full(len(mask), self.action), np.zeros(len(mask))

    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(Fixed=Fixed))
    settings = {"mine": OwnBotSettings(use="my_bots:Fixed", action=4)}
    bot = make_bot("mine", "tic_tac_toe", None, settings)
    assert decide(bot).action.tolist() == [4, 4, 4]
    assert bot.bot.bot.env_id == "tic_tac_toe"


def test_a_class_whose_act_takes_something_else_is_refused_when_it_is_made(monkeypatch):
    class Short:
        def __init__(self, env_id):
            pass

        def act(self, observation, mask, rng):
            return np.zeros(len(mask), np.int64)

    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(Short=Short))
    with pytest.raises(UnknownBot, match=r"its act takes \(observation, mask, rng\), expected act\(.*greedy"):
        make_bot("my_bots:Short", "tic_tac_toe")
