"""Whist against plain rules, tricks worked out by hand, and what no seat may see."""

import numpy as np
import pytest

from league.envs.games.whist import CARDS, Whist, name_of

TABLE = [0, 2, 1, 3]  # the seats, clockwise
FIFTH = float(np.float32(0.2))
CARD = {name_of(card): card for card in range(CARDS)}


class Reference:
    """Hands as lists of names such as ♥K, and the trick as a list of who played what."""

    def __init__(self, game, slot):
        self.hands = [[name_of(c) for c in np.flatnonzero(game._card[slot] == s)] for s in range(4)]
        assert [len(hand) for hand in self.hands] == [5] * 4
        self.turn = int(game._mover[slot])
        self.trick, self.gone = [], {}
        self.void = [set() for _ in range(4)]
        self.tricks = [0, 0]

    def mover(self):
        return self.turn

    def mask(self):
        hand = self.hands[self.turn]
        if self.trick and any(card[0] == self.trick[0][1][0] for card in hand):
            hand = [card for card in hand if card[0] == self.trick[0][1][0]]
        return [name in hand for name in CARD]

    def observation(self, seat):
        at = TABLE.index(seat)
        around = [TABLE[(at + step) % 4] for step in range(4)]
        seen = []
        for name in CARD:
            seen.append(name in self.hands[seat])
            seen += [(other, name) in self.trick for other in around[1:]]
            seen += [self.gone.get(name) == other for other in around]
        seen += [bool(self.trick) and self.trick[0][1][0] == suit for suit in "♠♥♦♣"]
        seen += [suit in self.void[other] for other in around[1:] for suit in "♠♥♦♣"]
        return [int(x) for x in seen] + [self.tricks[seat // 2], self.tricks[1 - seat // 2]]

    def play(self, action):
        name = name_of(action)
        self.hands[self.turn].remove(name)
        self.trick.append((self.turn, name))
        led = self.trick[0][1][0]
        if name[0] != led:
            self.void[self.turn].add(led)
        self.turn = TABLE[(TABLE.index(self.turn) + 1) % 4]
        if len(self.trick) < 4:
            return [0, 0, 0, 0], False
        trumps = [(seat, card) for seat, card in self.trick if card[0] == "♠"]
        fitting = trumps or [(seat, card) for seat, card in self.trick if card[0] == led]
        self.turn, _ = max(fitting, key=lambda play: "TJQKA".index(play[1][1]))
        self.gone |= {card: seat for seat, card in self.trick}
        self.trick = []
        side = self.turn // 2
        self.tricks[side] += 1
        return [FIFTH if seat // 2 == side else -FIFTH for seat in range(4)], len(self.gone) == 20


@pytest.mark.slow
def test_random_play_agrees_with_plain_rules():
    game, rng, slots = Whist(100), np.random.default_rng(0), np.arange(100)
    game.reset(slots, slots)
    matches = [Reference(game, slot) for slot in slots]
    for played in range(20):
        (block,) = game.due()
        for row, match in enumerate(matches):
            assert block.seat[row] == match.mover()
            assert block.mask[row].tolist() == match.mask()
        for seat in range(4):
            seen = game.observe(slots, np.full(100, seat))
            assert seen.tolist() == [match.observation(seat) for match in matches]
        actions = (rng.random(block.mask.shape) * block.mask).argmax(axis=1)
        expected = [match.play(action) for match, action in zip(matches, actions.tolist(), strict=True)]
        transition = game.step([actions])
        assert transition.rewards.tolist() == [rewards for rewards, _ in expected]
        assert [over for _, over in expected] == [played == 19] * 100
    assert transition.ended.tolist() == slots.tolist()


def deal(hands, leader):
    """A match in which seats hold these cards, such as "♠A ♥T ♥J ♦Q ♦K", and `leader` leads."""
    game = Whist(1)
    game.reset(np.array([0]), np.array([0]))
    for seat, hand in enumerate(hands):
        game._card[0, [CARD[name] for name in hand.split()]] = seat
    game._mover[0] = leader
    return game


def play(game, cards):
    """Play these cards in turn; who did, and the rewards of the last step."""
    seats = []
    for name in cards.split():
        (block,) = game.due()
        seats.append(int(block.seat[0]))
        assert block.mask[0, CARD[name]], f"{name} is not legal"
        rewards = game.step([np.array([CARD[name]])]).rewards[0]
    return seats, rewards.tolist()


HANDS = ["♠A ♥T ♥J ♦Q ♦K", "♠T ♥Q ♥K ♦T ♦J", "♠J ♠Q ♠K ♣T ♣J", "♥A ♦A ♣Q ♣K ♣A"]


@pytest.mark.parametrize(
    ("leader", "cards", "taker"),
    [
        (0, "♥T ♠J ♥Q ♥A", 2),  # the only trump
        (0, "♥T ♠J ♥K ♥A", 2),
        (1, "♥Q ♥A ♥T ♠Q", 2),
        (3, "♥A ♥T ♣T ♥Q", 3),  # clubs neither follow nor trump
        (0, "♦Q ♣T ♦T ♦A", 3),
        (2, "♣T ♠T ♣A ♠A", 0),  # a trump beats a lower trump
        (0, "♠A ♠K ♠T ♣Q", 0),
    ],
)
def test_a_trick_goes_to_the_highest_trump_or_else_to_the_highest_of_its_suit(leader, cards, taker):
    game = deal(HANDS, leader)
    seats, rewards = play(game, cards)
    at = TABLE.index(leader)
    assert seats == [TABLE[(at + step) % 4] for step in range(4)]
    assert rewards == [FIFTH if seat // 2 == taker // 2 else -FIFTH for seat in range(4)]
    (block,) = game.due()
    assert block.seat.tolist() == [taker]


def test_who_has_the_suit_that_was_led_must_follow_and_who_has_not_may_play_anything():
    game = deal(HANDS, 0)
    legal = []
    for name in ("♥T", "♠J", "♥Q", "♥A"):
        (block,) = game.due()
        legal.append({name_of(card) for card in np.flatnonzero(block.mask[0])})
        game.step([np.array([CARD[name]])])
    assert legal == [set(HANDS[0].split()), set(HANDS[2].split()), {"♥Q", "♥K"}, {"♥A"}]


def test_every_match_has_twenty_decisions_and_partners_share_what_happens():
    num_matches = 4000
    game, rng = Whist(num_matches), np.random.default_rng(0)
    game.reset(np.arange(num_matches), np.arange(num_matches))
    returns = np.zeros((num_matches, 4))
    for _ in range(20):
        assert game.active.all()
        (block,) = game.due()
        returns += game.step([(rng.random(block.mask.shape) * block.mask).argmax(1)]).rewards
    assert not game.active.any()
    assert (returns[:, 0] == returns[:, 1]).all()
    assert (returns[:, :2] == -returns[:, 2:]).all()
    assert np.unique(np.rint(5 * returns)).tolist() == [-5, -3, -1, 1, 3, 5]
    assert abs(returns[:, 0].mean()) < 4 * returns[:, 0].std() / np.sqrt(num_matches)


def test_deals_and_leaders_are_uniform_over_seeds():
    num_seeds = 20_000
    game = Whist(num_seeds)
    game.reset(np.arange(num_seeds), np.arange(num_seeds))
    expected, margin = num_seeds / 4, 4 * np.sqrt(num_seeds * 3 / 16)
    for seat in range(4):
        assert np.abs((game._card == seat).sum(axis=0) - expected).max() < margin
        assert abs((game._mover == seat).sum() - expected) < margin


def test_what_a_seat_sees_and_reads_is_the_same_whatever_the_others_hold():
    played = "♥T ♠J ♥Q ♥A ♠Q ♠T"
    swapped = ["♠A ♥T ♥J ♦Q ♦K", "♠T ♥Q ♦A ♣K ♦J", "♠J ♠Q ♠K ♣Q ♣T", "♥A ♥K ♦T ♣J ♣A"]
    one, other = deal(HANDS, 0), deal(swapped, 0)
    play(one, played)
    play(other, played)
    place = np.array([0]), np.array([0])
    assert (one.observe(*place) == other.observe(*place)).all()
    assert one.render(0, 0) == other.render(0, 0)
    assert one.render(0) != other.render(0)


def test_the_partner_of_who_forfeits_loses_with_it_but_did_not_forfeit():
    game = deal(HANDS, 0)
    play(game, "♥T ♠J ♥Q ♥A")
    game.due()
    transition = game.step([np.array([CARD["♠A"]])])  # which is seat 0's
    assert transition.forfeited.tolist() == [[False, False, True, False]]
    total = transition.rewards[0] + np.float32([-FIFTH, -FIFTH, FIFTH, FIFTH])
    assert total.tolist() == pytest.approx([1.0, 1.0, -1.0, -1.0])


def test_a_match_reads_as_at_a_table():
    game = deal(HANDS, 0)
    play(game, "♥T ♠J ♥Q ♥A ♣T")
    assert game.render(0, 1).splitlines() == [
        "tricks  0 of seats 0 and 1, 1 of seats 2 and 3; trumps are ♠",
        "gone    ♠J ♥TQA",
        "table   ♣T (seat 2)",
        "seat 1  ♠T ♥K ♦TJ to play",
    ]
    assert game.render(0).splitlines()[3:] == [
        "seat 0  ♠A ♥J ♦QK",
        "seat 1  ♠T ♥K ♦TJ to play",
        "seat 2  ♠QK ♣J",
        "seat 3  ♦A ♣QKA",
    ]
    assert game.action_name(0, 1, CARD["♥K"]) == "♥K"
    play(game, "♠T ♣A")
    assert "table   ♣T (seat 2), ♠T (seat 1), ♣A (seat 3)" in game.render(0, 0)
