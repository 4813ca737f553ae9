"""Losses and terms have options, which a config sets; a policy loss may see all that a term sees."""

import pytest
from pydantic import ValidationError

from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.losses import Loss, Term, appo

HOME = "league.learning.maths.losses"


@pytest.fixture
def settings_of(monkeypatch):
    """Settings of a learner with this loss; `parts` are found under names of their own."""

    def make(loss=None, parts=None, options=None, **settings):
        for name, part in {"MINE": loss, **(parts or {})}.items():
            monkeypatch.setattr(f"{HOME}.{name}", part, raising=False)
        chosen = {"loss": {"use": f"{HOME}:MINE", **(options or {})}} if loss is not None else {}
        return LearnerSettings(**{"batch_steps": 8, "sequence_length": 3, **chosen, **settings})

    return make


def one_batch(make_episodes):
    (batch,) = minibatches(make_episodes([2, 5, 1], [False, True, False]), 99, 99)
    return batch


def reported(make_spec, make_episodes, settings, progress=0.0):
    learner = Learner("main-0", make_spec(), settings, seed=1)
    learner._progress = progress
    return learner.update_from_batch(one_batch(make_episodes))


def scaled(log_probs, advantage, clip, *, beta):
    return 0.0 * log_probs.now + beta


SCALED = Loss(scaled, "vtrace", options={"beta": 2.0})


@pytest.mark.parametrize(
    ("options", "progress", "expected"),
    [({}, 0, 2), ({"beta": 5}, 0, 5), ({"beta": {"start": 1, "end": 3}}, 0.5, 2), ({"beta": -1}, 0, -1)],
)
def test_a_policy_loss_receives_the_present_value_of_its_options(
    make_spec, make_episodes, settings_of, options, progress, expected
):
    settings = settings_of(SCALED, options=options)
    assert reported(make_spec, make_episodes, settings, progress)["policy_loss"] == pytest.approx(expected)
    assert LearnerSettings.model_validate_json(settings.model_dump_json()) == settings


def test_terms_of_a_loss_see_its_options(make_spec, make_episodes, settings_of):
    term = Term("mine", lambda steps: 0.0 * steps.value + steps.options["beta"])
    settings = settings_of(Loss(scaled, "vtrace", (term,), {"beta": 2.0}), options={"beta": 7.0})
    assert reported(make_spec, make_episodes, settings)["mine"] == pytest.approx(7.0)


def test_a_policy_loss_may_see_everything_that_a_term_sees(make_spec, make_episodes, settings_of):
    seen = []

    def full(steps):
        seen.append(steps)
        return -steps.log_probs.now * steps.advantage * steps.options["beta"]

    settings = settings_of(Loss(full, "vtrace", options={"beta": 2.0}, sees="steps"), options={"clip": 0.3})
    reported(make_spec, make_episodes, settings)
    (steps,) = seen
    assert steps.parameters.shape == (8, 3)
    assert steps.parameters.requires_grad
    assert steps.value.shape == (8,)
    assert steps.mask.shape == (8, 3)
    assert steps.clip == 0.3


@pytest.mark.parametrize("weight", [0.5, {"start": 1.0, "end": 0.0}])
def test_a_config_adds_terms_with_weights_and_options(make_spec, make_episodes, settings_of, weight):
    far = Term("far", lambda steps: (steps.value - steps.options["goal"]).square(), options={"goal": 0.0})
    settings = settings_of(
        parts={"FAR": far}, terms={"far": {"use": f"{HOME}:FAR", "weight": weight, "goal": 3.0}}
    )
    found = reported(make_spec, make_episodes, settings, progress=0.5)
    learner = Learner("main-0", make_spec(), settings, seed=1)
    value = learner.trainee.forward(one_batch(make_episodes))[1][:8].detach()
    assert found["far"] == pytest.approx(float((value - 3.0).square().mean()), rel=1e-5)
    (term,) = settings.composed_loss().terms
    assert term.options == {"goal": 3.0}
    assert LearnerSettings.model_validate_json(settings.model_dump_json()) == settings


def test_a_term_of_a_config_may_compare_with_the_reference(make_spec, make_episodes, settings_of):
    close = Term("close", lambda s: s.kl(s.reference.parameters, s.parameters), reference="initial")
    settings = settings_of(parts={"CLOSE": close}, terms={"close": {"use": f"{HOME}:CLOSE", "weight": 0.1}})
    learner = Learner("main-0", make_spec(), settings, seed=1)
    assert learner.update_from_batch(one_batch(make_episodes))["close"] == pytest.approx(0.0, abs=1e-6)
    assert learner.state().reference != {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"bta": 1}}, r"loss.bta: no option of loss '.*MINE'; did you mean 'beta'"),
        ({"options": {"beta": "much"}}, "loss.use.beta"),
        ({"options": {"beta": float("nan")}}, "loss.use.beta"),
        ({"terms": {"upg": {"weight": 1}}}, "terms: found 'upg'; did you mean 'upgo'"),
        ({"terms": {"upgo": {"wieght": 1}}}, "wieght: no option of term 'upgo'; did you mean 'weight'"),
        ({"terms": {"mine": {"use": f"{HOME}:MINE"}}}, "expected a league.learning.maths.terms.Term"),
        ({"terms": {"mine": {"use": f"{HOME}:NOTHING"}}}, "has no 'NOTHING'"),
        (
            {"terms": {"upgo": {}, "twice": {"use": f"{HOME}:TWICE"}}},
            "term 'upgo': found 2 terms of this name",
        ),
    ],
)
def test_what_does_not_exist_is_refused_by_name(settings_of, fields, message):
    with pytest.raises(ValidationError, match=message):
        settings_of(SCALED, {"TWICE": Term("upgo", lambda steps: steps.value)}, **fields)


def test_a_loss_without_options_has_none():
    with pytest.raises(ValidationError, match=r"loss\.ppo\.beta"):
        LearnerSettings(loss={"kind": "ppo", "beta": 1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Loss(appo, "vtrace", options={"Beta": 1}), "found option 'Beta', expected lower case"),
        (
            lambda: Loss(appo, "vtrace", options={"beta": "x"}),
            "found 'x' as option 'beta', expected a number",
        ),
        (
            lambda: Loss(appo, "vtrace", sees="all"),
            "found sees 'all', expected 'log_probs', 'steps' or 'batch'",
        ),
        (lambda: Term("mine", appo, options={"weight": 1}), "option 'weight', which every term has"),
    ],
)
def test_a_loss_or_a_term_that_contradicts_itself_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
