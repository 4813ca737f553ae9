"""Held players come to the equilibria that theory names, in matrix games with exact gradients."""

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import softmax

from tests.league.learning.learner.matrix_games import EXACT, exactly, nash_conv, self_play

GAME = [[0.0, -1.0, 3.0], [1.0, 0.0, -1.0], [-3.0, 1.0, 0.0]]  # rock-paper-scissors with a biased bet
NASH = [0.2, 0.6, 0.2]
UNIFORM = np.full((2, 3), 1 / 3)
LEANING = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
WEIGHT = 0.5


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr("league.learning.maths.losses.EXACT", EXACT, raising=False)


def equilibrium(residual):
    """Return the policies (x, y) at which the residuals of both players vanish, by scipy."""

    def joint(logits):
        x, y = softmax(logits[:3]), softmax(logits[3:])
        payoffs = (np.array(GAME) @ y, -np.array(GAME).T @ x)
        found = np.concatenate(
            [residual(p, u, i) for i, (p, u) in enumerate(zip((x, y), payoffs, strict=True))]
        )
        return found + 1e-3 * np.repeat([logits[:3].mean(), logits[3:].mean()], 3)  # logits have no level

    solved = root(joint, np.zeros(6), tol=1e-12)
    assert solved.success
    return softmax(solved.x[:3]), softmax(solved.x[3:])


def reverse_kl(magnets):
    """pi = softmax(log magnet + u / w): what a player with KL(pi || magnet) taken off would play."""
    return equilibrium(lambda p, u, i: p - softmax(np.log(magnets[i]) + u / WEIGHT))


def forward_kl(magnets):
    """pi (u - mean u) = w (pi - magnet): where the gradient with KL(magnet || pi) taken off vanishes."""
    return equilibrium(lambda p, u, i: p * (u - p @ u) - WEIGHT * (p - magnets[i]))


HOLD = {"kind": "initial", "weight": WEIGHT}


@pytest.mark.slow
@pytest.mark.parametrize("start", [UNIFORM, LEANING], ids=["uniform", "leaning"])
@pytest.mark.parametrize(
    ("settings", "solve"),
    [
        ({"magnet": {**HOLD, "direction": "reverse"}}, reverse_kl),
        ({"magnet": {**HOLD, "direction": "forward"}}, forward_kl),
        ({"magnet": {**HOLD, "through": "reward"}}, reverse_kl),
    ],
    ids=["reverse", "forward", "reward"],
)
def test_a_fixed_magnet_leads_to_its_quantal_response_equilibrium(settings, solve, start):
    players, _ = self_play(GAME, exactly(**settings), steps=250, lr=1.5, starts=start)
    for player, expected in zip(players, solve(start), strict=True):
        np.testing.assert_allclose(player.policy, expected, atol=1e-4)


@pytest.mark.slow
def test_the_entropy_bonus_is_a_uniform_magnet():
    held, _ = self_play(GAME, exactly(magnet=HOLD), steps=250, lr=1.5)
    free, _ = self_play(GAME, exactly(entropy=WEIGHT), steps=250, lr=1.5)
    for a, b, expected in zip(held, free, reverse_kl(UNIFORM), strict=True):
        np.testing.assert_allclose(a.policy, b.policy, atol=1e-5)
        np.testing.assert_allclose(b.policy, expected, atol=1e-4)


MOVING = {"kind": "copy", "every": 10, "weight": WEIGHT}


@pytest.mark.parametrize(
    "magnet",
    [
        MOVING,
        {"kind": "ema", "decay": 0.9, "weight": WEIGHT},
        # as fixed magnets show, these two come to the same
        pytest.param(MOVING | {"through": "reward"}, marks=pytest.mark.variant),
        pytest.param(MOVING | {"direction": "forward"}, marks=pytest.mark.variant),
    ],
    ids=["copy", "ema", "reward", "forward"],
)
@pytest.mark.long
def test_the_last_iterate_of_a_moving_magnet_comes_to_the_nash_equilibrium(magnet):
    players, _ = self_play(GAME, exactly(magnet=magnet), steps=700, lr=1.0, starts=LEANING)
    for player in players:
        np.testing.assert_allclose(player.policy, NASH, atol=1e-3)


@pytest.mark.long
def test_without_a_magnet_self_play_circles_and_never_comes_closer():
    _, policies = self_play(GAME, exactly(), steps=500, lr=0.3, starts=LEANING)
    found = [nash_conv(GAME, x, y) for x, y in policies]
    assert min(found[-200:]) > 0.5
    assert len(set(policies[-400:, 0].argmax(1))) == 3  # each action is the favourite at some time
