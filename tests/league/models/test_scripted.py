"""Bots play as they say: legally, uniformly over what they prefer, and with exact log-probabilities."""

import itertools
import sys
import types

import numpy as np
import pytest

from league.envs import registry
from league.envs.connect_four import planes
from league.envs.spaces import ActionSpec
from league.models.scripted import RandomBot, UnknownBot, bots_for, make_bot

FOURS = [
    tuple((c + i * dc, r + i * dr) for i in range(4))
    for c, r, (dc, dr) in itertools.product(range(7), range(6), [(1, 0), (0, 1), (1, 1), (1, -1)])
    if 0 <= c + 3 * dc < 7 and 0 <= r + 3 * dr < 6
]


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


def play(env_id, bots, num_matches, seed=0):
    """Returns [num_matches, 2] of matches between two bots, seat by seat."""
    game = registry.make(env_id, num_matches)
    game.reset(np.arange(num_matches), np.arange(num_matches))
    rng = np.random.default_rng(seed)
    returns = np.zeros((num_matches, 2))
    while game.active.any():
        (block,) = game.due()
        actions = np.zeros(len(block), np.int64)
        for seat, bot in enumerate(bots):
            rows = block.seat == seat
            if rows.any():
                actions[rows], _ = bot.act(block.observation[rows], block.mask[rows], rng)
        transition = game.step([actions])
        assert not transition.forfeited.any()
        returns += transition.rewards
    return returns


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
    chosen = bot.decide(np.zeros((n, 1)), mask, np.random.default_rng(0))
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


def test_the_same_generator_state_gives_the_same_actions():
    mask = np.ones((100, 7), bool)
    first, second = (RandomBot().act(mask, mask, np.random.default_rng(3))[0] for _ in range(2))
    assert first.tolist() == second.tolist()


def connect_four_positions(line, side):
    """Positions (the missing cell; own bits, the opponent's) in which one cell completes `line` for `side`.

    Where the line hangs in the air, stones of both sides hold it up.
    """
    for missing in line:
        mine = {cell for cell in line if cell != missing}
        if any(c == missing[0] and r > missing[1] for c, r in mine):
            continue  # a stone of the line cannot stand on an empty cell
        below = {(c, r) for c, top in line for r in range(top)} - mine
        mine |= {(c, r) for c, r in below if (c // 2 + r) % 2 == 0}
        boards = [sum(1 << (6 * c + r) for c, r in cells) for cells in (mine, below - mine)]
        yield missing, boards if side == 0 else boards[::-1]


def completes(board, mask, heights):
    """Columns in which the next stone gives `board` four in a line, by search."""
    found = []
    for column in np.flatnonzero(mask):
        after = board | 1 << (6 * int(column) + heights[column])
        if any(all(after >> (6 * c + r) & 1 for c, r in line) for line in FOURS):
            found.append(int(column))
    return found


@pytest.mark.parametrize("side", [0, 1])
def test_one_ply_takes_wins_and_blocks_on_every_line_of_connect_four(side):
    assert len(FOURS) == 69
    bot = make_bot("one_ply", "connect_four")
    num_positions, blocks_seen = 0, 0
    for line in FOURS:
        for (column, _), (own, theirs) in connect_four_positions(line, side):
            heights = [((own | theirs) >> 6 * c & 63).bit_count() for c in range(7)]
            mask = np.array([h < 6 for h in heights])
            wins, blocks = completes(own, mask, heights), completes(theirs, mask, heights)
            assert column in (wins if side == 0 else blocks)
            observation = planes(np.array([[own, theirs]], dtype=np.uint64))
            preferred = np.flatnonzero(bot.preferred(observation, mask[None])[0]).tolist()
            assert preferred == (wins or blocks)
            num_positions += 1
            blocks_seen += not wins
    assert num_positions > 150
    assert side == 0 or blocks_seen > 100


def test_one_ply_takes_wins_and_blocks_on_every_line_of_tic_tac_toe():
    bot = make_bot("one_ply", "tic_tac_toe")
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    for line, (missing, side) in itertools.product(lines, itertools.product(range(3), range(2))):
        observation = np.zeros((1, 2, 9), np.int8)
        observation[0, side, [c for c in line if c != line[missing]]] = 1
        mask = observation.sum(axis=1) == 0
        action, log_prob = bot.act(observation.reshape(1, 18), mask, np.random.default_rng(0))
        assert action.tolist() == [line[missing]]
        assert log_prob.tolist() == [0.0]


def test_one_ply_prefers_a_win_to_a_block():
    observation = np.zeros((1, 18), np.int8)
    observation[0, [0, 1, 9 + 3, 9 + 4]] = 1  # both lack one cell: 2 wins, 5 only blocks
    mask = observation.reshape(1, 2, 9).sum(axis=1) == 0
    action, _ = make_bot("one_ply", "tic_tac_toe").act(observation, mask, np.random.default_rng(0))
    assert action.tolist() == [2]


def test_one_ply_beats_random_in_connect_four():
    one_ply, random = (make_bot(name, "connect_four") for name in ("one_ply", "random"))
    first = play("connect_four", (one_ply, random), 1000)
    second = play("connect_four", (random, one_ply), 1000)
    assert (first[:, 0] > 0).mean() > 0.9
    assert (second[:, 1] > 0).mean() > 0.9


def test_perfect_never_loses_to_random():
    perfect, random = (make_bot(name, "tic_tac_toe") for name in ("perfect", "random"))
    first = play("tic_tac_toe", (perfect, random), 1000)[:, 0]
    second = play("tic_tac_toe", (random, perfect), 1000, seed=1)[:, 1]
    assert first.min() >= 0
    assert second.min() >= 0
    assert (first > 0).mean() > 0.8


def test_perfect_draws_itself_along_many_lines():
    perfect = make_bot("perfect", "tic_tac_toe")
    assert not play("tic_tac_toe", (perfect, perfect), 500).any()
    opening = perfect.preferred(np.zeros((1, 18), np.int8), np.ones((1, 9), bool))
    assert opening.all()  # every first cell keeps the draw


def test_perfect_answers_a_corner_in_the_middle_only():
    observation = np.zeros((1, 18), np.int8)
    observation[0, 9] = 1
    mask = np.arange(9)[None] > 0
    preferred = make_bot("perfect", "tic_tac_toe").preferred(observation, mask)
    assert np.flatnonzero(preferred[0]).tolist() == [4]


def test_bots_are_listed_by_game():
    assert bots_for("tic_tac_toe") == ["one_ply", "perfect", "random"]
    assert bots_for("connect_four") == ["one_ply", "random"]
    assert bots_for("some.module:Game") == ["random"]


@pytest.mark.parametrize(
    ("name", "env_id", "message"),
    [
        ("perfect", "connect_four", "bot 'perfect' cannot play 'connect_four'; .* one_ply, random"),
        ("alphazero", "tic_tac_toe", "no bot 'alphazero'; .* one_ply, perfect, random"),
        ("no_such_module:Bot", "tic_tac_toe", "module 'no_such_module' cannot be imported"),
        ("math:pi", "tic_tac_toe", "expected a class or function"),
        ("builtins:str", "tic_tac_toe", "has no act"),
    ],
)
def test_a_bot_that_is_not_there_is_answered_with_those_that_are(name, env_id, message):
    with pytest.raises(UnknownBot, match=message):
        make_bot(name, env_id)


def test_a_users_bot_is_found_by_its_import_path_and_may_refuse_a_game(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(Strict=Strict))
    assert isinstance(make_bot("my_bots:Strict", "kuhn_poker"), Strict)
    with pytest.raises(UnknownBot, match="cannot play 'tic_tac_toe'"):
        make_bot("my_bots:Strict", "tic_tac_toe")


def test_a_users_bot_that_can_only_act_decides_like_all_others(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(First=First))
    bot, observation = make_bot("my_bots:First", "kuhn_poker"), np.zeros((1, 3))
    chosen = bot.decide(observation, np.array([[False, True]]), np.random.default_rng(0), memory=None)
    assert chosen.action.tolist() == chosen.raw.tolist() == [1]
    assert chosen.seen is observation
    assert (bot.memory_size, bot.wants_reward) == (0, False)
