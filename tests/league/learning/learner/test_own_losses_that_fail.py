"""A loss of the user's own that fails is one message with its place, before training where it can be."""

import pytest

from league.config.file import ConfigError
from league.config.loading import load
from league.import_paths import OwnCodeFailed
from league.learning.learner.learner import Learner, LearnerSettings

MODULE = """import numpy as np
from league.extend import Loss, Replay, Term

def plain(log_probs, advantage, clip, beta):
    return -beta * log_probs.now * advantage

def misspelt(log_probs, advantage, clip):
    return -log_probs.new * advantage

def whole(log_probs, advantage, clip):
    return -(log_probs.now * advantage).mean()

def undefined(log_probs, advantage, clip):
    return 0.0 * log_probs.now / 0.0

calls = []

def late(log_probs, advantage, clip):
    calls.append(1)
    if len(calls) > 1:
        raise RuntimeError("not twice")
    return -log_probs.now * advantage

PLAIN = Loss(plain, "gae", options={"beta": 1.0})
WITHOUT = Loss(plain, "gae")
UNASKED = Loss(plain, "gae", options={"beta": 1.0, "most": 2.0})
STEPS = Loss(plain, "gae", sees="steps")
MISSPELT = Loss(misspelt, "vtrace")
WHOLE = Loss(whole, "gae")
UNDEFINED = Loss(undefined, "gae")
LATE = Loss(late, "vtrace")
TERM = Term("mine", lambda steps: steps.nothing)

class Short(Replay):
    def chances(self, block):
        return np.ones(1)

class Forgetful(Replay):
    def __init__(self, capacity_steps, lost):
        super().__init__(capacity_steps)

    def state(self):
        return {"mine": np.ones(1)}
"""


@pytest.fixture(autouse=True)
def module(own_module):
    own_module("failing_losses", MODULE)


def config(loss="failing_losses:PLAIN", **learner):
    return {"env": {"id": "tic_tac_toe"}, "runners": 0, "learner": {"loss": loss, **learner}}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WITHOUT", r"the function of 'failing_losses:WITHOUT' .*, expected \(log_probs, advantage, clip\)"),
        ("UNASKED", r"takes other arguments, expected \(log_probs, advantage, clip, beta, most\)"),
        ("STEPS", r"takes other arguments, expected \(steps\)"),
        ("MISSPELT", r"learner.loss failing_losses:MISSPELT: AttributeError: .* line 8, in misspelt\)"),
        ("WHOLE", r"learner.loss 'failing_losses:WHOLE' gave shape \[\], expected one loss for each step"),
    ],
)
def test_a_loss_that_cannot_work_is_refused_before_training(name, message):
    with pytest.raises(ConfigError, match=message):
        load(config(f"failing_losses:{name}"))


def test_a_term_that_cannot_work_is_refused_before_training_with_its_name():
    with pytest.raises(ConfigError, match=r"term 'mine' failing_losses:<lambda>: AttributeError: .*line 32"):
        load(config("appo", terms={"close": {"use": "failing_losses:TERM"}}))


@pytest.mark.parametrize(
    ("replay", "message"),
    [
        ("failing_losses:TERM", "expected a class that derives from league.extend.Replay, found Term"),
        ("failing_losses:Short", r"chances returned shape \[1\], expected \[2\], one finite number"),
        ({"use": "failing_losses:Forgetful"}, "missing 1 required positional argument: 'lost'"),
        ({"use": "failing_losses:Forgetful", "lost": 1}, "Forgetful: TypeError: .* missing 11"),
        ("failing_losses:Absent", "module 'failing_losses' has no 'Absent'"),
        ({"kind": "prioritized"}, r"learner.replay: found 'prioritized'; did you mean 'prioritised'\?"),
    ],
)
def test_a_replay_that_cannot_work_is_refused_before_training(replay, message):
    replay = {"use": replay} if isinstance(replay, str) else replay
    with pytest.raises(ConfigError, match=message):
        load(config("appo", replay={**replay, "proportion": 0.5}))


def test_a_loss_that_works_is_accepted_also_if_made_up_steps_mean_nothing_to_it():
    assert load(config()).learner.has_own_parts
    assert load(config("failing_losses:UNDEFINED")).learner.has_own_parts
    assert not load(config("appo")).learner.has_own_parts


def test_a_loss_that_fails_later_is_named_with_file_and_line(make_spec, make_episodes):
    settings = LearnerSettings(loss="failing_losses:LATE", batch_steps=8)
    learner = Learner("main-0", make_spec(), settings, seed=1)
    learner.update_from_episodes(make_episodes([8]))
    before = learner.weights()
    message = r"^learner.loss failing_losses:LATE: RuntimeError: not twice \(.*failing_losses.py, line 21, in"
    with pytest.raises(OwnCodeFailed, match=message):
        learner.update_from_episodes(make_episodes([8]))
    assert all((learner.weights()[name] == tensor).all() for name, tensor in before.items())
