"""Distributions: golden numbers, float64 references, and that players and learners mean the same."""

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import torch

from league.envs.spaces import ActionSpec
from league.models.networks.distributions import LOG_STD_RANGE, distribution

torch.set_num_threads(1)

DISCRETE = ActionSpec("discrete", (5,))
EQUAL = ActionSpec("multi_discrete", (3, 3, 3))
MIXED = ActionSpec("multi_discrete", (2, 4, 4, 3))
CONTINUOUS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
FREE = ActionSpec("continuous", low=(-math.inf, -math.inf, 0.0), high=(math.inf, 2.0, math.inf))
JOINT = ActionSpec("joint", (2, 3, 3), (-math.inf, -1.0), (math.inf, 3.0))
KINDS = [(DISCRETE, True), (EQUAL, True), (MIXED, True), (CONTINUOUS, True), (CONTINUOUS, False)]
KINDS += [(FREE, True), (JOINT, True), (JOINT, False)]


def draws(action, squash, n, seed=0, scale=1.0, dtype=torch.float32):
    """Parameters [n, P], masks [n, M] with at least one legal choice each, legal raw actions."""
    rng = np.random.default_rng(seed)
    d = distribution(action, squash)
    parameters = torch.tensor(scale * rng.standard_normal((n, d.num_parameters)), dtype=dtype)
    mask = rng.random((n, action.mask_width)) < 0.6
    start = 0
    for size in action.sizes:
        mask[np.arange(n), start + rng.integers(size, size=n)] = True
        start += size
    raw, _ = d.sample(parameters.float().clone(), mask, rng, 1.0)
    return d, parameters, torch.from_numpy(mask), torch.from_numpy(raw)


def categorical(logits, mask):
    """Probabilities in float64 by the definition, 0 where illegal."""
    weight = np.where(mask, np.exp(logits.astype(np.float64)), 0.0)
    return weight / weight.sum(-1, keepdims=True)


def factors(action):
    ends = np.cumsum((0, *action.sizes))
    return [slice(start, end) for start, end in itertools.pairwise(ends)]


# ---------------------------------------------------------------------- golden numbers


def test_a_choice_in_golden_numbers():
    d = distribution(ActionSpec("discrete", (4,)), True)
    logits = torch.log(torch.tensor([[1.0, 2.0, 3.0, 9.0]]))
    mask = torch.tensor([[True, True, True, False]])
    log_prob, entropy = d.evaluate(logits, mask, torch.tensor([2]))
    assert log_prob.item() == pytest.approx(math.log(0.5), abs=1e-6)
    assert entropy.item() == pytest.approx(1.0114042647, abs=1e-6)
    # to the uniform one: log 3 - entropy
    assert d.kl(logits, torch.zeros(1, 4), mask).item() == pytest.approx(0.0872080240, abs=1e-6)


def test_several_choices_in_golden_numbers():
    d = distribution(ActionSpec("multi_discrete", (2, 3)), True)
    logits = torch.log(torch.tensor([[1.0, 3.0, 1.0, 2.0, 3.0]]))
    mask = torch.ones(1, 5, dtype=torch.bool)
    log_prob, entropy = d.evaluate(logits, mask, torch.tensor([[1, 0]]))
    assert log_prob.item() == pytest.approx(math.log(3 / 4 / 6), abs=1e-6)
    assert entropy.item() == pytest.approx(0.5623351446 + 1.0114042647, abs=1e-6)
    assert d.kl(logits, torch.zeros(1, 5), mask).item() == pytest.approx(
        0.1308120360 + 0.0872080240, abs=1e-6
    )


def test_a_gaussian_in_golden_numbers():
    d = distribution(ActionSpec("continuous", low=(-9.0,), high=(9.0,)), False)
    nothing = torch.zeros(1, 0, dtype=torch.bool)
    log_prob, entropy = d.evaluate(torch.zeros(1, 2), nothing, torch.tensor([[0.0]]))
    assert log_prob.item() == pytest.approx(-0.9189385332, abs=1e-6)
    assert entropy.item() == pytest.approx(1.4189385332, abs=1e-6)
    other = torch.tensor([[1.0, 1.0]])  # N(1, e): KL = 1/2 + e^-2
    assert d.kl(torch.zeros(1, 2), other, nothing).item() == pytest.approx(0.6353352832, abs=1e-6)


# ---------------------------------------------------------------------- against float64 references


@pytest.mark.parametrize("action", [DISCRETE, EQUAL, MIXED])
def test_choices_agree_with_their_definition_in_float64(action):
    d, p, mask, raw = draws(action, True, 200, scale=3.0)
    q = torch.from_numpy(np.random.default_rng(1).standard_normal(p.shape).astype(np.float32))
    log_prob, entropy = d.evaluate(p, mask, raw)
    kl = d.kl(p, q, mask)
    expected = np.zeros((3, 200))
    for k, columns in enumerate(factors(action)):
        legal = mask[:, columns].numpy()
        here, there = (categorical(x[:, columns].numpy(), legal) for x in (p, q))
        chosen = raw.reshape(200, -1)[:, k].numpy()
        expected[0] += np.log(here[np.arange(200), chosen])
        expected[1] += scipy.stats.entropy(here, axis=1)
        expected[2] += scipy.special.rel_entr(here, there).sum(1)
    np.testing.assert_allclose(log_prob, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(entropy, expected[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(kl, expected[2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("squash", [True, False])
def test_log_probabilities_of_real_numbers_are_the_gaussians_of_the_raw_draw(squash):
    d, parameters, mask, raw = draws(CONTINUOUS, squash, 200)
    mean, log_std = parameters.double().numpy().reshape(200, 2, 2).transpose(1, 0, 2)
    std = np.exp(log_std.clip(*LOG_STD_RANGE))
    expected = scipy.stats.norm.logpdf(raw.double().numpy(), mean, std).sum(1)
    log_prob, entropy = d.evaluate(parameters, mask, raw)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5, atol=1e-5)
    if not squash:
        np.testing.assert_allclose(entropy, scipy.stats.norm.entropy(mean, std).sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "squash"), [(DISCRETE, True), (MIXED, True), (CONTINUOUS, False), (FREE, True), (JOINT, False)]
)
def test_every_kind_agrees_with_torchs_own_distributions(action, squash):
    d, parameters, mask, raw = draws(action, squash, 300)
    _, others, *_ = draws(action, squash, 300, seed=1)
    torchs = [_of_torch(action, p, mask) for p in (parameters, others)]
    taken = raw.reshape(300, -1)
    log_prob, entropy = d.evaluate(parameters, mask, raw)
    expected = sum(part.log_prob(taken[:, i]) for i, part in enumerate(torchs[0]))
    torch.testing.assert_close(log_prob, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(entropy, sum(part.entropy() for part in torchs[0]), rtol=1e-4, atol=1e-4)
    kl = sum(map(torch.distributions.kl_divergence, *torchs))
    torch.testing.assert_close(d.kl(parameters, others, mask), kl, rtol=1e-4, atol=1e-4)


def _of_torch(action, parameters, mask):
    width, d = action.mask_width, len(action.low)
    logits = parameters[:, :width].masked_fill(~mask, -1e9)
    mean, log_std = parameters[:, width : width + d], parameters[:, width + d :].clamp(*LOG_STD_RANGE)
    chosen = [torch.distributions.Categorical(logits=logits[:, columns]) for columns in factors(action)]
    return chosen + [torch.distributions.Normal(mean[:, i], log_std[:, i].exp()) for i in range(d)]


def test_numbers_without_bounds_reach_the_game_as_they_are_and_others_within_theirs():
    raw = np.array([[1.0, 2.0, 0.0, 50.0, 50.0], [0.0, 1.0, 2.0, -50.0, 0.0]], np.float32)
    action = distribution(JOINT, True).to_env(raw)
    np.testing.assert_allclose(action, [[1, 2, 0, 50, 3], [0, 1, 2, -50, 1]], atol=1e-6)
    assert distribution(FREE, True).to_env(-raw[:1, 2:])[0].tolist() == [0.0, -50.0, 0.0]


def test_the_entropy_counts_the_slope_of_those_that_are_squashed_alone():
    both = ActionSpec("continuous", low=(-1.0, -math.inf), high=(3.0, math.inf))
    one, other = (
        ActionSpec("continuous", low=(-1.0,), high=(3.0,)),
        ActionSpec("continuous", low=(-math.inf,), high=(1.0,)),
    )
    parameters = torch.tensor([[0.3, 5.0, -0.5, 1.0]])
    found = distribution(both, True).evaluate(parameters, torch.zeros(1, 0), torch.zeros(1, 2))[1]
    parts = [
        distribution(spec, True).evaluate(parameters[:, i::2], torch.zeros(1, 0), torch.zeros(1, 1))[1]
        for i, spec in enumerate((one, other))
    ]
    torch.testing.assert_close(found, sum(parts))


def test_kl_of_gaussians_agrees_with_an_integral():
    d = distribution(ActionSpec("continuous", low=(-1.0,), high=(1.0,)), True)
    for mean, log_std, other_mean, other_log_std in [(0.3, -0.5, -0.2, 0.1), (2.0, 0.5, 1.0, -0.5)]:
        p, q = (
            scipy.stats.norm(mean, math.exp(log_std)),
            scipy.stats.norm(other_mean, math.exp(other_log_std)),
        )
        integral, _ = scipy.integrate.quad(
            lambda x, p=p, q=q: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -30, 30
        )
        found = d.kl(
            torch.tensor([[mean, log_std]]), torch.tensor([[other_mean, other_log_std]]), torch.zeros(1, 0)
        )
        assert found.item() == pytest.approx(integral, rel=1e-4)


def test_kl_of_near_gaussians_is_not_lost_in_rounding():
    d = distribution(ActionSpec("continuous", low=(-1.0,), high=(1.0,)), True)
    p, q = torch.tensor([[0.5, -0.5]]), torch.tensor([[0.5, -0.5 + 2.0**-12]])
    ratio = 2.0 * 2.0**-12
    expected = 0.5 * (math.expm1(-ratio) + ratio)
    assert d.kl(p, q, torch.zeros(1, 0)).item() == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("mean", [0.0, 0.4, -1.5, 3.0])
@pytest.mark.parametrize("log_std", [-3.0, -0.5, 0.5])
def test_the_squashed_entropy_is_that_of_the_action_the_game_takes(mean, log_std):
    low, high = 0.0, 5.0
    d = distribution(ActionSpec("continuous", low=(low,), high=(high,)), True)
    middle, half, normal = (low + high) / 2, (high - low) / 2, scipy.stats.norm(mean, math.exp(log_std))

    def surprise(action):  # density by the change of variables, in the space of actions
        u = (action - middle) / half
        density = normal.pdf(math.atanh(u)) / (half * (1.0 - u * u))
        return -density * math.log(density) if density > 0 else 0.0

    around = [middle + half * math.tanh(mean + k * math.exp(log_std)) for k in (-8, -3, -1, 0, 1, 3, 8)]
    around = [min(max(a, low + 1e-12), high - 1e-12) for a in around]
    expected = sum(
        scipy.integrate.quad(surprise, a, b, limit=500)[0] for a, b in itertools.pairwise(around) if a < b
    )
    parameters = torch.tensor([[mean, log_std]], dtype=torch.float64)
    _, entropy = d.evaluate(parameters, torch.zeros(1, 0), torch.zeros(1, 1))
    assert entropy.item() == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("log_std", [-5.0, -1.0, 0.0, 1.0, 2.0])
def test_the_squashed_entropy_agrees_with_monte_carlo(log_std):
    n, mean = 400_000, np.array([0.7, -2.0])
    normal = scipy.stats.norm(mean, math.exp(log_std))
    x = mean + math.exp(log_std) * np.random.default_rng(0).standard_normal((n, 2))
    half = np.array([1.0, 2.5])
    # log(1 - tanh(x)^2) = -2 log cosh(x)
    slope = np.log(half) - 2.0 * np.logaddexp(x, -x) + 2.0 * math.log(2.0)
    surprise = (slope - normal.logpdf(x)).sum(1)
    parameters = torch.tensor([[*mean, log_std, log_std]])
    _, entropy = distribution(CONTINUOUS, True).evaluate(parameters, torch.zeros(1, 0), torch.zeros(1, 2))
    assert entropy.item() == pytest.approx(surprise.mean(), abs=5 * surprise.std() / math.sqrt(n) + 0.004)


def test_real_numbers_far_out_give_finite_numbers():
    d = distribution(CONTINUOUS, True)
    parameters = torch.tensor([[200.0, -200.0, 50.0, -50.0]], requires_grad=True)
    log_prob, entropy = d.evaluate(parameters, torch.zeros(1, 0), torch.tensor([[150.0, -200.0]]))
    (log_prob + entropy).sum().backward()
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(entropy).all()
    assert torch.isfinite(parameters.grad).all()
    shown = d.probabilities(parameters.detach(), torch.zeros(1, 0))[0].tolist()
    assert shown == [200.0, -200.0, LOG_STD_RANGE[1], LOG_STD_RANGE[0]]


# ---------------------------------------------------------------------- gradients


@pytest.mark.parametrize(("action", "squash"), KINDS)
def test_gradients_flow_through_everything_and_are_right(action, squash):
    d, p, mask, raw = draws(action, squash, 4, scale=0.7, dtype=torch.float64)
    q = (p + 0.3 * torch.sin(torch.arange(p.numel()).reshape(p.shape))).requires_grad_()
    p.requires_grad_()
    raw = raw.double() if action.low else raw
    assert torch.autograd.gradcheck(lambda x: d.evaluate(x, mask, raw), p)
    assert torch.autograd.gradcheck(lambda x, y: d.kl(x, y, mask), (p, q))


@pytest.mark.parametrize("action", [DISCRETE, MIXED])
def test_an_illegal_choice_gets_no_gradient(action):
    d, p, mask, raw = draws(action, True, 50)
    p.requires_grad_()
    log_prob, entropy = d.evaluate(p, mask, raw)
    (log_prob + entropy + d.kl(p, p.detach() + 1.0, mask)).sum().backward()
    assert torch.isfinite(p.grad).all()
    assert not p.grad[~mask].any()
    assert p.grad[mask].any()


# ---------------------------------------------------------------------- sampling


@pytest.mark.parametrize(("action", "squash"), KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_the_learner_finds_the_log_probability_that_was_recorded(action, squash, temperature):
    d, parameters, mask, _ = draws(action, squash, 300)
    raw, log_prob = d.sample(parameters.clone(), mask.numpy(), np.random.default_rng(5), temperature)
    assert raw.shape == (300, *action.shape)
    assert raw.dtype == action.dtype
    assert log_prob.dtype == np.float32
    found, _ = d.evaluate(parameters, mask, torch.from_numpy(raw))
    np.testing.assert_allclose(log_prob, found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("action", [DISCRETE, EQUAL, MIXED, JOINT])
@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_only_legal_choices_are_drawn(action, temperature):
    d, parameters, mask, _ = draws(action, True, 2000, scale=4.0)
    raw, _ = d.sample(parameters, mask.numpy(), np.random.default_rng(2), temperature)
    raw = raw.reshape(2000, -1).astype(np.int64)
    for k, columns in enumerate(factors(action)):
        assert mask.numpy()[:, columns][np.arange(2000), raw[:, k]].all()


def test_several_choices_are_drawn_independently():
    n, d = 20_000, distribution(ActionSpec("multi_discrete", (2, 2)), True)
    raw, _ = d.sample(torch.zeros(n, 4), np.ones((n, 4), bool), np.random.default_rng(0), 1.0)
    joint = np.bincount(2 * raw[:, 0] + raw[:, 1], minlength=4) / n
    np.testing.assert_allclose(joint, 0.25, atol=4 * math.sqrt(0.1875 / n))


def test_greedy_takes_the_likeliest_choices_and_the_mean():
    d, parameters, mask, _ = draws(MIXED, True, 100)
    raw, _ = d.sample(parameters.clone(), mask.numpy(), np.random.default_rng(0), 0.0)
    probability = d.probabilities(parameters, mask).numpy()
    for k, columns in enumerate(factors(MIXED)):
        np.testing.assert_array_equal(raw[:, k], probability[:, columns].argmax(1))
    d, parameters, mask, _ = draws(CONTINUOUS, True, 100)
    raw, _ = d.sample(parameters, mask.numpy(), np.random.default_rng(0), 0.0)
    np.testing.assert_array_equal(raw, parameters[:, :2])


# ---------------------------------------------------------------------- to the game


def test_squashed_numbers_fill_the_bounds_and_never_leave_them():
    low, high = (-1.0, 0.1), (1.0, 0.7)
    d = distribution(ActionSpec("continuous", low=low, high=high), True)
    action = d.to_env(np.array([[0.0, 0.0], [-99.0, 99.0], [99.0, -99.0], [0.5, 0.5]], np.float32))
    assert action.dtype == np.float32
    np.testing.assert_allclose(action[0], [0.0, 0.4], atol=1e-7)
    np.testing.assert_allclose(action[1:3], [[-1.0, 0.7], [1.0, 0.1]], atol=1e-6)
    np.testing.assert_allclose(action[3], [math.tanh(0.5), 0.4 + 0.3 * math.tanh(0.5)], atol=1e-6)
    assert (action.astype(np.float64) >= low).all()
    assert (action.astype(np.float64) <= high).all()


def test_numbers_that_are_not_squashed_are_cut_off_at_the_bounds():
    d = distribution(CONTINUOUS, False)
    raw = np.array([[0.5, 3.0], [-2.0, 7.0]], np.float32)
    np.testing.assert_array_equal(d.to_env(raw), np.array([[0.5, 3.0], [-1.0, 5.0]], np.float32))
    assert raw[1].tolist() == [-2.0, 7.0]  # what is recorded stays


def test_a_distribution_is_built_once():
    assert distribution(CONTINUOUS, True) is distribution(ActionSpec(**_fields(CONTINUOUS)), True)
    assert distribution(CONTINUOUS, True) is not distribution(CONTINUOUS, False)


def _fields(action):
    return {"kind": action.kind, "sizes": action.sizes, "low": action.low, "high": action.high}
