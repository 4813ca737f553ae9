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
from league.learning.learner.learner import Learner, LearnerSettings, LearnerState, NonFiniteLoss
from league.learning.learner.objective import Objective
from league.learning.maths.losses import Loss, Term, appo
from league.models.policies.policy import initial_weights
from storage.archive import Archive
from storage.errors import Mistake
from tests.league.learning.conftest import same

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


# ---------------------------------------------------------------------- its value and its weight


def test_a_term_is_reported_and_weighed_and_leaves_the_other_parts_alone(make_spec, make_episodes, loss_of):
    (batch,) = minibatches(uneven(make_episodes), 99, 99)
    plain = Learner("main-0", make_spec(), LearnerSettings(), seed=1)
    parts = plain.update_from_batch(batch)
    square = Term("square", lambda steps: steps.value.square(), weight=[[0.0, 0.0], [1.0, 4.0]])
    objective = Objective(make_spec(), loss_of(square))
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


def test_peers_add_up_to_the_terms_and_the_hold_of_the_whole_minibatch(make_spec, make_episodes, loss_of):
    magnet = {"kind": "initial", "weight": 0.5}
    settings = loss_of(Term("mine", lambda steps: steps.value.square()), magnet=magnet)
    objective = Objective(make_spec(), settings)
    learner = Learner("main-0", make_spec(), settings, seed=1)
    learner.load_state(dataclasses.replace(learner.state(), weights=initial_weights(make_spec(), 2)))

    def share(rank, size):
        peers = type("Peer", (), {"rank": rank, "size": size})()
        (batch,) = minibatches(uneven(make_episodes), 99, 99, peers=peers)
        return dict(zip(objective.names, objective.backward(batch, learner.trainee).tolist(), strict=True))

    first, second, whole = share(0, 2), share(1, 2), share(0, 1)
    assert whole["magnet_kl"] > 0.0
    for name in ("mine", "magnet_kl"):
        assert first[name] + second[name] == pytest.approx(whole[name], rel=1e-5)


# ---------------------------------------------------------------------- the reference


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
    assert same(state.reference, initial_weights(spec, 1))
    assert any(not torch.equal(state.weights[name], t) for name, t in state.reference.items())
    other.load_state(LearnerState.from_tensors(state.to_tensors(), state.updates, state.env_steps))
    assert same(other.state().reference, state.reference)
    reports = [each.update_from_episodes(uneven(make_episodes, seed=9)) for each in (learner, other)]
    assert reports[0] == reports[1]
    learner.reset(initial_weights(spec, 7))
    assert same(learner.state().reference, initial_weights(spec, 7))


@pytest.mark.slow
def test_the_example_runs_resumes_and_records_its_term(tmp_path):
    settings = yaml.safe_load((Path(__file__).parents[4] / "configs" / "own_loss.yaml").read_text())
    run = league.train(settings | {"stop": {"env_steps": 40_000}}, tmp_path / "run")
    first = LearnerState.from_tensors(*saved(run)).reference
    league.train(settings | {"stop": {"env_steps": 80_000}}, run, resume=True)
    assert same(LearnerState.from_tensors(*saved(run)).reference, first)
    with analysis.open_run(run) as history:
        metrics = [json.loads(row) for row in history.sql("SELECT metrics FROM updates")["metrics"]]
    assert len(metrics) >= 2
    assert all(0.0 <= found["reference_kl"] < 1.0 for found in metrics)


def saved(run):
    with Archive.open(run) as archive:
        tensors, meta = archive.load_learner("main-0")
    return tensors, meta["updates"], meta["env_steps"]


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", ["entropy", "loss", "lag", "gradient_norm", "replay_steps", "queue_mine"])
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
