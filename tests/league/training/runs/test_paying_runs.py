"""Exploiters cost the main little: their matches are fewer while they win nothing."""

import numpy as np
import pytest

import analysis
import league

EXPLOITER = {
    "opponents": {"branches": {"current_main": {"share": 1.0}, "past_main": {"share": 0.0}}},
    "freeze": {"beats": None, "min_steps": 0, "max_steps": None},
    "earns": {"least": 0.25, "win_rate": 1.0, "trial_steps": 0, "prior_strength": 0},
}


@pytest.mark.slow
def test_exploiters_have_the_share_that_they_earn(tiny, tmp_path):
    roles = {"main": {"opponents": {"evaluation": 0.1}}, "main_exploiter": EXPLOITER}
    settings = tiny(
        "tic_tac_toe",
        league={"players": {"main": 1, "main_exploiter": 1}, "roles": roles, "freeze_every": 5_000},
        opening={"share": 1.0, "plies": 1},
        rollout={"record": 1.0},
        stop={"env_steps": 24_000},
    )
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        learned = history.sql(
            "SELECT match_type, bool_and(learning) AS all_learn, bool_or(learning) AS any_learns, "
            "count(DISTINCT match_id) AS matches FROM seats JOIN matches USING (seq) GROUP BY 1"
        ).set_index("match_type")
        first = history.sql(
            "SELECT purpose, actions[1] AS move FROM recordings JOIN matches USING (seq) ORDER BY seq"
        )
    against_main, alone = learned.loc["current_main"], learned.loc["self_play"]
    assert against_main.any_learns
    assert not against_main.all_learn
    assert alone.all_learn
    assert not learned.loc["evaluation"].any_learns
    of_exploiter = against_main.matches / learned.matches.sum()
    assert 0.2 < of_exploiter < 0.48  # one of two players, which wins about half of its games
    openings = first[first.purpose == "training"].move.to_numpy()
    counts = np.bincount(openings.astype(int), minlength=9)
    assert counts.min() > 0.07 * len(openings)  # drawn alike, to the end of the run
