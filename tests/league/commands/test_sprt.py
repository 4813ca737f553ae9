"""`league sprt`: tests of counts, beside what fishtest prints of them."""

import json

NORMALIZED = ("--elo0", 0, "--elo1", 2, "--model", "normalized")


def test_pairs_and_counts_have_the_ratios_that_fishtest_prints(league_here):
    by_pair = json.loads(
        league_here("sprt", "--pairs", "365,16618,36229,16974,390", *NORMALIZED, "--json").stdout
    )
    assert (round(by_pair["llr"], 2), by_pair["answer"], by_pair["sequential"]) == (2.25, None, True)
    by_game = json.loads(league_here("sprt", "--counts", "36433,68692,36027", *NORMALIZED, "--json").stdout)
    assert round(by_game["llr"], 2) == 0.92
    assert by_game["elo_low"] < 0.0 < by_game["elo"]


def test_error_rates_move_the_bounds(league_here):
    done = league_here("sprt", "--pairs", "5,942,2469,1050,5", "--elo0", -3, "--elo1", 1, "--alpha", 0.05,
                       "--beta", 0.1, "--model", "normalized")  # fmt: skip
    assert "SPRT accepted H1: at least 1 normalized Elo; LLR +2.90 of [-2.25, 2.89]" in done.stdout
    assert "allowing for the test's stopping" in done.stdout


def test_far_beyond_a_bound_the_estimate_is_near_that_of_a_match(league_here):
    done = league_here("sprt", "--counts", "1000,0,10", "--elo0", 0, "--elo1", 5)
    assert "Elo +797 [+617, +1067] (95 %, allowing for the test's stopping)" in done.stdout  # 799 of a match
