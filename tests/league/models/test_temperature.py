"""At temperature T probabilities are drawn to the power of 1 / T, deviations times T; at 0 nothing is."""

import itertools

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from league.envs.spaces import ActionSpec
from league.models.actor import Look
from league.models.bots.bot import MixedPolicy, RandomBot, ScriptedPolicy
from league.models.networks.distributions import distribution

torch.set_num_threads(1)

CHOICE = ActionSpec("discrete", (5,))
EQUAL = ActionSpec("multi_discrete", (3, 3, 3))
MIXED = ActionSpec("multi_discrete", (2, 4))
NUMBERS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
KINDS = [CHOICE, EQUAL, MIXED, NUMBERS]
TEMPERATURES = [0.05, 0.5, 1.0, 7.0]
FOUR_SIGMA = 4 * 0.5  # of a share, times the root of how many were drawn


class Prefers(MixedPolicy):
    """The same probabilities everywhere."""

    def __init__(self, *probabilities):
        self._probabilities = np.array(probabilities, np.float32)

    def probabilities(self, observation, mask):
        return np.repeat(self._probabilities[None], len(mask), axis=0)


class Either(ScriptedPolicy):
    """The first two actions are the same to it."""

    def preferred(self, observation, mask):
        return np.tile(np.arange(mask.shape[1]) < 2, (len(mask), 1))


def parameters_of(action, n):
    """Parameters of one row, n times, and masks with an illegal choice where there are more than two."""
    d, rng = distribution(action), np.random.default_rng(0)
    row = torch.from_numpy(rng.standard_normal(d.num_parameters).astype(np.float32))
    starts = np.cumsum((0, *action.sizes[:-1])) if action.sizes else []
    mask = np.ones((n, action.mask_width), bool)
    for start, size in zip(starts, action.sizes, strict=False):
        mask[:, start + 1] = size < 3
    return d, row.repeat(n, 1), mask


def tempered(action, row, mask, temperature):
    """Of each choice the log-probabilities in float64, by the definition."""
    ends = np.cumsum((0, *action.sizes))
    for start, end in itertools.pairwise(ends):
        log_p = scipy.special.log_softmax(np.where(mask, row.astype(np.float64), -np.inf)[start:end])
        yield log_p / temperature - scipy.special.logsumexp(log_p / temperature)


def decide(bot, n, temperature):
    seen, mask = np.zeros((n, 1), np.int8), np.ones((n, 4), bool)
    return bot.decide(Look(seen, mask), np.random.default_rng(0), temperature)


# ---------------------------------------------------------------------- what is drawn


@pytest.mark.parametrize("action", [CHOICE, EQUAL, MIXED])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_choices_come_as_often_as_their_probabilities_to_the_power_say(action, temperature):
    n = 20_000
    d, parameters, mask = parameters_of(action, n)
    row = parameters[0].numpy().copy()
    raw, log_prob = d.sample(parameters, mask, np.random.default_rng(1), temperature)
    raw, recorded = raw.reshape(n, -1), np.zeros(n)
    for k, log_p in enumerate(tempered(action, row, mask[0], temperature)):
        seen = np.bincount(raw[:, k], minlength=len(log_p)) / n
        np.testing.assert_allclose(seen, np.exp(log_p), atol=FOUR_SIGMA / np.sqrt(n))
        recorded += log_p[raw[:, k]]
    np.testing.assert_allclose(log_prob, recorded, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_real_numbers_have_their_mean_and_the_temperature_times_their_deviation(temperature):
    n, d = 20_000, distribution(NUMBERS)
    parameters = torch.tensor([[0.5, -3.0, np.log(0.2), np.log(2.0)]]).repeat(n, 1)
    raw, log_prob = d.sample(parameters, np.ones((n, 0), bool), np.random.default_rng(0), temperature)
    means, deviations = (0.5, -3.0), (0.2 * temperature, 2.0 * temperature)
    for k in range(2):
        assert scipy.stats.kstest(raw[:, k], "norm", (means[k], deviations[k])).pvalue > 1e-3
    expected = scipy.stats.norm.logpdf(raw.astype(np.float64), means, deviations).sum(1)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_bot_that_knows_its_probabilities_draws_them_to_the_power(temperature):
    n, log_p = 20_000, np.log([0.1, 0.6, 0.3])
    chosen = decide(Prefers(0.1, 0.6, 0.0, 0.3), n, temperature)
    expected = np.insert(np.exp(scipy.special.log_softmax(log_p / temperature)), 2, 0.0)
    assert not (chosen.action == 2).any()
    seen = np.bincount(chosen.action, minlength=4) / n
    np.testing.assert_allclose(seen, expected, atol=FOUR_SIGMA / np.sqrt(n))
    np.testing.assert_allclose(np.exp(chosen.log_prob), expected[chosen.action], rtol=1e-4)


def test_a_bot_to_which_some_actions_are_the_same_draws_alike_at_all_temperatures():
    draws = [decide(Either(), 1000, temperature) for temperature in (0.0, 0.5, 1.0, 3.0)]
    assert set(draws[0].action.tolist()) == {0, 1}
    assert all(chosen.action.tolist() == draws[0].action.tolist() for chosen in draws)
    assert all(chosen.log_prob == pytest.approx(np.log(1 / 2)) for chosen in draws)


# ---------------------------------------------------------------------- 1 and 0


def test_at_one_what_is_drawn_is_what_was_drawn_before_there_were_temperatures():
    """Recorded with the version before: a run from a seed stays the same for ever."""
    rng = np.random.default_rng
    raw, _ = distribution(CHOICE).sample(
        torch.linspace(-1, 1, 5).repeat(12, 1), np.ones((12, 5), bool), rng(7), 1.0
    )
    assert raw.tolist() == [4, 3, 3, 3, 3, 0, 3, 2, 3, 0, 2, 4]
    raw, _ = distribution(EQUAL).sample(
        torch.linspace(-1, 1, 9).repeat(6, 1), np.ones((6, 9), bool), rng(7), 1.0
    )
    assert raw.tolist() == [[2, 2, 2], [0, 1, 1], [0, 2, 1], [2, 1, 0], [1, 0, 1], [0, 2, 1]]
    raw, log_prob = distribution(NUMBERS).sample(
        torch.tensor([[0.5, -3.0, -1.0, 0.5]]).repeat(2, 1), np.ones((2, 0), bool), rng(7), 1.0
    )
    expected = [[1.0599012, -4.8863115], [0.9231208, -5.9423957]]
    np.testing.assert_allclose(raw, expected, rtol=1e-6)
    np.testing.assert_allclose(log_prob, [-3.1505613, -3.5918064], rtol=1e-6)


@pytest.mark.parametrize("action", KINDS)
def test_at_zero_the_generator_is_not_asked(action):
    d, parameters, mask = parameters_of(action, 50)
    rng = np.random.default_rng(4)
    first, _ = d.sample(parameters.clone(), mask, rng, 0.0)
    assert rng.random() == np.random.default_rng(4).random()
    assert (first == first[0]).all()


@pytest.mark.parametrize("action", [CHOICE, EQUAL, MIXED])
def test_the_lower_the_temperature_the_nearer_to_the_likeliest(action):
    """Gaps between logits are 1 at least: at 0.02, what is not likeliest has a chance of e^-50."""
    d, rng = distribution(action), np.random.default_rng(0)
    logits = np.argsort(rng.random((500, d.num_parameters))).astype(np.float32)
    mask = np.ones_like(logits, dtype=bool)
    likeliest, _ = d.sample(torch.tensor(logits), mask, rng, 0.0)
    shares = [
        (d.sample(torch.tensor(logits), mask, rng, temperature)[0] == likeliest).mean()
        for temperature in (50.0, 2.0, 0.5, 0.02)
    ]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_lowest_temperatures_leave_a_bot_its_likeliest_action():
    chosen = decide(Prefers(1e-6, 0.6, 0.0, 0.399999), 100, 0.001)
    assert set(chosen.action.tolist()) == {1}
    assert set(chosen.log_prob.tolist()) == {0.0}


def test_of_several_likeliest_actions_the_first_is_taken():
    action, _ = distribution(CHOICE).sample(
        torch.tensor([[2.0, 1.0, 2.0, 2.0, 0.0]] * 2),
        np.array([[True] * 5, [False, True, True, True, True]]),
        np.random.default_rng(0),
        0.0,
    )
    assert action.tolist() == [0, 2]
    assert decide(Prefers(0.1, 0.45, 0.45, 0.0), 3, 0.0).action.tolist() == [1, 1, 1]


# ---------------------------------------------------------------------- certainty


def test_a_choice_is_certain_if_nothing_else_was_possible():
    d = distribution(CHOICE)
    mask = np.array([[True] * 5, [False, False, True, False, False]])
    for temperature, expected in ((1.0, [False, True]), (0.3, [False, True]), (0.0, [True, True])):
        _, log_prob = d.sample(torch.zeros(2, 5), mask, np.random.default_rng(0), temperature)
        assert d.certain(log_prob, temperature).tolist() == expected


def test_one_open_choice_among_several_leaves_the_action_open():
    d = distribution(MIXED)
    mask = np.array([[True, False, True, True, False, False], [True, False, True, False, False, False]])
    _, log_prob = d.sample(torch.zeros(2, 6), mask, np.random.default_rng(0), 1.0)
    assert d.certain(log_prob, 1.0).tolist() == [False, True]


def test_a_density_of_one_is_no_certainty():
    d = distribution(NUMBERS)
    assert d.certain(np.zeros(3, np.float32), 1.0).tolist() == [False] * 3
    assert d.certain(np.full(3, -5.0, np.float32), 0.0).tolist() == [True] * 3
    chosen = decide(RandomBot(ActionSpec("continuous", low=(0.0,), high=(1.0,))), 2, 1.0)
    assert chosen.log_prob.tolist() == [0.0] * 2
    assert chosen.certain.tolist() == [False] * 2


@pytest.mark.parametrize(
    ("bot", "temperature", "certain"),
    [
        (Prefers(0.0, 1.0, 0.0, 0.0), 1.0, True),
        (Prefers(0.0, 0.5, 0.5, 0.0), 1.0, False),
        (Prefers(0.0, 0.5, 0.5, 0.0), 0.0, True),
        (Either(), 0.0, False),  # a draw between equals stays one
        (RandomBot(), 0.0, False),
        (RandomBot(ActionSpec("multi_discrete", (1, 3))), 0.0, False),
        (RandomBot(ActionSpec("multi_discrete", (1,) * 4)), 1.0, True),
    ],
)
def test_a_bot_is_certain_of_what_it_does_not_draw(bot, temperature, certain):
    assert decide(bot, 3, temperature).certain.tolist() == [certain] * 3
