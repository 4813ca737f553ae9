import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.elo import elo_from_pairs
from analysis.tournaments.tournament import tournament_results, verdict
from storage.archive import Archive
from storage.errors import Mistake, NotARun
from storage.records import Bot, EndReason, Outcome, Purpose
from tests.analysis.played_tournaments import (
    CONFIG,
    bot,
    duel,
    place,
    round_robin,
    snapshot,
    snapshots,
    store,
)

pytestmark = pytest.mark.slow

A, B, C, D = snapshots(4)
NAMES = [entrant.competitor for entrant in (A, B, C, D)]
a, b, c, d = NAMES


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def rows(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {row["competitor"]: row for _, row in frame.iterrows()}


def test_strengths_that_are_known_are_found_within_their_intervals(folder):
    elo = {a: 0.0, b: 60.0, c: 130.0, d: 300.0}
    results = round_robin(elo, 200, np.random.default_rng(1), first_mover=80.0)
    found = verdict(store(folder, (A, B, C, D), [results]), anchor=a)
    assert found.table["competitor"].tolist() == [d, c, b, a]
    assert found.table["rank"].tolist() == [1, 2, 3, 4]
    for row in rows(found.table).values():
        assert row["elo_low"] <= elo[row["competitor"]] <= row["elo_high"]
    assert rows(found.table)[a]["elo"] == 0.0
    assert found.table["p_best"].sum() == pytest.approx(1.0)
    assert found.table["p_best"].iloc[0] > 0.99
    advantage = found.place_advantage["elo"]
    assert advantage[0] - advantage[1] == pytest.approx(80.0, abs=45.0), "3 standard errors of 1,200 games"


@pytest.mark.parametrize("drawn", [False, True])
def test_elo_is_that_of_the_score_however_much_is_drawn(folder, drawn):
    """Three points of four, by wins and losses or by draws: 400 log10(3) = 191 Elo, but for the prior."""
    points = [(1.0, 0.5), (0.5, 1.0)] if drawn else [(1.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    found = verdict(store(folder, (A, B), [duel(a, b, points * 50)]))
    assert found.difference(a, b).elo == pytest.approx(400 * np.log10(3), abs=2.0)
    assert found.pairings["elo"][0] == pytest.approx(400 * np.log10(3), abs=0.5)


def test_the_table_counts_games_pairs_results_and_places(folder):
    results = [
        duel(a, b, [(1.0, 0.5), (1.0, 0.0)]),
        duel(a, c, [(1.0, 1.0)], first=4),
        duel(b, c, [(0.5, 0.5)], first=6),
    ]
    table = rows(verdict(store(folder, (A, B, C), results)).table)
    counted = ["games", "pairs", "wins", "draws", "losses", "score", "score_place_0", "score_place_1"]
    assert table[a][counted].tolist() == [6, 3, 4, 1, 1, 0.75, 1.0, 0.5]
    assert table[b][counted].tolist() == [6, 3, 1, 3, 2, 2.5 / 6, 2.0 / 3, 0.5 / 3]
    assert table[c][counted].tolist() == [4, 2, 0, 2, 2, 0.25, 0.25, 0.25]
    worst = ["worst_opponent", "worst_score", "worst_games"]
    assert table[a][worst].tolist() == [b, 0.625, 4]
    assert table[b][worst].tolist() == [a, 0.375, 4]
    assert table[c][worst].tolist() == [a, 0.0, 2]


def test_trueskill_stands_beside_as_it_was_recorded_last(folder):
    table = verdict(
        store(folder, (A, B), [duel(a, b, [(1.0, 1.0)]), duel(a, b, [(1.0, 0.0)], first=2)])
    ).table
    assert table["mu"].tolist() == [26.0, 26.0]
    assert table["sigma"].tolist() == [2.0, 2.0]


def test_of_two_the_better_is_best_as_likely_as_it_is_superior(folder):
    results = round_robin({a: 30.0, b: 0.0}, 50, np.random.default_rng(6))
    found = verdict(store(folder, (A, B), [results]))
    los = found.difference(*found.table["competitor"]).los
    assert 0.6 < los < 0.99
    assert found.table["p_best"].iloc[0] == pytest.approx(los, abs=0.01), "4 standard errors"


def test_pairings_are_told_from_the_side_of_the_better(folder):
    results = [duel(a, b, [(0.0, 0.5)] * 10), duel(c, b, [(0.0, 0.0)] * 10, first=20)]
    found = verdict(store(folder, (A, B, C), results)).pairings
    assert found[["home", "away", "pairs", "games"]].values.tolist() == [[b, a, 10, 20], [b, c, 10, 20]]
    assert found[["wins", "draws", "losses", "score"]].values.tolist() == [[10, 10, 0, 0.75], [20, 0, 0, 1.0]]
    estimate = elo_from_pairs(np.full(10, 0.75))
    assert found.loc[0, ["elo", "elo_low", "elo_high", "los"]].tolist() == pytest.approx(
        [estimate.elo, estimate.low, estimate.high, estimate.los], rel=1e-3
    ), "scores that no pair reached are treated differently"
    assert found.loc[1, "elo_high"] == np.inf


def test_the_anchor_is_that_of_the_settings_or_another_that_is_asked_for(folder):
    run = store(folder, (A, B), [duel(a, b, [(1.0, 0.5), (0.0, 0.5)] * 20)], CONFIG.replace("null", f"{a}"))
    assert rows(verdict(run).table)[a]["elo"] == 0.0
    assert rows(verdict(run, anchor=b).table)[b]["elo"] == 0.0
    with pytest.raises(Mistake, match=r"'main-0@9' takes no part in this tournament; nearest: main-0@"):
        verdict(run, anchor="main-0@9")


def test_the_same_folder_gives_the_same_verdict(folder):
    run = store(folder, (A, B, C), [round_robin({a: 0.0, b: 9.0, c: 5.0}, 30, np.random.default_rng(3))])
    first, second = verdict(run), verdict(run)
    pd.testing.assert_frame_equal(first.table, second.table)
    pd.testing.assert_frame_equal(first.pairings, second.pairings)


def test_a_tournament_that_has_begun_rates_who_has_played(folder):
    found = verdict(store(folder, (A, B, C), [duel(a, b, [(1.0, 0.5)])]))
    last = found.table.iloc[-1]
    assert last["competitor"] == c
    assert pd.isna(last["rank"])
    assert last[["elo", "elo_low", "elo_high", "score", "p_best"]].isna().all()
    assert found.played["competitor"].tolist() == [a, b]
    assert found.played["p_best"].sum() == pytest.approx(1.0, abs=1e-9)


def test_a_tournament_without_a_game_has_a_table_all_the_same(folder):
    found = verdict(store(folder, (A, B)))
    assert found.table["games"].tolist() == [0, 0]
    assert found.cyclic is None
    assert len(found.pairings) == 0
    assert found.ends == (0,) * 6


def test_the_declared_rule_decides_what_a_crash_counts(folder):
    results = duel(a, b, [(1.0, 1.0), (1.0, 0.5)])
    reason = np.array([0, EndReason.CRASH, 0, 0], np.int8)
    results = dataclasses.replace(results, reason=reason)
    left_out = verdict(store(folder, (A, B), [results]))
    assert (left_out.ruled_out_pairs, left_out.games.num_pairs) == (1, 1)
    assert left_out.ends == (3, 0, 0, 1, 0, 0)
    config = CONFIG.replace("crash: left_out", "crash: as_scored")
    assert verdict(store(folder.parent / "other", (A, B), [results], config)).games.num_pairs == 2


def test_a_forfeit_is_a_loss(folder):
    results = duel(a, b, [(1.0, 1.0)])
    outcome = np.where(results.outcome == Outcome.LOSS, Outcome.FORFEIT, results.outcome).astype(np.int8)
    reason = np.full(2, EndReason.ILLEGAL_ACTION, np.int8)
    run = store(folder, (A, B), [dataclasses.replace(results, outcome=outcome, reason=reason)])
    assert rows(verdict(run).table)[b]["losses"] == 2


def test_games_that_repeat_themselves_are_counted_once(folder):
    results = duel(a, b, [(1.0, 0.0)] * 50)
    digest = np.tile([17, 18], 50)
    found = verdict(store(folder, (A, B), [dataclasses.replace(results, digest=digest)]))
    assert (found.repeated_pairs, found.games.num_pairs) == (49, 1)
    assert found.pairings[["pairs", "repeats"]].values.tolist() == [[1, 49]]


def test_three_in_a_match_are_compared_two_by_two(folder):
    elo = {a: 0.0, b: 150.0, c: 300.0, d: 100.0}
    results = round_robin(elo, 60, np.random.default_rng(4), num_teams=3)
    found = verdict(store(folder, (A, B, C, D), [results]), anchor=a)
    assert found.table["competitor"].tolist() == [c, b, d, a]
    assert found.table["games"].tolist() == [3 * 60 * 6] * 4, "of four triples, everybody is in three"
    compared = found.table[["wins", "draws", "losses"]].sum(axis=1)
    assert compared.tolist() == [2 * 3 * 60 * 6] * 4
    assert "score_place_2" in found.table
    assert len(found.place_advantage) == 3
    for row in rows(found.table).values():
        assert row["elo_low"] <= elo[row["competitor"]] <= row["elo_high"]


def test_teams_are_told_by_who_fills_them(folder):
    """Seats 0 and 2 are a team, 1 and 3 the other: a beats b from both sides."""
    two = place([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]], [(a, b, a, b), (b, a, b, a)])
    two = dataclasses.replace(two, matches=dataclasses.replace(two.matches, seed=np.zeros(2, np.int64)))
    run = store(folder, (A, B), [two])
    (found,) = tournament_results(run)
    assert found.matches.team_of_seat == (0, 1, 0, 1)
    table = rows(verdict(run).table)
    assert table[a][["games", "wins", "score"]].tolist() == [2, 2, 1.0]


def test_only_matches_of_the_tournament_count(folder):
    other = duel(a, b, [(0.0, 0.0)], first=2)
    other = dataclasses.replace(other, matches=dataclasses.replace(other.matches, purpose=Purpose.EVALUATION))
    found = verdict(store(folder, (A, B), [duel(a, b, [(1.0, 1.0)]), other]))
    assert found.table["games"].tolist() == [2, 2]


def test_two_modes_of_a_snapshot_and_bots_are_competitors_of_their_own(folder):
    field = [snapshot("main-0@5"), snapshot("main-0@5:greedy", 5.0, 0.0), bot("random")]
    pairs = itertools.combinations([entrant.competitor for entrant in field], 2)
    results = [duel(x, y, [(1.0, 0.5)] * 5, first=10 * i) for i, (x, y) in enumerate(pairs)]
    table = verdict(store(folder, field, results)).table
    assert table["competitor"].tolist() == ["main-0@5", "main-0@5:greedy", "random"]


def test_a_tournament_is_judged_while_it_runs(folder):
    store(folder, (A, B), [duel(a, b, [(1.0, 1.0)])])
    with Archive.open(folder) as archive:
        assert verdict(folder).table["games"].tolist() == [2, 2]
        archive.append_results(duel(a, b, [(1.0, 1.0)], first=2), [])
        assert verdict(folder).table["games"].tolist() == [4, 4]


def test_a_run_that_is_no_tournament_is_refused(folder):
    with Archive.create(folder, "env: {id: tic_tac_toe}\n", {"name": "x", "env": "x", "seed": 1}) as archive:
        archive.add_bot(Bot("random"))
    with pytest.raises(Mistake, match="no tournament was played there, expected a run made by: league tourn"):
        verdict(folder)
    with pytest.raises(NotARun):
        verdict(folder.parent)
