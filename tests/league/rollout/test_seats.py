"""What an actor wants kept of a seat is kept for that seat alone, from a match's beginning to its end."""

import numpy as np
import pytest
import torch

from league.envs import registry
from league.models.actor import Actor, Chosen, Look
from league.models.bots.scripted import make_bot
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.seats import Seats


class Counts(Actor):
    """Remembers how often a seat decided and what it earned in all; writes down what it is told."""

    memory_size = 2
    wants_reward = True

    def __init__(self):
        self.told = []

    def decide(self, look, rng, temperature=1.0):
        look.memory[:, 0] += 1
        look.memory[:, 1] += look.reward
        self.told.append((look.memory.copy(), look.reward.copy(), temperature))
        action = np.zeros(len(look), np.int64)
        return Chosen(action, np.zeros(len(look), np.float32), -look.observation, action)

    def see(self, observation, memory=None, reward=None):
        return memory + reward[:, None]


class Wide(Counts):
    memory_size = 5


class Plain(Actor):
    """Keeps nothing; refuses to be given anything."""

    def decide(self, look, rng, temperature=1.0):
        assert look.memory is None
        assert look.reward is None
        action = look.mask.argmax(axis=1)
        return Chosen(action, np.zeros(len(action), np.float32), look.observation, action)


@pytest.fixture
def game():
    """Rock-paper-scissors: both seats decide at every step."""
    game = registry.make("rock_paper_scissors", 3, rounds=50)
    game.reset(np.arange(3), np.arange(3))
    return game


RNG = np.random.default_rng(0)


def test_every_seat_of_every_slot_has_a_memory_of_its_own(game):
    counts, plain = Counts(), Plain()
    seats = Seats(game, [counts, plain], [0.5, 1.0], {0})
    seats.begin(np.arange(3), np.array([[0, 1], [1, 0], [0, 0]]))
    (block,) = game.due()
    for step in range(3):
        action, [(who, taken)], *_ = seats.decide(block, RNG)
        assert who == 0
        assert action.tolist() == [0] * 6
        assert list(zip(taken.slot, taken.seat, strict=True)) == [(0, 0), (1, 1), (2, 0), (2, 1)]
        np.testing.assert_array_equal(taken.chosen.seen, -block.observation[[0, 3, 4, 5]])
        np.testing.assert_array_equal(taken.mask, block.mask[[0, 3, 4, 5]])
        memory, _, temperature = counts.told[-1]
        assert temperature == 0.5
        assert memory[:, 0].tolist() == [step + 1] * 4
        seats.rewarded(np.array([[1, 90], [90, 2], [4, 8]], np.float32))
    assert counts.told[0][1].tolist() == [0, 0, 0, 0]
    assert counts.told[2][1].tolist() == [1, 2, 4, 8]
    assert counts.told[2][0][:, 1].tolist() == [2, 4, 8, 16]


def test_rewards_gather_until_the_seat_decides_again(game):
    counts = Counts()
    seats = Seats(game, [counts], [1.0])
    seats.begin(np.arange(3), np.zeros((3, 2), int))
    for amount in (1, 10):
        seats.rewarded(np.full((3, 2), amount, np.float32))
    (block,) = game.due()
    _, taken, *_ = seats.decide(block, RNG)
    assert taken == []  # nobody learns
    assert counts.told[0][1].tolist() == [11] * 6
    seats.decide(block, RNG)
    assert counts.told[1][1].tolist() == [0] * 6


def test_a_new_match_begins_with_nothing_while_the_others_go_on(game):
    counts = Counts()
    seats = Seats(game, [counts], [1.0])
    seats.begin(np.arange(3), np.zeros((3, 2), int))
    (block,) = game.due()
    seats.decide(block, RNG)
    seats.rewarded(np.ones((3, 2), np.float32))
    seats.begin(np.array([1]), np.zeros((1, 2), int))
    seats.decide(block, RNG)
    memory, reward, _ = counts.told[-1]
    assert memory[:, 0].tolist() == [2, 2, 1, 1, 2, 2]
    assert reward.tolist() == [1, 1, 0, 0, 1, 1]


def test_actors_with_memories_of_different_sizes_sit_side_by_side(game):
    narrow, wide = Counts(), Wide()
    seats = Seats(game, [narrow, wide], [1.0, 1.0])
    seats.begin(np.arange(3), np.array([[0, 1]] * 3))
    (block,) = game.due()
    for _ in range(2):
        seats.decide(block, RNG)
    assert narrow.told[-1][0].shape == (3, 2)
    assert wide.told[-1][0].shape == (3, 5)
    assert wide.told[-1][0].tolist() == [[2, 0, 0, 0, 0]] * 3


def test_looking_through_the_learners_eyes_changes_nothing(game):
    counts = Counts()
    seats = Seats(game, [counts], [1.0], {0})
    seats.begin(np.arange(3), np.zeros((3, 2), int))
    (block,) = game.due()
    seats.decide(block, RNG)
    seats.rewarded(np.full((3, 2), 5, np.float32))
    for _ in range(2):
        seen = seats.shown_to(0, np.array([2, 0]), np.array([1, 0]))
        assert seen.tolist() == [[6, 5], [6, 5]]
    seats.decide(block, RNG)
    assert counts.told[-1][0].tolist() == [[2, 5]] * 6


def test_where_nobody_remembers_nothing_is_kept(game):
    seats = Seats(game, [Plain()], [1.0], {0})
    seats.begin(np.arange(3), np.zeros((3, 2), int))
    seats.rewarded(np.ones((3, 2), np.float32))
    (block,) = game.due()
    action, [(_, taken)], *_ = seats.decide(block, RNG)
    assert action.tolist() == [0] * 6
    assert len(taken.slot) == 6
    assert seats._memory.size == 0
    assert not seats._reward.any()


def test_each_of_several_learners_is_handed_its_own_decisions(game):
    seats = Seats(game, [Plain(), Counts(), Counts()], [1.0] * 3, {0, 2})
    seats.begin(np.arange(3), np.array([[0, 1], [2, 0], [1, 2]]))
    (block,) = game.due()
    _, taken, *_ = seats.decide(block, RNG)
    assert [who for who, _ in taken] == [0, 2]
    assert [list(zip(t.slot, t.seat, strict=True)) for _, t in taken] == [[(0, 0), (1, 1)], [(1, 0), (2, 1)]]


class Searches(Plain):
    """Looks into the match itself."""

    wants_game = True

    def decide(self, look, rng, temperature=1.0):
        self.asked = look.places.game, look.places.slot.tolist(), look.places.seat.tolist()
        return super().decide(look, rng, temperature)


def test_an_actor_that_searches_is_shown_the_matches_it_decides_in(game):
    searches = Searches()
    seats = Seats(game, [Plain(), searches], [1.0, 1.0])
    seats.begin(np.arange(3), np.array([[0, 1], [0, 0], [1, 1]]))
    (block,) = game.due()
    seats.decide(block, RNG)
    assert searches.asked == (game, [0, 2, 2], [1, 0, 1])


def test_policies_of_different_networks_and_bots_sit_at_one_table(game):
    """Whoever decides together with others gets its own rows, in whatever order the actors are named."""
    narrow, wide = (PolicySpec.for_game(PolicySettings(hidden=(width,)), game) for width in (4, 8))
    actors = [
        policy if isinstance(policy, Actor) else Policy(policy, initial_weights(policy, seed))
        for seed, policy in enumerate([narrow, wide, Plain(), narrow, wide, narrow])
    ]
    seats = Seats(game, actors, [0.0] * 5 + [1.0], {3, 4})
    sitting = np.array([[5, 4], [3, 2], [1, 0]])
    seats.begin(np.arange(3), sitting)
    (block,) = game.due()
    action, taken, *_ = seats.decide(block, RNG)
    for row, who in enumerate(sitting.ravel().tolist()):
        if who != 5:  # draws
            alone = actors[who].decide(Look(block.observation[[row]], block.mask[[row]]), RNG, 0.0)
            assert action[row] == alone.action[0]
    assert [who for who, _ in taken] == [3, 4]
    for who, own in taken:
        row = sitting.ravel().tolist().index(who)
        assert (own.slot.tolist(), own.seat.tolist()) == ([row // 2], [row % 2])
        alone = actors[who].decide(Look(block.observation[[row]], block.mask[[row]]), RNG, 0.0)
        np.testing.assert_allclose(own.chosen.log_prob, alone.log_prob, atol=1e-6)
        np.testing.assert_array_equal(own.chosen.seen, block.observation[[row]])


def test_one_policy_plays_in_several_modes_at_one_table():
    game = registry.make("rock_paper_scissors", 600, rounds=50)
    game.reset(np.arange(600), np.arange(600))
    spec = PolicySpec.for_game(PolicySettings(hidden=(8,)), game)
    policy = Policy(spec, initial_weights(spec, 0) | {"policy_head.bias": torch.tensor([0.0, 1.0, 0.5])})
    temperatures = [1.0, 0.0, 0.5]
    seats = Seats(game, [policy] * 3, temperatures)
    sitting = np.array([[0, 1], [1, 2], [2, 0]] * 200)
    seats.begin(np.arange(600), sitting)
    (block,) = game.due()
    probability, _ = policy.evaluate(block.observation[:1], block.mask[:1])
    action, _, certain, _ = seats.decide(block, np.random.default_rng(0))
    who = sitting.ravel()
    np.testing.assert_array_equal(certain, who == 1)
    assert set(action[who == 1].tolist()) == {int(probability.argmax())}
    for mode in (0, 2):
        share = np.bincount(action[who == mode], minlength=3) / 400
        odds = probability[0] ** (1 / temperatures[mode])
        # four standard deviations of a share
        np.testing.assert_allclose(share, odds / odds.sum(), atol=4 * np.sqrt(0.25 / 400))


def test_certain_is_who_could_not_have_done_otherwise_in_the_order_of_the_block(game):
    class Coin(Plain):
        def decide(self, look, rng, temperature=1.0):
            chosen = super().decide(look, rng, temperature)
            return chosen._replace(certain=np.arange(len(look)) % 2 == 1)

    seats = Seats(game, [Plain(), Coin(), make_bot("rock", "rock_paper_scissors")], [0.0, 1.0, 1.0])
    seats.begin(np.arange(3), np.array([[2, 1], [0, 2], [1, 0]]))
    (block,) = game.due()
    # rock always; Plain does not say; of the coin's two decisions the second
    assert seats.decide(block, RNG).certain.tolist() == [True, False, False, True, True, False]
