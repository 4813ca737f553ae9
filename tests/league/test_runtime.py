"""What is asked of a machine is checked before anything starts."""

import sys

import pytest
import torch

import league
from league.runtime import ResourceSettings, check_resources, ray_session
from storage.errors import Mistake

LACKING = torch.cuda.device_count() + 1


def test_more_gpus_than_there_are_is_refused_and_nothing_is_written(tmp_path):
    config = {"env": {"id": "tic_tac_toe"}, "resources": {"gpus": LACKING}}
    with pytest.raises(Mistake, match=f"resources.gpus is {LACKING}, but torch sees {LACKING - 1} here"):
        league.train(config, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_runners_without_ray_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_resources(ResourceSettings(), 0)
    with pytest.raises(Mistake, match="runners is 2, but ray is not installed"):
        check_resources(ResourceSettings(), 2)


@pytest.mark.slow
def test_a_session_has_room_for_every_actor_whatever_the_cores():
    with ray_session(ResourceSettings(), num_actors=100):
        import ray

        assert ray.cluster_resources()["CPU"] >= 100
    assert not ray.is_initialized()
