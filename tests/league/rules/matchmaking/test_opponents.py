import pytest
from pydantic import ValidationError

from league.rules.matchmaking.branches import OpponentSettings


def test_a_branch_is_weighted_as_befits_it_unless_told_otherwise():
    shares = {"pfsp": 0.25, "window": 0.25, "peers": 0.5}
    settings = OpponentSettings.model_validate({"branches": {b: {"share": s} for b, s in shares.items()}})
    assert {b: found.weighting for b, found in settings.branches.items()} == {
        "pfsp": "hard",
        "window": "uniform",
        "peers": "bell",
    }
    told = OpponentSettings.model_validate({"branches": {"window": {"share": 1.0, "weighting": "hard"}}})
    assert told.branches["window"].weighting == "hard"
    assert OpponentSettings.model_validate(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"branches": {"self_play": {"share": 0.5}}}, "shares sum to 0.5 .*expected 1"),
        ({"branches": {}}, "there are none"),
        ({"branches": {"self-play": {"share": 1.0}}}, "did you mean 'self_play'"),
        ({"branches": {"pfsp": {"share": 1.0, "weighting": "hrad"}}}, "did you mean 'hard'"),
        ({"branches": {"placement": {"share": 1.0}}}, "no branch is called 'placement'"),
        ({"branches": {"window": {"share": 1.0, "window": 0}}}, "greater than or equal to 1"),
        ({"branches": {"nash": {"share": 1.0, "meta_strategy": "nahs"}}}, "'nash', 'uniform'"),
        ({"branches": {"bots": {"share": 1.0}}}, "bots: there are none, .*such as bots: {random: 1}"),
        ({"branches": {"pfsp": {"share": 1.0}}, "bots": {"random": 0}}, "greater than 0"),
        ({"branches": {"pfsp": {"share": 1.0}}, "evaluation": 1.0}, "less than 1"),
        ({"branches": {"pfsp": {"share": 1.0}}, "placement": 1.1}, "less than or equal to 1"),
        ({"branches": {"pfsp": {"share": 1.0}}, "evaluate": "all"}, "'player' or 'pool'"),
    ],
)
def test_contradictory_branches_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        OpponentSettings.model_validate(fields)
