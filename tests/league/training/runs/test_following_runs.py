"""A champion at CartPole meets challengers at CartPole and at MountainCar, each in its own env."""

import pytest

import analysis
import league
from league.arena.comparison import compare
from league.config.file import ConfigError
from league.config.loading import load
from league.tournament.play import play
from league.tournament.settings import load as load_tournament
from league.training.resume import ResumeRefused
from league.watching.replay import replay
from storage.errors import Mistake

CAR = "gymnasium:MountainCarContinuous-v0"
POLE = "gymnasium:CartPole-v1"
BOTH = {POLE, f"{POLE}+MountainCarContinuous-v0", f"{CAR}+CartPole-v1"}


def config(**changes):
    fields = {
        "env": {"id": POLE, "options": {"seats": 2, "scale": 0.01}},
        "policy": {"hidden": [8]},
        "league": {
            "preset": "pfsp",
            "freeze_every": 300,
            "players": {"main": 1, "climber": 1},
            "roles": {
                "climber": {
                    "env": {"id": CAR, "options": {"scale": 0.05}},
                    "opponents": {"branches": {"current_main": {"share": 0.5}, "pfsp": {"share": 0.5}}},
                    "freeze": {"max_steps": 300},
                }
            },
        },
        "rollout": {"slots": 4, "matches_per_request": 8, "step_limit": 60, "record": 1.0},
        "learner": {"batch_steps": 100, "sequence_length": 20},
        "runners": 0,
        "stop": {"env_steps": 3_000},
    }
    return {**fields, **changes}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return league.train(config(), tmp_path_factory.mktemp("following") / "run")


def envs_of(run):
    """The env of each seat, by the player in it; and the games."""
    with analysis.open_run(run) as history:
        rows = history.sql(
            "SELECT env, seat, split_part(competitor, '@', 1) AS player FROM matches JOIN seats USING (seq)"
        )
    own: dict[str, set[str]] = {}
    for env, seat, player in rows.itertuples(index=False):
        names = env.removeprefix("gymnasium:").split("+")
        own.setdefault(player, set()).add(names[seat if len(names) > 1 else 0])
    return own, set(rows["env"])


@pytest.mark.long
def test_in_the_league_each_seat_is_in_the_env_of_its_competitor_and_all_learn(run):
    own, games = envs_of(run)
    assert own == {"main-0": {"CartPole-v1"}, "climber-0": {"MountainCarContinuous-v0"}}
    assert games >= BOTH
    shapes = {name: league.load_policy(run, name).spec.observation.shape for name in own}
    assert shapes == {"main-0": (4,), "climber-0": (2,)}
    with analysis.open_run(run) as history:
        learned = history.sql("SELECT player, max(env_steps) AS n FROM snapshots GROUP BY 1")
    assert (learned["n"] > 300).all()


@pytest.mark.long
def test_matches_of_all_games_are_replayed_alike(run):
    found = replay(run)
    assert found.matches == found.identical > 20


@pytest.mark.long
def test_a_tournament_and_a_comparison_seat_each_in_its_own_env(run, tmp_path):
    entrants = [{"run": str(run), "names": ["main-0", "climber-0", "main-0@0"]}]
    settings = load_tournament(
        {"competitors": entrants, "schedule": {"pairs": 2}, "rollout": {"record": 1.0}}
    )
    out = play(settings, tmp_path / "out")
    own, games = envs_of(out)
    assert {next(iter(envs)) for player, envs in own.items() if player == "climber-0"} == {CAR[10:]}
    assert games == BOTH
    assert replay(out).identical == 12
    assert play(None, out, resume=True) == out
    played = compare(run, "main-0", "climber-0", pairs=2)
    assert (played.played_pairs, played.tally.games.num_pairs) == (2, 2)
    assert {batch.matches.env for batch in played.results} == BOTH - {POLE}


@pytest.mark.long
def test_a_resumed_run_keeps_the_env_of_a_role(run):
    roles = {"climber": config()["league"]["roles"]["climber"] | {"env": None}}
    changed = config(league=config()["league"] | {"roles": roles})
    with pytest.raises(ResumeRefused, match="env of climber-0 is None, the run was begun with"):
        league.train(changed, run, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"env": {"id": "tic_tac_toe"}}, r"league\.roles\.climber\.env: found env 'tic_tac_toe' of the run"),
        ({"env": {"id": POLE}}, r"league\.roles\.climber\.env: '.*CartPole-v1' has one seat"),
        ({"evaluation": {"yardsticks": [{"bot": "random"}]}}, "found evaluation.yardsticks"),
        ({"rollout": {"fragment_steps": 8}}, "found rollout.fragment_steps as well, expected whole matches"),
    ],
)
def test_an_env_that_no_seat_can_have_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        load(config(**change))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"id": "gymnasium:MountainCra-v0"}, "climber.*did you mean"),
        ({"id": CAR, "options": {"seats": 2}}, "found option 'seats'"),
        ({"idd": CAR}, r"league\.roles\.climber\.env\.idd.*did you mean 'id'"),
    ],
)
def test_a_mistake_in_the_env_of_a_role_is_named(env, message):
    league_of = config()["league"]
    roles = {"climber": league_of["roles"]["climber"] | {"env": env}}
    with pytest.raises((ConfigError, Mistake), match=message):
        load(config(league=league_of | {"roles": roles}))


@pytest.mark.long
def test_an_env_that_is_given_for_no_entrant_is_refused(run, tmp_path):
    entrants = [{"run": str(run), "names": ["main-0@0", "climber-0@0"]}]
    settings = load_tournament({"competitors": entrants, "seat_envs": {"climber-0": {"id": CAR}}})
    with pytest.raises(Mistake, match="seat_envs: 'climber-0' is no entrant; did you mean 'climber-0@0'"):
        play(settings, tmp_path / "out")


@pytest.mark.long
def test_the_settings_of_a_tournament_that_was_played_are_settings_of_another(run, tmp_path):
    entrants = [{"run": str(run), "names": ["main-0@0", "climber-0@0"]}]
    out = play(load_tournament({"competitors": entrants, "schedule": {"pairs": 1}}), tmp_path / "out")
    assert load_tournament(out / "config.yaml").seat_envs["climber-0@0"].id == CAR
