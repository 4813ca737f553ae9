"""The whole objective of fixed arrays, and its gradient, against a float64 reference of its own."""

import numpy as np
import pytest
import torch

from league.learning.data.batching import minibatches
from league.learning.learner.learner import LearnerSettings
from league.learning.learner.objective import Objective, Trainee, vtrace_targets
from league.learning.maths.advantages import GAE
from league.learning.maths.losses import Loss
from storage.errors import Mistake

LENGTHS, TRUNCATED = [3, 1, 4], [True, False, True]
OFFSET = np.array([0, 3, 4, 8])
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE = 0.9, 0.8, 0.2, 0.03, 0.7


def experience(make_episodes, *, targets=None, normalises=True):
    """Three sequences of unequal length, two of them truncated, with illegal actions among the steps."""
    episodes = make_episodes(LENGTHS, TRUNCATED, seed=3)
    rng = np.random.default_rng(4)
    episodes.mask[:] = rng.random(episodes.mask.shape) < 0.6
    episodes.mask[np.arange(8), episodes.action] = True
    episodes.log_prob[:] = -rng.random(8)
    (batch,) = minibatches(episodes, 99, 99, targets=targets, normalises=normalises)
    return episodes, batch


def outputs(seed):
    """Logits [8 + 2, 3] and values [8 + 2], as a network would give them."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(10, 3)), rng.normal(size=10)


class Given:
    """Instead of a network: outputs that are what they are."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __call__(self, batch):
        return self.tensors

    network = property(lambda self: self)

    def zero_grad(self):
        for tensor in self.tensors:
            tensor.grad = None


def log_softmax(logits, mask):
    shifted = np.where(mask, logits, -np.inf)
    shifted = shifted - shifted.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def vtrace_by_hand(episodes, log_prob, value, clip_rho=1.0, clip_c=1.0):
    """Targets and errors of all steps, sequence by sequence."""
    vs, error = np.zeros(8), np.zeros(8)
    cuts = iter((8, 9))
    for start, end, cut in zip(OFFSET[:-1], OFFSET[1:], TRUNCATED, strict=True):
        v_next, discount = (value[next(cuts)], GAMMA) if cut else (0.0, 0.0)
        later = 0.0
        for t in range(end - 1, start - 1, -1):
            ratio = np.exp(log_prob[t] - episodes.log_prob[t])
            rho, c = min(clip_rho, ratio), min(clip_c, ratio)
            error[t] = episodes.reward[t] + discount * (v_next + LAMBDA * later) - value[t]
            later = rho * (episodes.reward[t] + discount * v_next - value[t]) + discount * LAMBDA * c * later
            vs[t] = value[t] + later
            v_next, discount = value[t], GAMMA
    return vs, error


def reference(episodes, loss, now, fixed, target=None, targets=None):
    """The means; `fixed` are the outputs that carry no gradient, equal to `now` where it is evaluated."""
    mask, steps = episodes.mask, np.arange(8)
    logs, fixed_logs = log_softmax(now[0][:8], mask), log_softmax(fixed[0][:8], mask)
    log_prob, acted = logs[steps, episodes.action], episodes.log_prob.astype(np.float64)
    trusted, trusted_value, anchor = fixed_logs[steps, episodes.action], fixed[1], acted
    if target is not None:
        target_logs = log_softmax(target[0][:8], mask)
        trusted = anchor = target_logs[steps, episodes.action]
        trusted_value = target[1]
    if targets is None:
        vs, advantage = vtrace_by_hand(episodes, trusted, trusted_value)
    else:
        advantage, vs = targets
        advantage = (advantage - advantage.mean()) / advantage.std()
    if loss == "impala":
        rho = np.minimum(1.0, np.exp(fixed_logs[steps, episodes.action] - acted))
        policy = -(rho * advantage * log_prob).mean()
    else:
        ratio = np.exp(log_prob - anchor)
        worse = np.minimum(ratio * advantage, np.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
        policy = -(np.minimum(1.0, np.exp(anchor - acted)) * worse).mean()
    value = 0.5 * ((now[1][:8] - vs) ** 2).mean()
    legal = np.where(mask, logs, 0.0)
    entropy = -(np.exp(legal) * legal * mask).sum(1).mean()
    total = policy + VALUE * value - ENTROPY * entropy
    return np.array([total, policy, value, entropy, 5.0])


def numeric_gradient(f, arrays):
    """By central differences, of each of `arrays`."""
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            kept = array[index]
            sides = []
            for step in (1e-6, -1e-6):
                array[index] = kept + step
                sides.append(f())
            array[index] = kept
            gradient[index] = (sides[0] - sides[1]) / 2e-6
        gradients.append(gradient)
    return gradients


def gae_targets():
    rng = np.random.default_rng(6)
    return GAE(rng.normal(size=8).astype(np.float32), rng.normal(size=8).astype(np.float32))


@pytest.mark.parametrize(
    ("loss", "with_target"),
    [("appo", False), ("appo", True), ("impala", False), ("impala", True), ("ppo", False)],
)
def test_means_and_gradients_equal_the_reference(make_spec, make_episodes, loss, with_target):
    targets = gae_targets() if loss == "ppo" else None
    episodes, batch = experience(make_episodes, targets=targets)
    settings = LearnerSettings(
        loss={"kind": loss}
        | ({"vtrace_lambda": LAMBDA} if loss != "ppo" else {})
        | ({"clip": CLIP} if loss != "impala" else {}),
        discount=GAMMA,
        entropy=ENTROPY,
        value=VALUE,
        target_updates=10 if with_target else 0,
    )
    now, target = outputs(1), outputs(2) if with_target else None
    live = [torch.tensor(array, requires_grad=True) for array in now]
    frozen = None if target is None else Given(*(torch.tensor(array) for array in target))
    objective = Objective(make_spec(), settings)
    means = objective.backward(batch, Trainee(Given(*live), frozen, updates=5))
    fixed = tuple(array.copy() for array in now)
    expected = reference(episodes, loss, now, fixed, target, targets)
    np.testing.assert_allclose(means.numpy(), expected, atol=1e-6)
    assert objective.names == ("loss", "policy_loss", "value_loss", "entropy", "lag")
    wanted = numeric_gradient(lambda: reference(episodes, loss, now, fixed, target, targets)[0], now)
    for tensor, gradient in zip(live, wanted, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, atol=1e-6)


@pytest.mark.parametrize("clips", [{}, {"clip_rho": 2.0, "clip_c": 0.5}])
def test_vtrace_targets_equal_a_reference_with_truncation_and_padding(make_episodes, clips):
    episodes, batch = experience(make_episodes)
    rng = np.random.default_rng(5)
    value, log_prob = rng.normal(size=10), -rng.random(8)
    vs, error = vtrace_targets(batch, torch.tensor(log_prob), torch.tensor(value), GAMMA, LAMBDA, **clips)
    expected_vs, expected_error = vtrace_by_hand(episodes, log_prob, value, **clips)
    np.testing.assert_allclose(vs.numpy(), expected_vs, atol=1e-6)
    np.testing.assert_allclose(error.numpy(), expected_error, atol=1e-6)


def test_the_clips_of_the_settings_reach_the_loss_and_its_targets(make_spec, make_episodes):
    _, batch = experience(make_episodes)

    def losses(**loss):
        live = [torch.tensor(array, requires_grad=True) for array in outputs(1)]
        means = Objective(make_spec(), LearnerSettings(loss={"kind": "impala", **loss})).backward(
            batch, Trainee(Given(*live), None, updates=5)
        )
        return means[1:3].tolist()  # policy loss, value loss

    usual = losses()
    assert losses(vtrace_clip_rho=1.0, vtrace_clip_c=1.0, clip_rho=1.0) == usual
    policy, value = losses(clip_rho=0.3)
    assert policy != usual[0]
    assert value == usual[1]
    assert losses(vtrace_clip_rho=0.3)[1] != usual[1]
    assert losses(vtrace_clip_c=0.3)[1] != usual[1]


def test_ppo_refuses_a_batch_without_advantages(make_spec, make_episodes):
    _, batch = experience(make_episodes)
    objective = Objective(make_spec(), LearnerSettings(loss="ppo"))
    with pytest.raises(TypeError, match="takes a TargetedBatch, found a Batch"):
        objective.backward(batch, Trainee(Given()))


def test_a_loss_of_ones_own_must_give_one_number_for_each_step(make_spec, make_episodes):
    _, batch = experience(make_episodes)
    objective = Objective(make_spec(), LearnerSettings())
    objective._loss = Loss(lambda log_probs, advantage, clip: (-log_probs.now * advantage).mean(), "vtrace")
    live = Given(*(torch.tensor(array, requires_grad=True) for array in outputs(1)))
    with pytest.raises(Mistake, match=r"gave shape \[\], expected one loss for each step, \[8\]"):
        objective.backward(batch, Trainee(live))


@pytest.mark.parametrize("lengths", [[3, 4], []])
def test_gradients_of_before_are_forgotten_also_where_there_is_nothing_to_learn_from(
    make_spec, make_episodes, lengths
):
    episodes = make_episodes([3, 4])
    (batch,) = minibatches(episodes.take(np.arange(len(lengths))), 99, 99) if lengths else (empty(episodes),)
    live = [torch.zeros(7, 3, requires_grad=True), torch.zeros(7, requires_grad=True)]
    for tensor in live:
        tensor.grad = torch.full_like(tensor, 1e6)
    Objective(make_spec(), LearnerSettings()).backward(batch, Trainee(Given(*live)))
    assert all(tensor.grad is None or tensor.grad.abs().max() < 10 for tensor in live)


def empty(episodes):
    """The share of a peer for which no sequence was left."""

    class Last:
        rank, size = 2, 3

    (batch,) = minibatches(episodes, 99, 99, peers=Last())
    assert batch.num_steps == 0
    return batch
