"""Tron against plain rules, deaths worked out by hand, and seats that are alike."""

import numpy as np
import pytest

from league.envs import registry
from league.envs.games.tron import AHEAD, BOARD, DIRECTIONS, HEAD, LEFT, RIGHT, SIZE, Tron

STEPS = [(-1, 0), (0, 1), (1, 0), (0, -1)]  # up, right, down, left
WORTH = [1, 1 / 3, -1 / 3, -1]  # by place


class Reference:
    """Cells (row, column) of walls and heads, in sets and lists."""

    def __init__(self, game, slot):
        where = BOARD.ravel().tolist()
        self.heads = [divmod(where.index(place), SIZE) for place in game._place[slot].tolist()]
        self.facing = game._facing[slot].tolist()
        self.walls, self.alive = set(), [0, 1, 2, 3]
        self.returns = [0.0] * 4

    def blocked(self, cell):
        inside = 0 <= cell[0] < SIZE and 0 <= cell[1] < SIZE
        return not inside or cell in self.walls or cell in (self.heads[s] for s in self.alive)

    def observation(self, seat):
        (row, column), (ahead, right) = self.heads[seat], [STEPS[(self.facing[seat] + i) % 4] for i in (0, 1)]
        blocked, heads = [], []
        for forward in range(7, -8, -1):
            for aside in range(-7, 8):
                cell = tuple(
                    x + forward * a + aside * r for x, a, r in zip((row, column), ahead, right, strict=True)
                )
                blocked.append(int(self.blocked(cell)))
                heads.append(int(cell in (self.heads[s] for s in self.alive)))
        return np.array(blocked + heads).reshape(2, 15, 15).tolist()

    def play(self, actions):
        """Actions by living seat. The rewards of all four, and whether the match is over."""
        target = {}
        for seat, action in actions.items():
            self.facing[seat] = (self.facing[seat] + (action == RIGHT) - (action == LEFT)) % 4
            target[seat] = tuple(np.add(self.heads[seat], STEPS[self.facing[seat]]).tolist())
        dead = [s for s in target if self.blocked(target[s]) or list(target.values()).count(target[s]) > 1]
        for seat, cell in target.items():
            self.walls.add(self.heads[seat])
            if seat not in dead:
                self.heads[seat] = cell
        self.alive = [s for s in self.alive if s not in dead]
        places = range(len(self.alive), len(self.alive) + len(dead))
        rewards = [0.0] * 4
        for seat in dead:
            rewards[seat] = sum(WORTH[place] for place in places) / len(dead)
        over = len(self.alive) < 2
        if over and self.alive:
            rewards[self.alive[0]] = 1.0
        self.returns = [x + y for x, y in zip(self.returns, rewards, strict=True)]
        return rewards, over


@pytest.mark.slow
def test_random_play_agrees_with_plain_rules():
    game, rng = Tron(64), np.random.default_rng(0)
    game.reset(np.arange(64), np.arange(64))
    matches = {slot: Reference(game, slot) for slot in range(64)}
    while matches:
        (block,) = game.due()
        pairs = list(zip(block.slot.tolist(), block.seat.tolist(), strict=True))
        assert pairs == [(slot, seat) for slot, match in matches.items() for seat in match.alive]
        actions = rng.integers(0, 3, len(block))
        for row in rng.integers(0, len(block), 20):
            slot, seat = pairs[row]
            assert block.observation[row].tolist() == matches[slot].observation(seat)
        transition = game.step([actions])
        for slot in list(matches):
            taken = {seat: int(a) for (at, seat), a in zip(pairs, actions, strict=True) if at == slot}
            rewards, over = matches[slot].play(taken)
            assert transition.rewards[slot].tolist() == pytest.approx(rewards)
            assert over == (slot in transition.ended)
            if over:
                assert sum(matches.pop(slot).returns) == pytest.approx(0)


def place(heads, walls=()):
    """A match with heads at (row, column, direction), None for the dead, and walls of seat 0."""
    game = Tron(1)
    game.reset(np.array([0]), np.array([0]))
    game._field[0, BOARD] = 0
    for row, column in walls:
        game._field[0, BOARD[row, column]] = 1
    for seat, head in enumerate(heads):
        game._lives[0, seat] = head is not None
        if head is not None:
            row, column, direction = head
            game._place[0, seat] = BOARD[row, column]
            game._facing[0, seat] = DIRECTIONS.index(direction)
            game._field[0, BOARD[row, column]] = HEAD + seat
    return game


FAR = [(0, 0, "right"), (0, 7, "down"), (7, 7, "left"), (7, 0, "up")]  # the four corners


@pytest.mark.parametrize(
    ("heads", "walls", "actions", "rewards"),
    [
        (FAR, [], [LEFT, AHEAD, AHEAD, AHEAD], [-1, 0, 0, 0]),  # over the edge
        (FAR, [(0, 1)], [AHEAD, AHEAD, AHEAD, AHEAD], [-1, 0, 0, 0]),  # into a wall
        ([(3, 3, "right"), (3, 4, "left"), *FAR[2:]], [], [AHEAD] * 4, [-2 / 3, -2 / 3, 0, 0]),  # head on
        ([(3, 3, "right"), (3, 5, "left"), *FAR[2:]], [], [AHEAD] * 4, [-2 / 3, -2 / 3, 0, 0]),  # one cell
        ([(3, 3, "up"), (3, 2, "right"), *FAR[2:]], [], [AHEAD] * 4, [0, -1, 0, 0]),  # where a head was
        (FAR, [(0, 1), (1, 7), (7, 6)], [AHEAD] * 4, [-1 / 3, -1 / 3, -1 / 3, 1]),  # three at once
        (FAR, [(0, 1), (1, 7), (7, 6), (6, 0)], [AHEAD] * 4, [0, 0, 0, 0]),  # all at once
        ([FAR[0], None, FAR[2], None], [(0, 1)], [AHEAD] * 2, [1 / 3, 0, 1, 0]),  # the last but one
        ([FAR[0], None, FAR[2], None], [(0, 1), (7, 6)], [AHEAD] * 2, [2 / 3, 0, 2 / 3, 0]),
    ],
)
def test_who_dies_is_paid_by_how_many_live_longer(heads, walls, actions, rewards):
    game = place(heads, walls)
    (block,) = game.due()
    assert len(block) == len(actions)
    transition = game.step([np.array(actions)])
    assert transition.rewards[0].tolist() == pytest.approx(rewards)
    over = game._lives[0].sum() < 2
    assert transition.ended.tolist() == ([0] if over else [])


def test_the_dead_do_not_act_and_were_not_cut_short():
    game = place([*FAR[:3], None])
    (block,) = game.due()
    assert block.seat.tolist() == [0, 1, 2]
    seats = np.arange(4)
    assert game.was_cut(np.zeros(4, dtype=np.int64), seats).tolist() == [True, True, True, False]


def test_at_the_start_all_seats_see_the_same_and_starts_are_many():
    game = Tron(2000)
    game.reset(np.arange(2000), np.arange(2000))
    (block,) = game.due()
    seen = block.observation.reshape(2000, 4, -1)
    assert (seen == seen[:, :1]).all()
    assert len(np.unique(seen[:, 0], axis=0)) == 64  # 16 cells of a quarter, 4 directions
    assert (seen[:, 0].reshape(-1, 2, 15, 15)[:, 1, 7, 7] == 1).all()  # the own head, in the middle


@pytest.mark.slow
def test_no_seat_is_better_than_another_and_matches_end_before_the_board_is_full():
    num_matches = 6000
    game, rng = Tron(num_matches), np.random.default_rng(1)
    game.reset(np.arange(num_matches), np.arange(num_matches))
    returns = np.zeros((num_matches, 4))
    while game.active.any():
        (block,) = game.due()
        returns += game.step([rng.integers(0, 3, len(block))]).rewards
    assert game.env_steps.max() <= SIZE * SIZE
    assert np.abs(returns.mean(axis=0)).max() < 4 * returns.std() / np.sqrt(num_matches)
    assert np.abs(returns.sum(axis=1)).max() < 1e-5


def test_two_seats_begin_half_a_turn_apart_and_one_wins():
    game, rng = registry.make("tron", 1000, seats=2), np.random.default_rng(0)
    game.reset(np.arange(1000), np.arange(1000))
    seen = game.due()[0].observation.reshape(1000, 2, -1)
    assert (seen[:, 0] == seen[:, 1]).all()
    assert len(np.unique(seen[:, 0], axis=0)) == 64
    ended, returns = 0, np.zeros((1000, 2))
    while game.active.any():
        (block,) = game.due()
        transition = game.step([rng.integers(0, 3, len(block))])
        returns += transition.rewards
        ended += len(transition.ended)
    assert ended == 1000
    assert {tuple(pair) for pair in returns.tolist()} == {(1, -1), (-1, 1), (0, 0)}
    with pytest.raises(registry.BadOption, match="seats is 3, expected 2 or 4"):
        registry.make("tron", 1, seats=3)


def test_a_match_reads_as_a_board_and_moves_as_directions_on_it():
    game = place([(0, 0, "right"), (3, 3, "up"), (7, 7, "left"), None], walls=[(1, 1)])
    rows = [
        "→0  .  .  .  .  .  .  .",
        " .  0  .  .  .  .  .  .",
        " .  .  .  .  .  .  .  .",
        " .  .  . ↑1  .  .  .  .",
        " .  .  .  .  .  .  .  .",
        " .  .  .  .  .  .  .  .",
        " .  .  .  .  .  .  .  .",
        " .  .  .  .  .  .  . ←2",
    ]
    assert game.render(0).splitlines() == rows
    assert game.render(0, 2) == game.render(0, 1) == game.render(0)
    names = [[game.action_name(0, seat, action) for action in range(3)] for seat in range(3)]
    assert names == [["up", "right", "down"], ["left", "up", "right"], ["down", "left", "up"]]
