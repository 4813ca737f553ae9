"""Connectors of a user's own show what they promise, travel as JSON, and are imported only if trusted."""

import sys

import numpy as np
import pytest

from league.config.loading import load
from league.envs.spaces import ActionSpec, ObservationSpec
from league.import_paths import OwnCodeFailed, trust
from league.models.actor import Look
from league.models.connectors import Connectors
from league.models.networks.networks import BadNetwork, check_network
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake, WeightsMismatch

MODULE = """
import numpy as np
from pydantic import Field

from league.envs.spaces import ObservationSpec
from league.extend import Connector


class Scaled(Connector):
    by: float = Field(default=2.0, gt=0)

    def output(self, seen, action):
        return ObservationSpec(seen.shape, "float32")

    def apply(self, observation, memory, reward, seen):
        return (self.by * observation).astype(np.float32)


class Counting(Connector):
    @property
    def wants_reward(self):
        return True

    def output(self, seen, action):
        return ObservationSpec((seen.size + 2,), "float32")

    def memory_size(self, seen, action):
        return 1

    def apply(self, observation, memory, reward, seen):
        return np.concatenate([observation, memory, reward[:, None]], axis=1)

    def acted(self, memory, raw, action):
        memory += 1.0


class Promises(Scaled):
    def output(self, seen, action):
        return ObservationSpec((7,), "float32")


class Breaks(Scaled):
    def apply(self, observation, memory, reward, seen):
        raise RuntimeError("never")


class Later(Scaled):
    def apply(self, observation, memory, reward, seen):
        if observation.any():
            raise ValueError("not this one")
        return observation.astype(np.float32)


class Silent(Scaled):
    def output(self, seen, action):
        pass


class Plain:
    pass
"""
SEEN, ACTION = ObservationSpec((4,), "float32"), ActionSpec("discrete", (3,))


@pytest.fixture
def module(own_module, monkeypatch):
    monkeypatch.setattr("league.import_paths._TRUSTED", set())
    return own_module("my_connectors", MODULE)


def spec(*connectors):
    return PolicySpec(PolicySettings(hidden=(8,), connectors=connectors), SEEN, ACTION)


def test_an_own_connector_changes_what_the_network_is_shown_and_remembers(module):
    trust("my_connectors:Scaled", "my_connectors:Counting")
    both = spec({"use": "my_connectors:Scaled", "by": 3.0}, {"use": "my_connectors:Counting"})
    check_network(both)
    policy = Policy(both, initial_weights(both, 0))
    assert policy.wants_reward
    assert policy.memory_size == 1
    memory, rows = np.zeros((2, 1), np.float32), np.ones((2, 4), np.float32)
    for step in range(2):
        look = Look(rows, np.ones((2, 3), bool), memory, np.full(2, 5.0, np.float32))
        chosen = policy.decide(look, np.random.default_rng(0))
        assert chosen.seen.tolist() == [[3.0, 3.0, 3.0, 3.0, step, 5.0]] * 2


def test_a_spec_with_an_own_connector_survives_json_and_imports_nothing(module):
    stored = spec({"use": "my_connectors:Scaled", "by": 3.0}).to_json()
    found = PolicySpec.from_json(stored)
    assert found.to_json() == stored
    assert found.own_code == ("my_connectors:Scaled",)
    for use in (check_network, lambda s: initial_weights(s, 0), lambda s: Policy(s, {}), lambda s: s.seen):
        with pytest.raises(
            WeightsMismatch, match=r"policy.connectors 'my_connectors:Scaled' is code, .*--trust"
        ):
            use(found)
    assert "my_connectors" not in sys.modules


def test_what_the_variable_of_the_shell_names_is_trusted(module, monkeypatch):
    monkeypatch.setenv("LEAGUE_TRUST", "other:Thing,my_connectors:Scaled")
    found = PolicySpec.from_json(spec({"use": "my_connectors:Scaled", "by": 3.0}).to_json())
    check_network(found)
    monkeypatch.setenv("LEAGUE_TRUST", "my_connectors")
    with pytest.raises(WeightsMismatch, match="or once for all commands of a shell: export LEAGUE_TRUST="):
        check_network(found)


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        ({"use": "my_connectors:Scald"}, "has no 'Scald'; did you mean 'Scaled'?"),
        ({"use": "no_such_module:A"}, "module 'no_such_module' cannot be imported"),
        ({"use": "my_connectors:Plain"}, "expected a class derived from league.extend.Connector"),
        ({"use": "my_connectors:Scaled", "bi": 2.0}, "unknown key 'bi'; expected one of: by"),
        ({"use": "my_connectors:Scaled", "by": -1.0}, "by: found -1.0"),
        ({"use": "my_connectors:Promises"}, r"apply gave \[2, 4\] float32, expected \[2, 7\] float32"),
        ({"use": "my_connectors:Silent"}, r"my_connectors:Silent: .*output gave None, expected an Obs"),
        ({"use": "my_connectors:Breaks"}, r"my_connectors:Breaks: .*: never \(.*, line \d+, in apply\)"),
    ],
)
def test_an_own_connector_that_does_not_work_is_refused_by_name(module, connector, message):
    trust(connector["use"])
    with pytest.raises(BadNetwork, match=f"^policy.connectors: .*{message}"):
        check_network(spec(connector))


def test_a_config_names_a_connector_so_it_is_trusted_and_a_wrong_one_is_refused(module, tmp_path):
    config = {"env": {"id": "tic_tac_toe"}, "policy": {"connectors": [{"use": "my_connectors:Breaks"}]}}
    with pytest.raises(Mistake, match=r"policy\.connectors: my_connectors:Breaks: RuntimeError: never"):
        load(config)
    with pytest.raises(Mistake, match=r"policy\.connectors"):
        load({**config, "policy": {"connectors": [{"kind": "flaten"}]}})


def test_an_own_connector_that_fails_while_it_is_used_is_named(module):
    trust("my_connectors:Later")
    later = spec({"use": "my_connectors:Later"})
    check_network(later)
    pipeline = Connectors(later.settings.connectors, SEEN, ACTION)
    where = r"policy\.connectors my_connectors:Later: ValueError: not this one \(.*, line \d+, in apply\)"
    with pytest.raises(OwnCodeFailed, match=where):
        pipeline.apply(np.ones((2, 4), np.float32), np.zeros((2, 0), np.float32), None)


def test_a_pipeline_without_own_connectors_asks_for_no_trust(module):
    assert Connectors((), SEEN, ACTION).memory_size == 0
    assert spec({"kind": "previous"}).own_code == ()
