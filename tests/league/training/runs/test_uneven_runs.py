"""Leagues whose members differ: in what they see, how they act, the network, and the seats they take."""

import numpy as np
import pytest

import analysis
import league
from league.config.file import ConfigError
from league.config.loading import load
from league.models.policies.policy import Policy
from league.training.counterfactual import replay
from league.training.resume import ResumeRefused
from league.training.sources import Sources
from storage.archive import Archive, open_reader
from storage.errors import Mistake
from storage.upkeep.exports import export_snapshot
from storage.upkeep.imports import import_snapshot

pytestmark = pytest.mark.slow

ENVS = "gymnasium:CartPole-v1+CartPole-v1+MountainCarContinuous-v0"


def config(**changes):
    fields = {
        "env": {"id": ENVS, "options": {"scale": [0.01, 0.01, 0.05]}},
        "policy": {"hidden": [8]},
        "league": {
            "preset": "pfsp",
            "freeze_every": 300,
            "players": {"main": 1, "challenger": 1, "climber": 1},
            "roles": {
                "main": {"seats": [0]},
                "challenger": {
                    "seats": [1],
                    "policy": {"memory": {"kind": "gru", "size": 4}},
                    "opponents": {"branches": {"pfsp": {"share": 1.0}}},
                    "freeze": {"max_steps": 300},
                },
                "climber": {
                    "seats": [2],
                    "policy": {"hidden": [4, 4], "connectors": [{"kind": "normalise"}]},
                    "opponents": {"branches": {"pfsp": {"share": 1.0}}},
                    "freeze": {"max_steps": 300},
                },
            },
        },
        "rollout": {"slots": 4, "matches_per_request": 4, "step_limit": 120},
        "learner": {"batch_steps": 100, "sequence_length": 20},
        "runners": 0,
        "stop": {"env_steps": 6_000},
    }
    return {**fields, **changes}


def four_cartpoles(**changes):
    members = {f"main-{i}": {"seats": [i]} for i in range(4)}
    members["main-2"]["policy"] = {"hidden": [16]}
    return config(
        env={"id": "gymnasium:CartPole-v1", "options": {"seats": 4}},
        league={"preset": "none", "players": {"main": 4}, "members": members, **changes},
    )


@pytest.fixture(scope="module")
def champion(tmp_path_factory):
    return league.train(config(), tmp_path_factory.mktemp("runs") / "champion")


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return league.train(four_cartpoles(), tmp_path_factory.mktemp("runs") / "four")


def test_champions_and_challengers_of_different_games_learn_in_one_league(champion):
    history = analysis.open_run(champion)
    learned = history.sql(
        "SELECT player, max(env_steps) AS steps FROM updates GROUP BY player ORDER BY player"
    )
    assert learned["player"].tolist() == ["challenger-0", "climber-0", "main-0"]
    assert (learned["steps"] > 300).all()


def test_nobody_sits_where_it_cannot_play(champion):
    seated = analysis.open_run(champion).sql("SELECT DISTINCT seat, competitor FROM seats")
    owner = seated["competitor"].str.partition("@")[0]
    assert owner.groupby(seated["seat"]).unique().map(list).to_dict() == {
        0: ["main-0"],
        1: ["challenger-0"],
        2: ["climber-0"],
    }


def test_snapshots_carry_the_policies_of_their_players(champion):
    shown = {}
    for player in ("main-0", "challenger-0", "climber-0"):
        policy = league.load_policy(champion, player)
        assert isinstance(policy, Policy)
        shown[player] = (
            policy.spec.settings.memory.kind,
            policy.spec.action.kind,
            policy.spec.observation.shape,
        )
    assert shown == {
        "main-0": ("none", "discrete", (4,)),
        "challenger-0": ("gru", "discrete", (4,)),
        "climber-0": ("none", "continuous", (2,)),
    }


def test_frozen_opponents_are_played_and_rated_across_the_games(champion):
    payoff = analysis.open_run(champion).payoff()
    frozen = payoff[(payoff["home"] == "main-0") & payoff["away"].str.contains("@")]
    assert {away.partition("@")[0] for away in frozen["away"]} == {"challenger-0", "climber-0"}


@pytest.mark.long
def test_the_league_goes_on_where_it_stopped(tmp_path):
    run = league.train(config(stop={"env_steps": 2_000}), tmp_path / "run")
    before = analysis.open_run(run).matches().astype(str)
    league.train(config(stop={"env_steps": 4_000}), run, resume=True)
    after = analysis.open_run(run).matches().astype(str)
    assert len(after) > len(before)
    assert after.iloc[: len(before)].equals(before)


@pytest.mark.parametrize(
    ("part", "value"), [("policy", {"memory": {"kind": "lstm", "size": 4}}), ("seats", [0])]
)
def test_a_player_keeps_its_policy_and_its_seats(champion, part, value):
    other = config()
    other["league"]["roles"]["challenger"][part] = value
    if part == "seats":  # another player must be there instead
        other["league"]["roles"]["main"]["seats"] = [1]
    with pytest.raises(ResumeRefused, match=rf"{part} of (challenger|main)-0 is .*begun with"):
        league.train(other, champion, resume=True)


@pytest.mark.long
def test_the_same_seed_gives_the_same_league(tmp_path):
    short = config(stop={"env_steps": 1_500}, log={"seconds": 1_000})  # rows cut by the clock shift `seq`
    one, other = (analysis.open_run(league.train(short, tmp_path / name)) for name in ("a", "b"))
    seats = "SELECT seq, seat, competitor, learning, outcome, score, rank FROM seats ORDER BY ALL"
    assert one.sql(seats).equals(other.sql(seats))


def test_four_agents_train_each_its_own_policy_without_any_league(four):
    history = analysis.open_run(four)
    seats = history.sql("SELECT DISTINCT seat, competitor, learning FROM seats ORDER BY seat")
    assert seats["competitor"].tolist() == ["main-0", "main-1", "main-2", "main-3"]
    assert seats["learning"].all()
    trained = history.sql("SELECT player, max(env_steps) AS steps FROM updates GROUP BY player")
    assert len(trained) == 4
    played = int(history.sql("SELECT sum(env_steps) AS steps FROM matches")["steps"].item())
    assert trained["steps"].sum() > 0.8 * played  # every seat's steps are learned from, by its own player


def test_policies_of_one_league_may_differ_in_width(four):
    widths = [league.load_policy(four, f"main-{i}").spec.settings.hidden for i in range(4)]
    assert widths == [(8,), (8,), (16,), (8,)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"main-0": {"seats": [4]}}, "seats of main-0: found [4], but 'gymnasium:CartPole-v1' has 4 seats"),
        ({"main-9": {"seats": [0]}}, "members.main-9: no such player; did you mean 'main-0'?"),
        ({"main-0": {"seats": [0]}}, "no player may take seats [1, 2, 3]"),
        (
            {"main-0": {"policy": {"hiden": [8]}}},
            "policy of main-0: unknown key 'hiden'; did you mean 'hidden'?",
        ),
        ({"main-0": {"sets": [0]}}, "sets"),
    ],
)
def test_mistakes_about_members_are_named(change, message):
    fields = four_cartpoles()
    fields["league"] = {"preset": "none", "players": {"main": 1}, "members": change}
    with pytest.raises(ConfigError) as refused:
        load(fields)
    assert message in str(refused.value)


def test_a_player_that_would_sit_in_seats_that_differ_is_told_how_to_say_where():
    fields = config()
    del fields["league"]["roles"]["main"]["seats"]
    with pytest.raises(ConfigError, match=r"seats 0 and 2 differ in what is seen or done there"):
        load(fields)


def test_branches_that_need_everybody_everywhere_are_refused():
    fields = config()
    fields["league"]["roles"]["climber"]["opponents"] = {"branches": {"mains": {"share": 1.0}}}
    with pytest.raises(
        ConfigError, match="branch 'mains' needs a league in which all players may take every seat"
    ):
        load(fields)


def test_a_league_of_even_seats_is_matched_as_ever():
    assert (
        load(config(env={"id": "tic_tac_toe"}, league={"preset": "self_play"})).league.seats_by_competitor()
        is None
    )


def test_scores_of_seats_are_scaled(champion):
    scores = analysis.open_run(champion).sql(
        "SELECT seat, min(score) AS low, max(score) AS high FROM seats GROUP BY seat ORDER BY seat"
    )
    assert np.isclose(scores["high"][0], 1.2, atol=1.3)
    assert scores["low"][2] < 0  # every action of MountainCarContinuous costs


def test_other_rules_that_leave_seats_empty_are_told_so(champion):
    with pytest.raises(Mistake, match="there are seats that no competitor of its league may take"):
        replay(champion, "fictitious")  # which knows mains only


def test_what_other_rules_would_have_drawn_keeps_everybody_in_their_seats(four):
    found = replay(four, "pfsp")
    met = {row.opponent.partition("@")[0] for row in found.opponents if row.player == "main-0" and row.preset}
    assert met == {"main-1", "main-2", "main-3"}


def test_a_snapshot_of_any_of_its_players_may_be_taken_in_and_sits_where_it_can_play(champion, tmp_path):
    run = league.train(config(stop={"env_steps": 500}), tmp_path / "run")
    reader = open_reader(champion)
    export_snapshot(reader, reader.resolve("climber-0@0"), tmp_path / "climber")
    with Archive.open(run) as archive:
        taken = import_snapshot(archive, tmp_path / "climber", "stranger")
        sources = Sources(load(config()), archive)
        assert sources.allowed_seats(taken) == (2,)
        assert sources.spec_of(taken).action.kind == "continuous"
