"""The config keys `learner.magnet`, `learner.ema`, `learner.freeze`: one clear message for each mistake."""

import pytest
from pydantic import ValidationError

from league.config.file import ConfigError
from league.config.loading import load
from league.learning.settings import LearnerSettings

HOLD = {"weight": 0.2}


@pytest.mark.parametrize(
    "fields",
    [
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
        (
            {"magnet": {"kind": "copy", "evry": 3, **HOLD}},
            "unknown key 'PLACE.magnet.evry'; did you mean",
        ),
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
def test_contradictions_are_refused_by_place(fields, message, place):
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


def test_a_loss_of_ours_has_no_use_for_a_target_network_but_one_of_your_own_may(monkeypatch):
    from league.learning.maths.losses import Loss, ppo

    monkeypatch.setattr("league.learning.maths.losses.MINE", Loss(ppo, "gae"), raising=False)
    assert LearnerSettings(loss="league.learning.maths.losses:MINE", target_updates=5).target_updates == 5
    with pytest.raises(ValidationError, match="loss 'ppo' has no use for a target network"):
        LearnerSettings(loss="ppo", target_updates=5)
