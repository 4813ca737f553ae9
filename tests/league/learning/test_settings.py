"""The config section `learner`: what contradicts itself is refused by name."""

import pytest
from pydantic import ValidationError

from league.config.file import ConfigError
from league.config.loading import load
from league.learning.maths.losses import Loss, ppo
from league.learning.settings import LearnerSettings

HOLD = {"weight": 0.2}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"loss": "appoo"}, "found 'appoo'; did you mean 'appo'"),
        ({"entropy": -0.1}, "entropy"),
        ({"value": -1}, "value"),
        ({"optimizer": {"weight_decay": 0.1}}, "optimizer.adam.weight_decay"),
        ({"loss": {"clip": 0}}, "found 0.0, expected more than 0 and less than 1"),
        ({"loss": {"clip": {"start": 0.2, "end": 1}}}, "found 1.0, expected more than 0 and less than 1"),
        ({"kl": 0.1}, "found kl, which was removed; leave it out: .*learner.magnet"),
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
        {"optimizer": {"kind": "adamw", "weight_decay": 0.01}, "gradient_norm": None},
        {"lr": {"start": 1e-3, "end": 0, "shape": "cosine"}, "loss": {"clip": [[0, 0.3], [1, 0.1]]}},
        {"magnet": {"kind": "copy", "every": 400, **HOLD}, "ema": {}, "freeze": "ema"},
        {"magnet": {"kind": "ema", "decay": 0.99, "weight": {"start": 1, "end": 0.1, "shape": "power"}}},
        {"magnet": {"kind": "initial", "direction": "forward", **HOLD}},
        {"magnet": {"kind": "snapshot", "run": "runs/a", "snapshot": "main-0", "through": "reward", **HOLD}},
        {"loss": "ppo", "magnet": {"kind": "snapshot", "folder": "best", **HOLD}},
    ],
)
def test_what_makes_sense_is_taken_and_survives_being_written_down(fields):
    settings = LearnerSettings(**fields)
    assert LearnerSettings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"magnet": {"kind": "copy", "evry": 3, **HOLD}}, "unknown key 'PLACE.magnet.evry'; did you mean"),
        ({"magnet": {"kind": "ema", "every": 3, **HOLD}}, "unknown key 'PLACE.magnet.every'"),
        ({"magnet": {"kind": "copi", **HOLD}}, "expected tags: 'copy', 'ema', 'initial', 'snapshot'"),
        ({"magnet": {"kind": "copy"}}, "PLACE.magnet.weight: missing, expected a value"),
        ({"magnet": {"kind": "copy", "weight": -1}}, "PLACE.magnet.weight: found -1"),
        ({"magnet": {"kind": "ema", "decay": 1.0, **HOLD}}, "PLACE.magnet.decay: found 1.0"),
        (
            {"magnet": {"kind": "copy", "through": "reward", "direction": "forward", **HOLD}},
            "PLACE.magnet.direction: found forward with through reward",
        ),
        ({"magnet": {"kind": "snapshot", **HOLD}}, "PLACE.magnet: found nothing, expected run and snapshot"),
        (
            {"magnet": {"kind": "snapshot", "run": "runs/a", **HOLD}},
            "PLACE.magnet: found run runs/a, expected run and snapshot, or folder alone",
        ),
        ({"freeze": "ema"}, "PLACE.freeze: found ema, but no average is kept; set ema: {decay: 0.999}"),
    ],
)
@pytest.mark.parametrize("place", ["learner", "league.roles.main.learner"])
def test_contradictions_of_magnets_are_refused_by_place(fields, message, place):
    config = {"env": {"id": "kuhn_poker"}}
    where = config
    for part in place.split("."):
        where[part] = {}
        where = where[part]
    where |= fields
    with pytest.raises(ConfigError) as caught:
        load(config)
    assert message.replace("PLACE", place) in str(caught.value)
    assert str(caught.value).count(";") < 3


def test_a_loss_of_your_own_may_have_a_target_network_without_a_kl(monkeypatch):
    monkeypatch.setattr("league.learning.maths.losses.MINE", Loss(ppo, "gae"), raising=False)
    assert LearnerSettings(loss="league.learning.maths.losses:MINE", target_updates=5).target_updates == 5
