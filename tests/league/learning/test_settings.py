"""The config section `learner`: what contradicts itself is refused by name."""

import pytest
from pydantic import ValidationError

from league.learning.settings import LearnerSettings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"loss": "appoo"}, "found 'appoo'; did you mean 'appo'"),
        ({"entropy": -0.1}, "entropy"),
        ({"value": -1}, "value"),
        ({"optimizer": {"weight_decay": 0.1}}, "optimizer.adam.weight_decay"),
        ({"loss": {"clip": 0}}, "found 0.0, expected more than 0 and less than 1"),
        ({"loss": {"clip": {"start": 0.2, "end": 1}}}, "found 1.0, expected more than 0 and less than 1"),
        ({"kl": 0.1}, "kl: found 0.1, but there is no target network"),
        ({"loss": "ppo", "target_updates": 5}, "target_updates: found 5, but loss 'ppo' has no use"),
        ({"gradient_norm": 0}, "gradient_norm"),
        ({"optimizer": {"kind": "adamw", "momentum": 0.9}}, "optimizer.adamw.momentum"),
    ],
)
def test_contradictions_are_refused_by_name(fields, message):
    with pytest.raises(ValidationError, match=message):
        LearnerSettings(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"loss": "ppo", "epochs": 4, "shuffle": True},
        {"loss": "ppo", "kl": 0.1, "target_updates": 3},
        {"optimizer": {"kind": "adamw", "weight_decay": 0.01}, "gradient_norm": None, "gradient_value": 1.0},
        {"value_lr": {"start": 1e-3, "end": 0, "shape": "cosine"}, "loss": {"clip": [[0, 0.3], [1, 0.1]]}},
    ],
)
def test_what_makes_sense_is_taken_and_survives_being_written_down(fields):
    settings = LearnerSettings(**fields)
    assert LearnerSettings.model_validate_json(settings.model_dump_json()) == settings
