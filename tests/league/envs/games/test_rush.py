"""Rush against plain rules, fights worked out by hand, what is hidden, and the circle of its bots."""

import numpy as np
import pytest

from league.envs.games.rush import (
    ACTIONS,
    ATTACK,
    LEVEL,
    RESEARCH,
    ROUNDS,
    SAVE,
    SCOUT,
    SOLDIERS,
    TOWERS,
    WORKER,
    Rush,
    owned,
)
from league.models.bots.scripted import make_bot
from tests.league.models.bots.games.matches import play

CIRCLE = [("rusher", "researcher"), ("researcher", "defender"), ("defender", "rusher")]


class Reference:
    """One match, in plain words."""

    def __init__(self):
        self.seats = [{"gold": 3, "workers": 3, "soldiers": 0, "towers": 0, "level": 0} for _ in range(2)]
        self.base, self.rounds = [20, 20], 0

    def play(self, actions):
        """The rewards of both seats, and whether the match is over."""
        self.rounds += 1
        for seat, action in zip(self.seats, actions, strict=True):
            if action == "worker":
                seat["gold"], seat["workers"] = seat["gold"] - 3, seat["workers"] + 1
            elif action in ("soldiers", "towers"):
                seat[action] += seat["gold"] // 2
                seat["gold"] %= 2
            elif action == "research":
                seat["gold"], seat["level"] = seat["gold"] - 12, seat["level"] + 1
            elif action == "scout":
                seat["gold"] -= 1
        before = [dict(seat) for seat in self.seats]
        for me, action in enumerate(actions):
            if action != "attack":
                continue
            own, other, they_stay = before[me], before[1 - me], actions[1 - me] != "attack"
            strength = own["soldiers"] * (1 + own["level"])
            if own["level"] < 3:
                strength = max(0, strength - 3 * other["towers"])
            if they_stay:
                home = other["soldiers"] * (1 + other["level"])
                self.seats[1 - me]["soldiers"] = max(0, home - strength) // (1 + other["level"])
                strength = max(0, strength - home)
            self.base[1 - me] -= strength
            self.seats[me]["soldiers"] = strength // (1 + own["level"])
        for seat in self.seats:
            seat["gold"] += seat["workers"]
        lost = [base <= 0 for base in self.base]
        if not any(lost) and self.rounds < 24:
            return [0, 0], False
        prices = {"gold": 1, "workers": 3, "soldiers": 2, "towers": 2, "level": 12}
        worth = [sum(prices[what] * n for what, n in seat.items()) for seat in self.seats]
        keys = [(max(base, 0), 0 if any(lost) else own) for base, own in zip(self.base, worth, strict=True)]
        won = (keys[0] > keys[1]) - (keys[0] < keys[1])
        return [won, -won], True


def test_random_play_agrees_with_plain_rules():
    game, rng = Rush(60), np.random.default_rng(0)
    game.reset(np.arange(60), np.arange(60))
    matches, rewarded = {slot: Reference() for slot in range(60)}, set()
    while matches:
        (block,) = game.due()
        assert block.slot.tolist() == [slot for slot in matches for _ in range(2)]
        actions = (rng.random(block.mask.shape) * block.mask * [1, 1, 2, 1, 9, 2, 1]).argmax(axis=1)
        for slot, seat, seen in zip(block.slot.tolist(), block.seat.tolist(), block.observation, strict=True):
            assert owned(seen[None])[0].tolist() == list(matches[slot].seats[seat].values())
            assert np.allclose(seen[6:8] * 20, [matches[slot].base[seat], matches[slot].base[1 - seat]])
        transition = game.step([actions])
        for at, slot in enumerate(list(matches)):
            rewards, over = matches[slot].play([ACTIONS[a] for a in actions[2 * at : 2 * at + 2]])
            assert transition.rewards[slot].tolist() == rewards
            assert over == (slot in transition.ended)
            if over:
                rewarded.add(rewards[0])
                del matches[slot]
    assert rewarded >= {-1, 1}
    assert game.env_steps.max() == 2 * ROUNDS


def match(own, other):
    """A match in which the seats have so many soldiers, towers and levels, each twelve gold."""
    game = Rush(1)
    game.reset(np.zeros(1, np.int64), np.zeros(1, np.int64))
    game._has[0, :, 0], game._has[0, :, 2:] = 12, [own, other]
    return game


@pytest.mark.parametrize(
    ("own", "other", "actions", "soldiers", "bases"),
    [
        ((5, 0, 0), (0, 0, 0), (ATTACK, SAVE), [5, 0], [20, 15]),
        ((5, 0, 0), (0, 1, 0), (ATTACK, SAVE), [2, 0], [20, 18]),  # a tower stops three
        ((5, 0, 2), (0, 4, 0), (ATTACK, SAVE), [1, 0], [20, 17]),  # 15 less 12 is one soldier of three
        ((5, 0, 3), (0, 9, 0), (ATTACK, SAVE), [5, 0], [20, 0]),  # weapons of level 3 pass towers
        ((5, 0, 0), (3, 0, 0), (ATTACK, SAVE), [2, 0], [20, 18]),
        ((5, 0, 0), (3, 0, 1), (ATTACK, SAVE), [0, 0], [20, 20]),  # six against five: half a soldier is none
        ((5, 0, 0), (3, 0, 0), (ATTACK, ATTACK), [5, 3], [17, 15]),  # they miss one another
        ((5, 0, 0), (0, 0, 0), (ATTACK, SOLDIERS), [0, 1], [20, 20]),  # bought just in time
        ((5, 0, 0), (0, 0, 0), (ATTACK, TOWERS), [0, 0], [20, 20]),
    ],
)
def test_a_fight_goes_by_strength(own, other, actions, soldiers, bases):
    game = match(own, other)
    game.due()
    game.step([np.array(actions)])
    assert game._has[0, :, 2].tolist() == soldiers
    assert game._base[0].tolist() == bases


def test_what_can_be_paid_is_legal():
    game = match((0, 0, 0), (1, 0, 3))
    (block,) = game.due()
    assert np.flatnonzero(~block.mask[0]).tolist() == [ATTACK]
    assert np.flatnonzero(~block.mask[1]).tolist() == [RESEARCH]
    game._has[0, :, 0] = [0, 2]
    (block,) = game.due()
    assert np.flatnonzero(block.mask[0]).tolist() == [SAVE]
    assert np.flatnonzero(block.mask[1]).tolist() == [SAVE, SOLDIERS, TOWERS, ATTACK, SCOUT]


def test_the_other_seat_is_hidden_until_it_attacks_or_is_scouted():
    games = [match((4, 0, 0), other) for other in ((0, 0, 0), (2, 7, 1))]
    blocks = [game.due()[0] for game in games]
    assert np.array_equal(blocks[0].observation[0], blocks[1].observation[0])
    assert games[0].render(0, 0) == games[1].render(0, 0)
    assert games[0].scene(0, 0) == games[1].scene(0, 0)
    assert games[0].render(0) != games[1].render(0)
    for game in games:
        game.step([np.array([SCOUT, WORKER])])
    seen = [game.due()[0].observation[0] for game in games]
    assert (seen[0][8:14] * [10, 10, 10, 10, 3, ROUNDS]).round().tolist() == [9, 4, 0, 0, 0, 1]
    assert (seen[1][8:14] * [10, 10, 10, 10, 3, ROUNDS]).round().tolist() == [9, 4, 2, 7, 1, 1]
    assert "seat 1: base 20; in round 1 gold 9, workers 4, soldiers 2, towers 7, level 1" in games[1].render(
        0, 0
    )
    games[1].step([np.array([SAVE, ATTACK])])
    assert (games[1].due()[0].observation[0, 14:] * [10, ROUNDS]).round().tolist() == [4, 2]
    assert "attacked with 4 in round 2" in games[1].scene(0, 0).notes


@pytest.mark.parametrize(("better", "worse"), CIRCLE)
def test_the_bots_beat_one_another_in_a_circle_in_either_seat(better, worse):
    bots = [make_bot(name, "rush") for name in (better, worse)]
    assert ((play("rush", bots, 20)[:, 0] + 1) / 2).mean() >= 0.6
    assert ((play("rush", bots[::-1], 20)[:, 1] + 1) / 2).mean() >= 0.6
    assert (play("rush", [bots[0], bots[0]], 2) == 0).all()


def test_levels_end_at_three_and_actions_have_names():
    game = Rush(1)
    assert [game.action_name(0, 0, action) for action in range(7)] == list(ACTIONS)
    assert LEVEL == 4
