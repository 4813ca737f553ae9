"""One stored competitor plays episodes: alone, or with an opponent in all other seats."""

import json
import sys

import numpy as np
import pytest

from league.arena.evaluation import _places, evaluate, figure
from storage.errors import Mistake, NotARun


@pytest.fixture(scope="module")
def runs(make_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    return {
        env: make_run(folder / env, env=env, snapshots=1, options=options)
        for env, options in {"tic_tac_toe": {}, "recall": {}, "whist": {}}.items()
    }


# ---------------------------------------------------------------- figures


def test_an_interval_covers_the_mean_of_most_samples():
    rng = np.random.default_rng(0)
    found = [figure(rng.normal(3.0, 2.0, (12, 2))) for _ in range(400)]
    covered = np.mean([own.low <= 3.0 <= own.high for own in found])
    assert 0.92 < covered < 0.98
    assert all(own.least <= own.low <= own.mean <= own.high <= own.most for own in found)


def test_rare_failures_widen_the_interval_on_their_side_alone():
    values = np.ones((100, 1))
    values[0] = -1.0
    found = figure(values)
    assert found.mean == pytest.approx(0.98)
    assert found.low is not None
    assert found.high is not None
    assert found.mean - found.low > 2 * (found.high - found.mean)
    assert found.high < 1.0


def test_episodes_that_are_all_alike_have_no_interval():
    assert figure(np.ones((50, 2))).low is None
    assert figure(np.array([[0.0, 1.0]])).high is None  # one seed
    assert figure(np.arange(10.0)[:, None], alike=True).low is None


def test_a_place_is_one_the_competitor_can_take_while_the_opponent_fills_the_others():
    names, teams = ["a", "b"], np.array([0, 0, 1, 1])
    everything = {0, 1, 2, 3}
    assert _places(names, [everything, everything], teams, "x") == [0, 1]
    assert _places(names, [everything, {2, 3}], teams, "x") == [0]
    with pytest.raises(Mistake, match=r"'a' can take seats \[0\] .* 'b' \[2, 3\]"):
        _places(names, [{0}, {2, 3}], teams, "x")


# ---------------------------------------------------------------- games


def test_a_game_for_one_is_evaluated_without_an_opponent(runs):
    found = evaluate(runs["recall"], "perfect", episodes=30)
    assert (found.opponent, found.score, found.outcomes) == (None, None, None)
    assert (found.returned.mean, found.returned.low) == (1.0, None)
    assert found.ends == {"finished": 30}
    assert found.length.mean == 20.0
    snapshot = evaluate(runs["recall"], "main-0", episodes=30)
    assert snapshot.returned.low < snapshot.returned.mean < snapshot.returned.high
    with pytest.raises(Mistake, match="'recall' has one seat"):
        evaluate(runs["recall"], "main-0", opponent="random")


def test_each_seed_is_played_from_every_place(runs):
    found = evaluate(runs["tic_tac_toe"], "perfect", episodes=41)
    assert (found.opponent, found.episodes) == ("random", 42)
    assert [place.episodes for place in found.places] == [21, 21]
    assert found.score.mean > 0.8
    assert found.score.low < found.score.mean <= found.score.high
    assert found.score.mean == pytest.approx(np.mean([place.score for place in found.places]))
    assert sum(found.outcomes.values()) == 42


def test_one_competitor_plays_all_seats_of_a_team(runs):
    found = evaluate(runs["whist"], "thrifty", opponent="random", episodes=40)
    assert [place.place for place in found.places] == [1, 2]
    assert found.score.mean > 0.5
    assert found.length.most == 20.0


def test_the_same_seed_gives_the_same_figures_and_another_one_others(runs):
    first, again, other = (evaluate(runs["tic_tac_toe"], "main-0", seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_matches_without_chance_are_said_to_be_one(make_run, tmp_path):
    run = make_run(tmp_path / "run", snapshots=2)
    found = evaluate(run, "main-0@0:greedy", opponent="main-0@1:greedy", episodes=20)
    assert found.alike
    assert (found.score.low, found.returned.low, found.length.low) == (None, None, None)


def test_more_episodes_than_one_batch_are_all_counted(runs):
    found = evaluate(runs["tic_tac_toe"], "random", episodes=700)
    assert found.episodes == found.counted == 700
    assert abs(found.score.mean - 0.5) < 0.1


def test_the_run_of_a_tournament_is_refused_by_name(make_run, tmp_path):
    with pytest.raises(NotARun, match="run of a tournament"):
        evaluate(make_run(tmp_path / "cup", competitors=[]), "main-0")


# ---------------------------------------------------------------- the command


def test_the_command_says_score_return_length_and_ends(league_here, runs):
    done = league_here("evaluate", runs["tic_tac_toe"], "perfect", "--bot", "one_ply", "--episodes", 20)
    assert done.returncode == 0, done.stderr
    for part in ("perfect in tic_tac_toe against one_ply: 20 episodes", "score ", "win ", "(95 %)", "length",
                 "20 by the rules of the game", "place"):  # fmt: skip
        assert part in done.stdout
    alone = league_here("evaluate", runs["recall"], "main-0:greedy").stdout
    assert "main-0@0:greedy in recall: 100 episodes" in alone
    assert "score" not in alone


def test_json_of_the_command_keeps_its_keys(league_here, runs):
    done = league_here("evaluate", runs["recall"], "main-0", "--json", "--seed", 5)
    found = json.loads(done.stdout)
    assert set(found) == {
        "competitor", "env", "opponent", "episodes", "counted", "return", "score", "outcomes", "length",
        "ends", "places", "alike", "seed", "failures",
    }  # fmt: skip
    assert set(found["return"]) == {"mean", "low", "high", "least", "most"}
    assert found["places"][0]["return"]["mean"] == found["return"]["mean"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("recall", "main-0", "--bot", "random"), "'recall' has one seat"),
        (("tic_tac_toe", "main-9"), "'main-9' is no snapshot"),
        (("tic_tac_toe", "main-0", "--bot", "perfekt"), "nearest: perfect"),
        (("tic_tac_toe", "main-0", "--episodes", "0"), "--episodes"),
        (("tic_tac_toe", "main-0", "--seed", str(2**70)), "--seed"),
    ],
)
def test_a_mistake_is_one_message(arguments, problem, league_here, runs):
    done = league_here("evaluate", runs[arguments[0]], *arguments[1:])
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_an_evaluation_needs_no_ray(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it fails
    assert evaluate(runs["recall"], "main-0", episodes=2).episodes == 2


@pytest.mark.parametrize("name", ["failing_opponent:choose", "function:failing_opponent:choose"])
def test_a_function_plays_by_its_path_alone_and_what_it_fails_at_is_told(snapshots_run, own_module, name):
    source = (
        "def choose(observation, mask, rng):\n    return mask.argmax(1) if observation.sum() < 3 else [9]\n"
    )
    own_module("failing_opponent", source)
    found = evaluate(snapshots_run, "main-0", opponent=name, episodes=4)
    assert found.opponent == name
    assert found.ends == {"illegal_action": 4}
    assert found.outcomes == {"win": 4, "draw": 0, "loss": 0, "forfeit": 0}
    ((cause, count),) = found.failures.items()
    assert count == 4
    assert "9 is no legal action there (" in cause
    assert cause.endswith("failing_opponent.py, line 1)")


@pytest.mark.parametrize("opponent", ["random", "perfect"])
def test_where_a_win_returns_1_and_a_loss_minus_1_return_and_score_have_one_interval(snapshots_run, opponent):
    found = evaluate(snapshots_run, "main-0", opponent=opponent, episodes=8)
    for end in ("mean", "low", "high"):
        assert getattr(found.returned, end) == pytest.approx(2.0 * getattr(found.score, end) - 1.0)


def test_what_both_fail_at_alike_is_counted_for_both(snapshots_run, own_module):
    own_module("failing_alike", "def choose(observation, mask, rng):\n    raise ValueError('no')\n")
    bot = "failing_alike:choose"
    found = evaluate(snapshots_run, bot, opponent=bot, episodes=6)
    assert list(found.failures.values()) == [6]
