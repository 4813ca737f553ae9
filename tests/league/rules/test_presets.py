import pytest
from pydantic import ValidationError

from league.rules.presets import PRESETS, LeagueSettings
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER


def test_the_paper_is_the_paper():
    roles = LeagueSettings(freeze_every=1_000).resolve()
    shares = {r: {b: s.share for b, s in rules.opponents.branches.items()} for r, rules in roles.items()}
    assert shares == {
        MAIN: {"self_play": 0.35, "pfsp": 0.5, "forgotten": 0.15},
        MAIN_EXPLOITER: {"current_main": 0.5, "past_main": 0.5},
        LEAGUE_EXPLOITER: {"pfsp": 1.0},
    }
    assert [rules.freeze.max_steps for rules in roles.values()] == [1_000, 2_000, 1_000]
    assert [rules.freeze.beats for rules in roles.values()] == [None, "mains", "snapshots"]
    assert [rules.reset.probability for rules in roles.values()] == [0.0, 1.0, 0.25]
    assert roles[MAIN_EXPLOITER].opponents.switch_below == 0.2
    assert roles[MAIN_EXPLOITER].freeze.win_rate == 0.7


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("freeze_every", [1, 7, 10**12])
def test_every_preset_is_complete_by_itself(preset, freeze_every):
    settings = LeagueSettings(preset=preset, freeze_every=freeze_every)
    assert settings.resolve().keys() == settings.player_names().keys()
    assert LeagueSettings.model_validate(settings.model_dump(mode="json")) == settings


def test_changes_lie_on_top_of_the_preset():
    changes = {"opponents": {"branches": {"pfsp": {"exponent": 3.0}}}, "freeze": {"max_steps": 5}, "share": 4}
    main = LeagueSettings(roles={"main": changes}).resolve()[MAIN]
    assert main.opponents.branches["pfsp"].exponent == 3.0
    assert main.opponents.branches["pfsp"].share == 0.5
    assert (main.freeze.max_steps, main.share) == (5, 4.0)


def test_names_are_made_of_role_and_number():
    settings = LeagueSettings(players={"main": 2, "main_exploiter": 0, "league_exploiter": 1})
    assert settings.player_names() == {
        MAIN: ["main-0", "main-1"],
        LEAGUE_EXPLOITER: ["league_exploiter-0"],
    }


def test_a_role_of_ones_own_is_described_in_full():
    own = {"opponents": {"branches": {"past_main": {"share": 1.0}}}, "freeze": {"max_steps": 10}}
    settings = LeagueSettings(players={"main": 1, "archivist": 1}, roles={"archivist": own})
    assert settings.resolve()["archivist"].opponents.branches["past_main"].weighting == "hard"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"preset": "alphastar"}, "'alphastar' is unknown.*did you mean 'alphastar_paper'"),
        ({"players": {"main_exploiter": 1}}, "at least one main.*add 'main: 1'"),
        ({"players": {"main": 0}}, "found main: 0"),
        ({"players": {"main": -1}}, "greater than or equal to 0"),
        ({"freeze_every": -5}, "greater than 0"),
        ({"players": {"main": 1, "scout": 1}}, "does not know this role; describe it in full as roles.scout"),
        ({"players": {"main": 1, "scout": 1}, "roles": {"scout": {"share": 2}}}, r"roles\.scout\.opponents"),
        ({"roles": {"mian": {}}}, "did you mean 'main'"),
        ({"roles": {"main": {"frezze": {}}}}, r"roles\.main\.frezze: no such setting; did you mean 'freeze'"),
        ({"roles": {"main": {"opponents": {"branches": {"pfsp": {"share": 0.6}}}}}}, "shares sum to 1.1"),
        ({"roles": {"main": {"freeze": {"win_rate": 70}}}}, r"roles\.main\.freeze\.win_rate"),
        ({"roles": {"main": {"reset": {"probability": 1.0, "target": "named"}}}}, "with no snapshot"),
        ({"decay": 0.0}, "greater than 0"),
    ],
)
def test_contradictions_are_refused_with_where_and_remedy(fields, message):
    with pytest.raises(ValidationError, match=message):
        LeagueSettings.model_validate(fields)
