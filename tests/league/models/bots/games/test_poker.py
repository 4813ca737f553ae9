"""The equilibrium of Kuhn poker cannot be exploited; the tight bot of Leduc poker gains on random play."""

import itertools

import numpy as np
import pytest

from league.envs import registry
from league.envs.games.kuhn_poker import _ACTION, _CARD, _SEAT, BET, PASS
from league.models.bots.games import KuhnEquilibrium
from league.models.bots.scripted import make_bot

DEALS = list(itertools.permutations(range(3), 2))


def bet_probability(bot, seat, card, taken):
    actions = _ACTION[[*taken, *[-1] * (3 - len(taken))]].ravel()
    observation = np.concatenate([_SEAT[seat], _CARD[card], actions])[None]
    probability = bot.probabilities(observation, np.ones((1, 2), bool))[0]
    assert probability.sum() == pytest.approx(1.0)
    return float(probability[BET])


def value(cards, policies, taken=()):
    """What seat 0 gains on average; a policy gives (seat, card, actions taken) -> probability to bet."""
    if len(taken) > 1 and (taken[-2] == BET or taken[-1] == PASS):
        higher = 1 if cards[0] > cards[1] else -1
        if taken[-2] == PASS:
            return higher
        if taken[-1] == BET:
            return 2 * higher
        return -1 if len(taken) % 2 else 1  # the seat that acted last folded
    seat = len(taken) % 2
    bet = policies[seat](seat, cards[seat], taken)
    return sum(
        p * value(cards, policies, (*taken, action)) for action, p in ((PASS, 1 - bet), (BET, bet)) if p
    )


def best_responses(policy):
    """What a best response to `policy` gains in each seat: of each card, the best of its pure plans."""
    best = [0.0, 0.0]
    for seat, card in itertools.product(range(2), range(3)):
        gains = []
        for plan in itertools.product((0.0, 1.0), repeat=2):

            def pure(seat, card, taken, plan=plan):
                return plan[len(taken) // 2 if seat == 0 else taken[0]]

            policies = (pure, policy) if seat == 0 else (policy, pure)
            gain = sum(value(cards, policies) for cards in DEALS if cards[seat] == card) / len(DEALS)
            gains.append(gain if seat == 0 else -gain)
        best[seat] += max(gains)
    return best


@pytest.mark.parametrize("alpha", [0.0, 1 / 6, 1 / 3])
def test_nobody_gains_more_than_the_games_value_against_the_equilibrium(alpha):
    bot = KuhnEquilibrium(alpha)
    best = best_responses(lambda seat, card, taken: bet_probability(bot, seat, card, taken))
    assert best == pytest.approx([-1 / 18, 1 / 18], abs=1e-6)


def test_whoever_always_bets_is_exploited_in_both_seats():
    assert best_responses(lambda seat, card, taken: 1.0) == pytest.approx([1 / 3, 1 / 3])


def mean_gain(env_id, name, against, num_matches):
    """What `name` gains of `against`, in both seats alike."""
    game, rng = registry.make(env_id, num_matches), np.random.default_rng(0)
    bots = [make_bot(bot, env_id) for bot in (name, against)]
    seat_of = np.arange(num_matches) % 2  # where `name` sits
    game.reset(np.arange(num_matches), np.arange(num_matches))
    gained = np.zeros((num_matches, 2))
    while game.active.any():
        (block,) = game.due()
        actions = np.zeros(len(block), np.int64)
        for bot, rows in zip(
            bots, (block.seat == seat_of[block.slot], block.seat != seat_of[block.slot]), strict=True
        ):
            actions[rows], _ = bot.act(block.observation[rows], block.mask[rows], rng)
        transition = game.step([actions])
        assert not transition.forfeited.any()
        gained += transition.rewards
    return gained[np.arange(num_matches), seat_of].mean()


def test_the_equilibrium_gains_on_random_play():
    assert mean_gain("kuhn_poker", "equilibrium", "random", 20_000) > 0.1


def test_tight_gains_on_random_play_in_leduc():
    assert mean_gain("leduc_poker", "tight", "random", 5_000) > 0.7
