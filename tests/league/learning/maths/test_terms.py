"""Terms that a loss adds: computed of every step, weighed, reported, and refused where they cannot be."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import analysis
import league
from configs.own_loss import KEPT_CLOSE
from league.learning.data.batching import minibatches
from league.learning.data.peers import ALONE
from league.learning.learner.learner import Learner, LearnerSettings, LearnerState, NonFiniteLoss
from league.learning.learner.objective import Objective
from league.learning.maths.losses import Loss, Term, appo
from league.models.policies.policy import initial_weights
from storage.archive import Archive
from storage.errors import Mistake

PATH = "configs.own_loss:KEPT_CLOSE"


@pytest.fixture
def loss_of(monkeypatch):
    """Settings of a learner whose loss has these terms."""

    def make(*terms, targets="vtrace", **settings):
        loss = Loss(appo, targets, terms)
        monkeypatch.setattr("league.learning.maths.losses.MINE", loss, raising=False)
        path = "league.learning.maths.losses:MINE"
        return LearnerSettings(**{"loss": path, "batch_steps": 8, "sequence_length": 3, **settings})

    return make


def uneven(make_episodes, **changes):
    """Sequences of unequal length, so that there is padding; one of them truncated."""
    return make_episodes([2, 5, 1], [False, True, False], **changes)


def zero(steps):
    return 0.0 * steps.log_probs.now


# ---------------------------------------------------------------------- what a term is given


def test_a_term_knows_every_step_and_lays_it_out_in_time(make_spec, make_episodes, loss_of):
    seen = []

    def note(steps):
        seen.append(steps)
        return zero(steps)

    settings = loss_of(Term("mine", note, reference="initial"), discount=0.9, sequence_length=99)
    learner = Learner("main-0", make_spec(), settings, seed=1)
    episodes = uneven(make_episodes)
    (batch,) = minibatches(episodes, 99, 99)
    learner.update_from_batch(batch)
    (steps,) = seen
    n, shape = 8, (5, 3)  # T = 5 steps at most of B = 3 sequences
    assert steps.rows.shape == shape
    assert steps.valid.sum(0).tolist() == [2, 5, 1]
    for column in (*steps.log_probs, steps.value, steps.entropy, steps.advantage, steps.value_target):
        assert column.shape == (n,)
    assert steps.parameters.shape == steps.reference.parameters.shape == (n, 3)
    assert steps.reference.value.shape == (n,)
    for column in (steps.log_probs.now, steps.parameters, steps.value, steps.entropy):
        assert column.requires_grad
    for column in (steps.advantage, steps.value_target, steps.next_value, *steps.reference):
        assert not column.requires_grad
    np.testing.assert_array_equal(steps.reward.numpy(), episodes.reward)
    laid = steps.in_time(steps.reward)
    assert laid.shape == shape
    assert laid[2:, 0].tolist() == [0.0] * 3
    np.testing.assert_array_equal(laid[:, 1].numpy(), episodes.reward[2:7])
    assert steps.discount.tolist() == pytest.approx([0.9, 0.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.0])
    assert steps.next_value[0] == steps.value[1]
    assert steps.next_value[[1, 7]].tolist() == [0.0, 0.0]
    assert steps.next_value[6] not in steps.value  # of the observation behind the truncated sequence


def test_what_a_term_is_given_suffices_for_upgo(make_spec, make_episodes, loss_of):
    """UPGO's returns (AlphaStar, doi 10.1038/s41586-019-1724-z) follow play that did better than expected."""
    found = []

    def upgo(steps):
        reward, value = steps.in_time(steps.reward), steps.in_time(steps.value.detach())
        following, discount = steps.in_time(steps.next_value), steps.in_time(steps.discount)
        returns, later = [], torch.zeros_like(following[0])
        better = torch.zeros_like(later, dtype=torch.bool)
        for t in reversed(range(len(reward))):
            later = reward[t] + discount[t] * torch.where(better, later, following[t])
            better = (later >= value[t]) & steps.valid[t]
            returns.insert(0, later)
        advantage = (torch.stack(returns) - value) * steps.valid
        found.append((steps, advantage))
        return -advantage * steps.in_time(steps.log_probs.now)

    settings = loss_of(Term("upgo", upgo), discount=0.9, sequence_length=99)
    episodes = uneven(make_episodes)
    (batch,) = minibatches(episodes, 99, 99)
    report = Learner("main-0", make_spec(), settings, seed=1).update_from_batch(batch)
    steps, advantage = found[0]
    value, log_prob = steps.value.detach().numpy(), steps.log_probs.now.detach().numpy()
    by_hand = np.zeros(8)
    for start, end in ((0, 2), (2, 7), (7, 8)):
        for t in range(end - 1, start - 1, -1):
            later = float(steps.next_value[t])
            if t < end - 1 and by_hand[t + 1] >= value[t + 1]:
                later = by_hand[t + 1]
            by_hand[t] = episodes.reward[t] + float(steps.discount[t]) * later
    np.testing.assert_allclose(advantage[:, 1].numpy(), (by_hand - value)[2:7], atol=1e-5)
    assert report["upgo"] == pytest.approx(float((-(by_hand - value) * log_prob).mean()), abs=1e-5)


# ---------------------------------------------------------------------- its value and its weight


def test_a_term_is_reported_and_weighed_and_leaves_the_other_parts_alone(make_spec, make_episodes, loss_of):
    (batch,) = minibatches(uneven(make_episodes), 99, 99)
    plain = Learner("main-0", make_spec(), LearnerSettings(), seed=1)
    parts = plain.update_from_batch(batch)
    square = Term("square", lambda steps: steps.value.square(), weight=[[0.0, 0.0], [1.0, 4.0]])
    objective = Objective(make_spec(), loss_of(square), ALONE)
    learner = Learner("main-0", make_spec(), loss_of(square), seed=1)
    assert objective.names == ("loss", "policy_loss", "value_loss", "entropy", "lag", "square")
    losses = [objective.backward(batch, learner.trainee._replace(progress=p)) for p in (0.0, 0.5)]
    found = dict(zip(objective.names, losses[1].tolist(), strict=True))
    for name in ("policy_loss", "value_loss", "entropy", "lag"):
        assert found[name] == pytest.approx(parts[name])
    values = learner.trainee.forward(batch)[1][:8].detach()
    assert found["square"] == pytest.approx(float(values.square().mean()))
    assert float(losses[1][0] - losses[0][0]) == pytest.approx(2.0 * found["square"], rel=1e-4)


def test_losses_laid_out_in_time_count_without_their_padding(make_spec, make_episodes, loss_of):
    (batch,) = minibatches(uneven(make_episodes), 99, 99)

    def padded(steps):
        return torch.where(steps.valid, steps.in_time(steps.value), torch.tensor(torch.nan))

    states = []
    for compute in (lambda steps: steps.value, padded):
        learner = Learner("main-0", make_spec(), loss_of(Term("mine", compute)), seed=1)
        report = learner.update_from_batch(batch)
        states.append((report, learner.weights()))
    (report, weights), (other, others) = states
    assert report == other
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_peers_add_up_to_the_term_of_the_whole_minibatch(make_spec, make_episodes, loss_of):
    settings = loss_of(Term("mine", lambda steps: steps.value.square()))
    objective = Objective(make_spec(), settings, ALONE)
    trainee = Learner("main-0", make_spec(), settings, seed=1).trainee

    def share(rank, size):
        peers = type("Peer", (), {"rank": rank, "size": size})()
        (batch,) = minibatches(uneven(make_episodes), 99, 99, peers=peers)
        return objective.backward(batch, trainee)[-1]

    assert float(share(0, 2) + share(1, 2)) == pytest.approx(float(share(0, 1)))


def test_a_term_that_is_no_number_refuses_the_update(make_spec, make_episodes, loss_of):
    settings = loss_of(Term("mine", lambda steps: steps.value * torch.nan, weight=0.5))
    learner = Learner("main-0", make_spec(), settings, seed=1)
    before = learner.weights()
    with pytest.raises(NonFiniteLoss, match="player main-0, update 1: the loss is nan"):
        learner.update_from_episodes(uneven(make_episodes))
    assert learner.updates == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.weights().items())


# ---------------------------------------------------------------------- the reference


def policy_of(learner, weights, observation):
    """Probabilities [n, 3] under `weights`."""
    other = Learner("other", learner.spec, LearnerSettings(), seed=0)
    other.reset(weights)
    with torch.no_grad():
        parameters, _ = other._network(torch.from_numpy(observation))
    return parameters.softmax(1).numpy()


def distance_after(make_spec, make_episodes, loss, updates=40):
    """Mean KL(first policy || policy) after learning that one action pays."""
    learner = Learner(
        "main-0", make_spec(), LearnerSettings(loss=loss, batch_steps=64, lr=5e-3, entropy=0), 1
    )
    first, reports = learner.weights(), []
    for i in range(updates):
        episodes = make_episodes([1] * 64, seed=i)
        episodes.reward[:] = np.where(episodes.action == 0, 1.0, -1.0)
        reports.append(learner.update_from_episodes(episodes))
    observation = make_episodes([1] * 64, seed=99).observation
    p, q = policy_of(learner, first, observation), policy_of(learner, learner.weights(), observation)
    return float((p * np.log(p / q)).sum(1).mean()), reports


@pytest.mark.slow
def test_the_example_stays_close_to_the_weights_it_began_with(make_spec, make_episodes, monkeypatch):
    free, _ = distance_after(make_spec, make_episodes, "appo")
    close, reports = distance_after(make_spec, make_episodes, PATH)
    assert close < 0.8 * free
    assert reports[0]["reference_kl"] == pytest.approx(0.0, abs=1e-6)
    assert reports[-1]["reference_kl"] == pytest.approx(close, rel=0.5)


def test_the_gradient_of_the_example_pulls_towards_the_reference(make_spec, make_episodes, monkeypatch):
    alone = Loss(lambda log_probs, advantage, clip: 0.0 * log_probs.now, "vtrace", KEPT_CLOSE.terms)
    monkeypatch.setattr("league.learning.maths.losses.MINE", alone, raising=False)
    settings = LearnerSettings(
        loss="league.learning.maths.losses:MINE", entropy=0.0, value=0.0, batch_steps=64, lr=5e-3
    )
    learner = Learner("main-0", make_spec(), settings, seed=1)
    away = dataclasses.replace(learner.state(), weights=initial_weights(make_spec(), 2))
    learner.load_state(away)
    episodes = make_episodes([1] * 64)
    kl = [learner.update_from_episodes(episodes)["reference_kl"] for _ in range(60)]
    assert kl[-1] < 0.2 * kl[0]


def test_the_reference_is_saved_and_goes_with_a_reset(make_spec, make_episodes):
    spec, settings = make_spec(), LearnerSettings(loss=PATH, batch_steps=8)
    learner, other = (Learner("main-0", spec, settings, seed) for seed in (1, 2))
    for seed in range(3):
        learner.update_from_episodes(uneven(make_episodes, seed=seed))
    state = learner.state()
    assert_same(state.reference, initial_weights(spec, 1))
    assert any(not torch.equal(state.weights[name], t) for name, t in state.reference.items())
    other.load_state(LearnerState.from_tensors(state.to_tensors(), state.updates, state.env_steps))
    assert_same(other.state().reference, state.reference)
    reports = [each.update_from_episodes(uneven(make_episodes, seed=9)) for each in (learner, other)]
    assert reports[0] == reports[1]
    learner.reset(initial_weights(spec, 7))
    assert_same(learner.state().reference, initial_weights(spec, 7))


def test_a_state_without_a_reference_begins_as_its_weights(make_spec, make_episodes):
    plain = Learner("main-0", make_spec(), LearnerSettings(batch_steps=8), seed=1)
    plain.update_from_episodes(uneven(make_episodes))
    assert plain.state().reference == {}
    kept = Learner("main-0", make_spec(), LearnerSettings(loss=PATH, batch_steps=8), seed=2)
    kept.load_state(plain.state())
    assert_same(kept.state().reference, plain.weights())


def assert_same(a, b):
    assert set(a) == set(b)
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.mark.slow
def test_the_example_runs_resumes_and_records_its_term(tmp_path):
    settings = yaml.safe_load((Path(__file__).parents[4] / "configs" / "own_loss.yaml").read_text())
    run = league.train(settings | {"stop": {"env_steps": 40_000}}, tmp_path / "run")
    first = LearnerState.from_tensors(*saved(run)).reference
    league.train(settings | {"stop": {"env_steps": 80_000}}, run, resume=True)
    assert_same(LearnerState.from_tensors(*saved(run)).reference, first)
    with analysis.open_run(run) as history:
        metrics = [json.loads(row) for row in history.sql("SELECT metrics FROM updates")["metrics"]]
    assert len(metrics) >= 2
    assert all(0.0 <= found["reference_kl"] < 1.0 for found in metrics)


def saved(run):
    with Archive.open(run) as archive:
        tensors, meta = archive.load_learner("main-0")
    return tensors, meta["updates"], meta["env_steps"]


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "name", ["entropy", "kl", "loss", "lag", "gradient_norm", "replay_steps", "queue_mine"]
)
def test_the_name_of_another_figure_is_refused(name):
    with pytest.raises(ValueError, match=f"term '{name}': the name of another figure"):
        Term(name, zero)


def test_a_name_twice_a_bad_name_and_a_weight_that_is_no_number_are_refused():
    with pytest.raises(ValueError, match="term 'mine': found 2 terms of this name"):
        Loss(appo, "vtrace", (Term("mine", zero), Term("mine", zero)))
    with pytest.raises(ValueError, match="found name 'My Term', expected lower case"):
        Term("My Term", zero)
    with pytest.raises(ValueError, match="term 'mine': found weight nan"):
        Term("mine", zero, weight=float("nan"))
    with pytest.raises(ValueError, match="found reference 'newest', expected 'initial'"):
        Term("mine", zero, reference="newest")


@pytest.mark.parametrize(
    ("compute", "gave"), [(lambda steps: steps.value.mean(), r"shape \[\]"), (lambda steps: 1.0, "a float")]
)
def test_a_term_must_give_one_number_for_each_step(make_spec, make_episodes, loss_of, compute, gave):
    (batch,) = minibatches(uneven(make_episodes), 99, 99)
    learner = Learner("main-0", make_spec(), loss_of(Term("mine", compute)), seed=1)
    with pytest.raises(Mistake, match=rf"term 'mine' gave {gave}, expected one loss for each step, \[8\]"):
        learner.update_from_batch(batch)


def test_where_the_loss_is_no_number_its_own_terms_may_be_why(make_spec, make_episodes, loss_of):
    (batch,) = minibatches(uneven(make_episodes), 99, 99)
    mine = Term("mine", lambda steps: steps.value * float("nan"))
    with pytest.raises(NonFiniteLoss, match=r"lower learner\.lr, or correct the terms of learner\.loss '"):
        Learner("main-0", make_spec(), loss_of(mine), seed=1).update_from_batch(batch)
    learner = Learner("main-0", make_spec(), LearnerSettings(), seed=1)
    with pytest.raises(NonFiniteLoss, match=r"lower learner\.lr$"):
        learner.update_from_batch(dataclasses.replace(batch, reward=batch.reward * float("nan")))
