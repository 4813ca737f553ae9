"""A learner connector changes what is learned from, deterministically, and is named if it does not work."""

import sys

import numpy as np
import pytest
import torch

from league.import_paths import OwnCodeFailed, trust
from league.learning.data.columns import LearnerConnectors, check_learner_connectors
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.spec import PolicySpec
from league.section import StoredPart
from storage.errors import Mistake, WeightsMismatch

MODULE = """
import numpy as np

from league.extend import Loss, Term


def doubled(columns, rng):
    return {"reward": 2.0 * columns["reward"], "weight": np.abs(columns["reward"])}


def times(columns, rng, by):
    return {"reward": by * columns["reward"]}


def shifted(columns, rng):
    return {"reward": columns["reward"] + rng.normal(), "weight": columns["weight"] + 1.0}


def same(columns, rng):
    return {}


def in_place(columns, rng):
    columns["reward"][:] = 0.0


def shape(columns, rng):
    return {"reward": columns["reward"][:-1]}


def few(columns, rng):
    return {"weight": np.ones(2)}


def fixed(columns, rng):
    return {"offset": columns["offset"]}


def nothing(columns, rng):
    pass


WEIGHT = Term("weight", lambda steps: steps.own["weight"])
"""


@pytest.fixture(autouse=True)
def module(own_module, monkeypatch):
    monkeypatch.setattr("league.import_paths._TRUSTED", set())
    own_module("my_columns", MODULE)


def named(*functions):
    parts = tuple(StoredPart(use=f"my_columns:{name}") for name in functions)
    trust(*(part.use for part in parts))
    return parts


def rng():
    return np.random.default_rng(0)


def test_columns_are_changed_in_order_and_new_ones_are_made(make_episodes):
    """The options of a connector are beside its path."""
    trust("my_columns:times")
    episodes, thrice = make_episodes([3, 2]), StoredPart(use="my_columns:times", by=3.0)
    changed, own = LearnerConnectors((*named("doubled", "shifted"), thrice)).apply(episodes, rng())
    noise = rng().normal()
    assert np.allclose(changed.reward, 3.0 * (2.0 * episodes.reward + noise))
    assert np.allclose(own["weight"], np.abs(episodes.reward) + 1.0)
    assert changed.reward.dtype == np.float32
    assert changed.action is episodes.action


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("in_place", r"my_columns:in_place: ValueError: .* \(.*my_columns.py, line \d+, in in_place\)$"),
        ("shape", r"returned column 'reward' of shape \[4\], expected \[5\]"),
        ("few", r"returned column 'weight' of shape \[2\], expected one row for each of the 5 steps"),
        ("fixed", "returned column 'offset', which no connector may change"),
        ("nothing", "returned a NoneType, expected columns by name"),
    ],
)
def test_a_connector_that_does_not_work_is_named(make_episodes, function, message):
    with pytest.raises(OwnCodeFailed, match=message):
        LearnerConnectors(named(function)).apply(make_episodes([3, 2]), rng())


def test_a_connector_is_tried_before_anything_is_trained(make_spec):
    check_learner_connectors(make_spec(learner_connectors=named("doubled")))
    with pytest.raises(Mistake, match="my_columns:few: returned column 'weight'"):
        check_learner_connectors(make_spec(learner_connectors=named("few")))
    with pytest.raises(Mistake, match="has no 'dubled'; did you mean 'doubled'"):
        check_learner_connectors(make_spec(learner_connectors=named("dubled")))


def test_a_connector_that_only_a_snapshot_names_is_not_imported(make_spec):
    stored = make_spec(learner_connectors=("my_columns:doubled",)).to_json()
    theirs = PolicySpec.from_json(stored)
    assert theirs.to_json() == stored
    assert theirs.own_code == ()  # it plays without it
    with pytest.raises(WeightsMismatch, match=r"policy\.learner_connectors 'my_columns:doubled' is code"):
        Learner("main-0", theirs, LearnerSettings(), 1)
    assert "my_columns" not in sys.modules


@pytest.mark.parametrize("loss", ["appo", "ppo"])
def test_a_learner_learns_from_what_its_connectors_make(make_spec, make_episodes, loss):
    def learned(episodes, *functions):
        settings = LearnerSettings(batch_steps=8, loss=loss)
        learner = Learner("main-0", make_spec(learner_connectors=named(*functions)), settings, 1)
        learner.update_from_episodes(episodes)
        return learner.weights()

    episodes = make_episodes([4, 4, 4])
    plain, twice, again = (learned(episodes, name) for name in ("same", "doubled", "doubled"))
    assert all(torch.equal(plain[name], tensor) for name, tensor in learned(episodes).items())
    assert all(torch.equal(twice[name], again[name]) for name in plain)
    assert not torch.equal(plain["value_head.weight"], twice["value_head.weight"])


def test_a_term_finds_the_new_columns_of_its_steps(make_spec, make_episodes):
    settings = LearnerSettings(
        batch_steps=4, shuffle=True, terms={"weight": {"use": "my_columns:WEIGHT", "weight": 0.0}}
    )
    learner = Learner("main-0", make_spec(learner_connectors=named("doubled")), settings, 1)
    episodes = make_episodes([4, 4, 4], truncated=[False, True, False])
    metrics = learner.update_from_episodes(episodes)
    assert metrics["weight"] == pytest.approx(np.abs(episodes.reward).mean(), rel=1e-5)
