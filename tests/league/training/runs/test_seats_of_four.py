"""Leagues of games for four: two teams, and each seat for itself."""

import pytest

import analysis
import league

OPPONENTS = {
    "branches": {"self_play": {"share": 0.4}, "window": {"share": 0.3}, "bots": {"share": 0.3}},
    "bots": {"random": 1},
    "evaluation": 0.2,
}


@pytest.fixture(scope="module")
def run_of(tiny, tmp_path_factory):
    """Trains a tiny league of one main, which also meets its past and a bot."""

    def train(env, **changes):
        settings = tiny(env, rollout={"matches_per_request": 32}, stop={"env_steps": 15_000}, **changes)
        roles = {"main": {"opponents": OPPONENTS}}
        settings["league"] = {"preset": "self_play", "freeze_every": 3000, "roles": roles}
        return league.train(settings, tmp_path_factory.mktemp("runs") / env)

    return train


@pytest.mark.slow
def test_a_competitor_plays_all_seats_of_a_team_and_one_team_wins(run_of):
    run = run_of("whist", matchmaking={"teams": [2, 2]})
    with analysis.open_run(run) as history:
        teams = history.sql(
            "SELECT purpose, seq, seat // 2 AS team, count(DISTINCT competitor) AS competitors, "
            "count(DISTINCT rank) AS ranks, min(rank) AS rank, min(outcome) AS outcome, min(score) AS score "
            "FROM seats JOIN matches USING (seq) GROUP BY ALL"
        )
        met = history.sql("SELECT DISTINCT purpose, competitor FROM seats JOIN matches USING (seq)")
        rated = set(history.leaderboard()["competitor"])
    assert (teams["competitors"] == 1).all()
    assert (teams["ranks"] == 1).all()
    assert teams.groupby("seq")["rank"].apply(sorted).map(tuple).unique().tolist() == [(0, 2)]
    assert (teams["score"] > 0).equals(teams["rank"] == 0)
    assert set(teams[teams["rank"] == 0]["outcome"]) == {"win"}
    assert set(teams[teams["rank"] == 2]["outcome"]) == {"loss"}
    evaluated = set(met[met["purpose"] == "evaluation"]["competitor"])
    assert {"main-0", "random", "main-0@0"} <= evaluated
    assert {"main-0", "random", "main-0@0"} <= rated


@pytest.mark.long
def test_everybody_for_himself_is_ranked_by_who_lives_longest(run_of):
    run = run_of("tron")
    with analysis.open_run(run) as history:
        seats = history.sql(
            "SELECT seq, seat, competitor, outcome, rank, score FROM seats ORDER BY seq, seat"
        )
        payoff = history.payoff().set_index(["home", "away"])["games"]
        rated = set(history.leaderboard()["competitor"])
    ranks = seats.groupby("seq")["rank"].apply(sorted).map(tuple)
    assert {(0, 1, 2, 3), (0, 0, 2, 3), (0, 1, 2, 2)} <= set(ranks)
    by_score = seats.groupby("seq")["score"].rank(ascending=False, method="min") - 1
    assert (by_score == seats["rank"]).all()
    assert set(seats[seats["rank"] > 0]["outcome"]) == {"loss"}
    assert payoff["main-0", "random"] > 0
    assert {"main-0", "random", "main-0@0"} <= rated
