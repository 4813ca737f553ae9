"""A config is complete, cannot contradict itself, and every mistake in it is one sentence."""

import re
import sys
import types
from pathlib import Path

import pytest

from league.commands.reference import all_keys
from league.config.file import ConfigError
from league.config.loading import load
from league.config.settings import Settings
from league.envs import registry
from league.envs.games.tic_tac_toe import TicTacToe
from storage.records import MAIN

LEAGUES = (Path(__file__).parents[3] / "configs").glob("*.yaml")
CONFIGS = sorted(path for path in LEAGUES if path.stem != "tournament")
CONTRACT = [
    "seed",
    "env.id",
    "env.options",
    "policy",
    "league.preset",
    "league.players",
    "matchmaking",
    "learner.loss",
    "learner.lr",
    "runners",
    "resources.gpus",
    "storage",
    "stop.minutes",
    "stop.env_steps",
]
TTT = {"env": {"id": "tic_tac_toe"}}


class Crowd(TicTacToe):
    """Four seats, of which two never act: enough to be refused."""

    id = "crowd"
    num_seats = 4
    observation_spaces = TicTacToe.observation_spaces * 2
    action_spaces = TicTacToe.action_spaces * 2


class Solitaire(TicTacToe):
    """A game for one."""

    id = "solitaire"
    num_seats = 1
    observation_spaces = TicTacToe.observation_spaces[:1]
    action_spaces = TicTacToe.action_spaces[:1]


def test_code_of_the_users_own_is_known_for_every_role_also_of_players_to_come():
    """A runner that takes the place of a dead one meets their snapshots in its first request."""
    roles = {"main_exploiter": {"policy": {"torso": "nets:Late"}}}
    league = {"players": {"main": 1, "main_exploiter": 0}, "roles": roles}
    settings = load({**TTT, "league": league})
    assert "nets:Late" in settings.own_code()
    assert all(spec.own_code == () for spec in settings.policy_specs().values())


@pytest.fixture
def games(monkeypatch):
    """The import path of this module's games, whatever name pytest imported it by."""
    module = types.ModuleType("games_for_config")
    vars(module).update(Crowd=Crowd, Solitaire=Solitaire)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


def mistake(*overrides, **fields):
    """The message that these settings, or overrides of the smallest config, are refused with."""
    with pytest.raises(ConfigError) as caught:
        load(fields or TTT, overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert "pydantic" not in message
    assert "http" not in message
    assert "Value error" not in message
    return message


def write(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_every_key_of_the_contract_exists_and_is_described():
    meanings = {key.path: key.meaning for key in all_keys()}
    assert all(meanings[key] for key in CONTRACT)


def test_every_number_and_word_of_the_schema_is_described():
    schema = Settings.model_json_schema()
    for owner, definition in [("Settings", schema), *schema["$defs"].items()]:
        for name, field in definition.get("properties", {}).items():
            if "$ref" not in field and "const" not in field:
                assert field.get("description"), f"{owner}.{name}"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_in_the_repository_loads_and_is_named_after_its_file(path):
    settings = load(path)
    assert settings.name == path.stem
    assert settings.policy_spec("main-0", MAIN).action.sizes == (settings.game.action_spaces[0].n,)


def test_there_are_configs_to_load():
    assert len(CONFIGS) >= 4


def test_resolved_settings_load_again_as_the_same_settings(tmp_path):
    overrides = ["learner.lr=1e-3", "league.players={main: 2}", "rollout.step_limit=40", "stop.minutes=1.5"]
    settings = load({**TTT, "league": {"roles": {"main": {"share": 2.5}}}}, overrides)
    again = load(write(tmp_path, settings.to_yaml()))
    assert again == settings
    assert again.to_yaml() == settings.to_yaml()


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("override", "key", "nearest"),
    [
        ("learnr.lr=1", "learnr", "learner"),
        ("learner.learning_rate=1", "learner.learning_rate", "expected one of: after_update, batch_steps"),
        ("learner.lrr=1", "learner.lrr", "lr"),
        ("league.roles.main.frieze={}", "league.roles.main.frieze", "freeze"),
        ("league.roles.main.opponents.switch_belwo=0.5", "opponents.switch_belwo", "switch_below"),
        ("league.roles.main.opponents.branches.pfps={share: 0}", "pfps", "pfsp"),
        ("league.roles.mian={}", "league.roles.mian", "main"),
    ],
)
def test_an_unknown_key_is_named_with_its_place_and_the_nearest(override, key, nearest):
    message = mistake(override)
    assert key in message
    assert nearest in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("learner.lr=fast", "config: learner.lr: found 'fast'; input should be a valid number"),
        ("learner.lr=-1", "config: learner.lr: found -1; input should be greater than"),
        ("seed=-1", "config: seed: found -1;"),
        ("runners=1.5", "config: runners: found 1.5;"),
        ("learner.lr={start: 1}", "config: learner.lr.end: missing, expected a value"),
        ("learner=3", "config: learner: found 3, expected a group of settings"),
        ("name=a/b", "config: name: found 'a/b'"),
        ("learner.loss=reinforce", "config: learner.loss: found 'reinforce'; expected appo, impala, ppo,"),
        (
            "league.payoff.unit=score",
            "config: league.payoff.unit: found score, but the game does not declare",
        ),
        ("league.payoff.scale=2", "config: league.payoff.scale: found 2, but payoffs count games won"),
        ("rollout.fragment_weights=began", "config: rollout.fragment_weights: found began without fragment_"),
        ("stop.minutes=.inf", "config: stop.minutes: found inf; input should be a finite number"),
        ("stop.minutes=1e308", "config: stop.minutes: found 1e+308, expected a number below 2^63"),
        (f"learner.batch_steps=1{'0' * 400}", f"config: learner.batch_steps: found 1{'0' * 23}, expected a"),
        ("runners=yes", "config: runners: found True, expected a number"),
        ("name=..", "config: name: found '..'; string should match pattern"),
        ("bots={mine: 'nowhere:f'}", "config: bots: bot 'mine': 'nowhere:f': module 'nowhere' cannot be"),
        (
            "league.roles.main.reset={target: better, perturb: {learner.entrpy: [2]}}",
            "league.roles.main.reset.perturb: 'learner.entrpy' is no number with a fraction; did you mean "
            "'learner.entropy'?",
        ),
        (
            "league.roles.main.reset={target: better, perturb: {learner.discount: [2]}}",
            "league.roles.main.reset.perturb: 'learner.discount' is within bounds, expected a number that",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_place_what_was_found_and_expected(override, expected):
    message = mistake(override)
    assert message.startswith("config: ")
    assert expected in message


def test_all_mistakes_are_told_at_once():
    message = mistake("learner.lr=-1", "seed=x", "runers=1")
    assert "learner.lr" in message
    assert "seed" in message
    assert "did you mean 'runners'" in message


def test_what_follows_from_a_wrong_setting_is_no_mistake_of_its_own():
    assert (
        mistake("league.freeze_every=0")
        == "config: league.freeze_every: found 0; input should be greater than 0"
    )


def test_an_env_is_required():
    assert mistake(seed=1) == "config: env: missing, expected a value"


# ---------------------------------------------------------------- games


def test_a_step_limit_among_the_games_options_is_sent_to_its_place():
    assert mistake("env.options.step_limit=9") == (
        "config: env.options.step_limit: found 9, but the limit belongs to the run, not to the game; "
        "set rollout.step_limit"
    )
    assert load(TTT, ["rollout.step_limit=9"]).game.step_limit == 9


def test_a_game_for_one_is_played_alone_or_not_at_all(games):
    alone = {"env": {"id": f"{games}:Solitaire"}}
    message = mistake(**alone, league={"preset": "alphastar_paper"})
    assert "has 1 seat, but main draws opponents by" in message
    assert "set league.preset to none" in message
    settings = load(alone | {"league": {"freeze_every": 9}})
    assert (settings.game.num_seats, settings.league.preset, settings.league.freeze_every) == (1, "none", 9)


def test_more_seats_than_players_can_fill_are_refused(games):
    crowd = {"env": {"id": f"{games}:Crowd"}}
    exploiters = {"league": {"players": {"main": 2, "main_exploiter": 1}}}
    message = mistake(**crowd, **exploiters)
    assert "the game has 4 seats, more than players can fill" in message
    assert "needs 3 other mains, found 2; set main: 3" in message
    enough = {"league": {"players": {"main": 3, "main_exploiter": 1}}}
    assert load({**crowd, **enough}).game.num_seats == 4
    alone = {"league": {"preset": "self_play"}}  # one player fills any number of seats by itself
    assert load({**crowd, **alone}).league.players == {"main": 1}


def test_a_lone_main_that_should_play_other_mains_is_refused():
    lonely = ["league.preset=none", "league.roles.main.opponents.branches={current_main: {share: 1}}"]
    branches = {"self_play": {"share": 0}, "current_main": {"share": 1}}
    fields = {"preset": "none", "roles": {"main": {"opponents": {"branches": branches}}}}
    assert "needs 1 other mains, found 0; set main: 2" in mistake(**TTT, league=fields)
    assert load({**TTT, "league": {**fields, "players": {"main": 2}}}).league.players == {"main": 2}
    assert "shares sum to 2" in mistake(*lonely)  # a preset's branches are changed, not replaced


# ---------------------------------------------------------------- networks and learners


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["learners.aggregators=3", "runners=2"], "learners.aggregators is 3, more than the 2 runners"),
        (["learners.processes=2"], "learners.processes is 2, but runners is 0"),
        (["learners.shards=9", "runners=2"], "learners.shards is 9, but the league begins with 4 players"),
        (["learners.shards=2"], "learners.shards is 2, but runners is 0: without Ray one process learns;"),
        (
            ["learners.shards=3", "league.players.main=3", "runners=1", "resources.gpus=2"],
            "learners.shards is 3, but resources.gpus is 2, expected a GPU for each shard",
        ),
        (["resources.gpus=8"], "resources.gpus is 8, but runners is 0 and the league begins with 4 players:"),
        (["rollout.device=cuda", "runners=2"], "but resources.gpus_per_runner is 0, so that Ray would give"),
        (["resources.gpus_per_runner=1", "runners=2"], "gpus_per_runner is 1, but rollout.device is cpu"),
        (["resources.gpus_per_runner=0.5", "rollout.device=cuda"], "is 0.5, but runners is 0: nothing"),
        (["resources.gpus_per_runner=1.5"], "resources.gpus_per_runner: found 1.5, expected a whole"),
        (["resources.share_cards=true", "runners=2"], "share_cards is true with gpus 0, gpus_per_runner 0"),
        (
            [
                "resources={share_cards: true, gpus: 2, gpus_per_runner: 0.25}",
                "rollout.device=cuda",
                "runners=4",
            ],
            "4 runners with gpus_per_runner 0.25 take 0.5 of a card of 2, expected less than half",
        ),
        (["resources.wait_seconds=9"], "resources.wait_seconds: found 9 without address"),
        (["league.roles.main.learner.entropy=-1"], "league.roles.main.learner.entropy"),
        (
            ["league.roles.main.learner.aggregators=1"],
            "aggregators, which all players share and which has moved to learners.aggregators",
        ),
        (["policy.torso=transformr"], "transformr"),
        (
            ["policy.mirror={observation: [2, 3, 3], axis: 1, actions: [9]}"],
            "after mirrored moves, a match of 'tic_tac_toe' is not the mirror image",
        ),
        (["policy.mirror={observation: [18], axis: 1, actions: [9]}"], "axis: found 1, expected one of"),
        (["policy.memory=gru", "opening.share=0.1"], "the network of main-0 has a memory"),
        (["env.id=kuhn_poker", "policy.torso=cnn"], "[planes, rows, columns]"),
        (["policy.torso=nowhere:Net"], "nowhere"),
        (["env.id=nowhere:Game"], "module 'nowhere' cannot be imported"),
        (["env.options.size=4"], "has no option 'size'"),
        (["league.preset=alphastar"], "did you mean 'alphastar_paper'?"),
        (["league.players={main: 1, main_exploitr: 1}"], "did you mean 'main_exploiter'?"),
        (["league.roles.main.opponents.branches.pfsp.share=0.9"], "shares sum to"),
        (["resources.address=auto"], "runners is 0"),
        (["bots={main-0: {use: 'json:loads'}}"], "bots: 'main-0' is a player's name already"),
        (["runners=100000"], "runners: found 100,000 in all, but this machine has"),
        (["resources.threads=1000"], "resources.threads: found 1,000, but this machine has"),
        (["league.players.main=1000"], "players: found 1,000 in all, expected at most 512"),
        (
            ["env={id: gymnasium:CartPole-v1, options: {threads: 100000}}"],
            "threads is 100,000, expected at most",
        ),
        (
            [f"league.roles.main.opponents.branches.pfsp.weighting={__name__}:_returns_text"],
            "returned 'hard' for 5 win rates, expected 5 weights",
        ),
    ],
)
def test_what_cannot_be_built_or_trained_is_refused_by_name(overrides, expected):
    assert expected in mistake(*overrides)


# ---------------------------------------------------------------- leagues


@pytest.mark.parametrize(
    "players", ["{}", "{main: 0}", "{main_exploiter: 2}", "{league_exploiter: 1, main: 0}"]
)
def test_roles_without_mains_are_refused(players):
    message = mistake(f"league.players={players}")
    assert message.startswith("config: league.players: found ")
    assert "add 'main: 1'" in message


@pytest.mark.parametrize("value", ["1.01", "-0.1", ".nan"])
@pytest.mark.parametrize("key", ["freeze.win_rate", "opponents.switch_below", "reset.probability"])
def test_thresholds_outside_0_to_1_are_refused(key, value):
    assert f"league.roles.main.{key}" in mistake(f"league.roles.main.{key}={value}")


def test_anchors_are_bots_and_first_snapshots_of_the_league():
    assert "did you mean 'main-0@0'?" in mistake("ratings.anchors={main-0: 0}")
    assert "expected snapshots of this league" in mistake("ratings.anchors={random: 0}")
    assert "found 'high', expected an Elo, or {elo: 0" in mistake("ratings.anchors={main-0@0: high}")
    assert "ratings.anchors.main-0@0.error" in mistake("ratings.anchors={main-0@0: {elo: 0, error: -1}}")
    seated = "league.roles.main.opponents.bots={random: 1}"
    settings = load(TTT, [seated, "ratings.anchors={main-0@0: 300, random: {elo: 0, error: 30}}"])
    assert [(one.elo, one.error) for one in settings.ratings.anchors.values()] == [(300, 0), (0, 30)]
    assert "found anchor, which has moved to anchors; write anchors: {main-0@0: 0}" in mistake(
        "ratings.anchor=main-0@0"
    )


def test_draws_that_happen_may_not_have_probability_0():
    assert "can be drawn; raise it" in mistake("ratings.draw_probability=0")
    poker = {"env": {"id": "kuhn_poker"}}
    assert load(poker, ["ratings.draw_probability=0"]).ratings.draw_probability == 0


def test_nothing_is_refused_by_a_guess_of_how_long_matches_are():
    settings = load(TTT, ["rollout.matches_per_request=1", "learner.batch_steps=4096"])
    assert settings.learner.batch_steps == 4096
    assert load(TTT, ["rollout.fragment_steps=10000000000"]).rollout.fragment_steps == 10**10


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("number", ["1e-3", "1E-3", "+1e-3", ".1e-2", "0.001", "10e-4"])
def test_scientific_notation_is_a_number(tmp_path, number):
    settings = load(write(tmp_path, f"env: {{id: tic_tac_toe}}\nlearner: {{lr: {number}}}"))
    assert settings.learner.lr == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("written", "number"), [("010", 10), ("0o10", 8), ("0x1F", 31), ("1_0", 10), ("0b11", 3)]
)
def test_whole_numbers_are_those_of_yaml_1_2(tmp_path, written, number):
    assert load(write(tmp_path, f"env: {{id: tic_tac_toe}}\nseed: {written}")).seed == number


@pytest.mark.parametrize("name", ["1e5", "0o17", "010", "1_0", ".5", "on", "2024-01-01", "0x1f", "null"])
def test_text_that_looks_like_a_number_is_read_back_as_text(tmp_path, name):
    settings = load(write(tmp_path, f"env: {{id: tic_tac_toe}}\nname: '{name}'"))
    assert load(write(tmp_path, settings.to_yaml())) == settings


def test_keys_of_a_merge_are_defaults_of_those_beside_it(tmp_path):
    text = "env: {id: tic_tac_toe}\nlearner: {<<: {lr: 0.5, epochs: 3}, lr: 0.25}"
    learner = load(write(tmp_path, text)).learner
    assert (learner.lr, learner.epochs) == (0.25, 3)


def test_whole_numbers_stay_whole_and_words_stay_words(tmp_path):
    text = "env: {id: tic_tac_toe}\nseed: 12\nleague: {freeze_every: 1_500}\nname: e3"
    settings = load(write(tmp_path, text))
    assert (settings.seed, settings.league.freeze_every, settings.name) == (12, 1500, "e3")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seed: 1\nenv: {id: tic_tac_toe}\nseed: 2\n", "line 3: key 'seed' is given twice"),
        ("env:\n  id: a\n  id: b\n", "line 3: key 'id' is given twice"),
        ("env: [1, 2\nseed: 1", "line 2: not YAML"),
        ("\tseed: 1", "not YAML"),
        ("- seed", "found list, expected a mapping"),
        ("", "found NoneType, expected a mapping"),
        ("seed", "found str, expected a mapping"),
        ("? [a, b]\n: 1", "found ['a', 'b'] as a key"),
        ("name: 2026-99-99", "month must be in 1..12"),
        ("1: 2\nenv: {id: tic_tac_toe}", "1"),
        ("\nseed: !!int ''", "line 2: '' cannot be read as int"),
        ("\nseed: !!bool perhaps", "line 2: 'perhaps' cannot be read as bool"),
        ("\nname: !!timestamp today", "line 2: 'today' cannot be read as timestamp"),
        (f"seed: 1{'0' * 5000}", f"line 1: '1{'0' * 39}' cannot be read as int"),
        (f"seed: {'[' * 1000}", "groups are nested too deeply"),
        ("name: 'a\0'", 'special characters are not allowed in "<unicode string>"'),
    ],
)
def test_text_that_is_no_config_is_refused_with_its_line(tmp_path, text, expected):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(expected)) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    for path, reason in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=f"cannot be read \\({reason}"):
            load(path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(binary)


def test_yaml_cannot_run_code(tmp_path):
    with pytest.raises(ConfigError, match="not YAML"):
        load(write(tmp_path, "env: !!python/object/apply:os.getcwd []"))


def test_a_file_without_a_name_gives_its_own(tmp_path):
    path = tmp_path / "my league!.yaml"
    path.write_text("env: {id: tic_tac_toe}")
    assert load(path).name == "my-league-"


# ---------------------------------------------------------------- --set


def test_overrides_reach_any_depth_and_the_last_one_wins():
    branches = "league.roles.main.opponents.branches"
    overrides = [f"{branches}.pfsp.share=0.65", f"{branches}.forgotten.share=0", "policy.hidden=[8, 4]"]
    settings = load(TTT, [*overrides, "seed=1", "seed=2", "learner.lr=1e-2"])
    main = settings.league.resolve()["main"]
    assert main.opponents.branches["pfsp"].share == 0.65
    assert settings.policy.hidden == (8, 4)
    assert (settings.seed, settings.learner.lr) == (2, 0.01)


def test_an_override_can_take_a_value_away():
    assert load({**TTT, "stop": {"minutes": 1}}, ["stop.minutes=null"]).stop.minutes is None


def test_overrides_leave_the_callers_mapping_as_it_was():
    fields = {"env": {"id": "tic_tac_toe"}, "learner": {"lr": 0.5}}
    load(fields, ["learner.lr=0.1"])
    assert fields["learner"]["lr"] == 0.5


@pytest.mark.parametrize("override", ["seed", "=3", "learner..lr=1", ".seed=1", "", "learner.=1"])
def test_an_override_without_key_or_value_is_refused(override):
    assert mistake(override) == f"--set {override}: expected key=value, such as learner.lr=1e-3"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("learner.lr=[1", "the value is not YAML"),
        ("env={id: a, id: b}", "key 'id' is given twice"),
        ("seed.x=1", "'seed' is a value, expected a group of settings"),
    ],
)
def test_an_override_that_makes_no_sense_is_refused(override, expected):
    with pytest.raises(ConfigError, match=re.escape(expected)) as caught:
        load({**TTT, "seed": 1}, [override])
    assert f"--set {override}: " in str(caught.value)


def test_settings_are_taken_as_they_are_and_can_be_overridden():
    settings = load(TTT)
    assert load(settings) == settings
    assert load(settings, ["seed=4"]).seed == 4


def test_settings_do_not_change_once_loaded():
    with pytest.raises(ValueError, match="frozen"):
        load(TTT).seed = 3


def test_a_game_of_teams_brings_its_own_unless_the_config_says_others():
    whist = {"env": {"id": "whist"}, "league": {"preset": "self_play"}, "runners": 0}
    assert load(whist).matchmaking.teams == (2, 2)
    assert load({**whist, "matchmaking": {"teams": [1, 3]}}).matchmaking.teams == (1, 3)
    assert "teams:\n  - 2\n  - 2" in load(whist).to_yaml()


def test_the_game_is_made_once_to_be_checked_and_once_to_be_asked(monkeypatch):
    made, make = [], registry.make
    monkeypatch.setattr(registry, "make", lambda *a, **options: made.append(a) or make(*a, **options))
    settings = load(TTT)
    settings.policy_specs()
    settings.make_matchmaker()
    assert len(made) == 2
    assert settings == load(TTT)


def _returns_text(p):
    return "hard"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"min": 3, "max": 2}, r"runners\.min: found 3, expected no more than max, 2"),
        ({"min": 0, "max": 2}, r"runners\.min: found 0"),
        ({"max": 2}, r"runners\.min: missing"),
        (-1, "runners: found -1"),
    ],
)
def test_runners_are_a_number_or_a_range(tiny, given, expected):
    assert load(tiny(runners={"min": 2, "max": 8})).most_runners == 8
    assert load(tiny(runners={"min": 2, "max": 8})).least_runners == 2
    assert load(tiny(runners=3)).most_runners == load(tiny(runners=3)).least_runners == 3
    with pytest.raises(ConfigError, match=expected):
        load(tiny(runners=given))


def test_runners_on_the_learners_cards_are_a_number(tiny):
    given = ["runners={min: 2, max: 8}", "rollout.device=cuda", "resources.gpus=4"]
    shared = ["resources.gpus_per_runner=0.1", "resources.share_cards=true"]
    with pytest.raises(ConfigError, match="share_cards is true with runners from 2 to 8, expected one"):
        load(tiny(), [*given, *shared])
