"""Frames of games that were played elsewhere, and their figures beside plain and hand-made ones."""

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis.statistics.davidson import ELO, cells_of, fit
from analysis.statistics.elo import elo_from_games, elo_from_pairs
from analysis.statistics.games import Games
from analysis.statistics.given import results_of_frame
from analysis.statistics.hierarchy.parts import places_told_apart
from analysis.statistics.meetings import meetings_of
from analysis.tournaments.wording import warnings
from storage.errors import Mistake

A_GAME = {"home": ["a"], "away": ["b"], "result": ["1-0"]}


def plain_bradley_terry(wins):
    """Elo, mean 0, by the iteration of Zermelo (1929); wins[i, j] of i over j, a draw is half."""
    games, strength = wins + wins.T, np.ones(len(wins))
    for _ in range(5_000):
        strength = wins.sum(axis=1) / (games / (strength[:, None] + strength)).sum(axis=1)
        strength = strength / np.exp(np.log(strength).mean())
    return ELO * np.log(strength)


def unequal(players, games, seed):
    """A frame with so many players, whose numbers of games differ tenfold."""
    rng = np.random.default_rng(seed)
    share = np.geomspace(1.0, 10.0, players)
    home = rng.choice(players, games, p=share / share.sum())
    away = (home + 1 + rng.integers(0, players - 1, games)) % players
    elo = rng.normal(0.0, 120.0, players)
    win = 1.0 / (1.0 + 10.0 ** ((elo[away] - elo[home]) / 400.0))
    luck = rng.random(games)
    result = np.where(luck < win - 0.1, "1-0", np.where(luck < win + 0.1, "1/2-1/2", "0-1"))
    return pd.DataFrame(
        {
            "white": np.char.add("p", home.astype(str)),
            "black": np.char.add("p", away.astype(str)),
            "result": result,
        }
    )


@pytest.mark.parametrize(("players", "games"), [(5, 400), pytest.param(200, 20_000, marks=pytest.mark.slow)])
def test_strengths_of_a_frame_are_plain_bradley_terrys(players, games):
    given = Games.from_frame(unequal(players, games, 1))
    wins = np.zeros((players, players))
    np.add.at(wins, (given.home, given.away), given.points)
    np.add.at(wins, (given.away, given.home), 1.0 - given.points)
    cells = cells_of(given, 1, drawn=False)
    found = ELO * fit(cells, prior_games=0.0).parameters
    assert found - found.mean() == pytest.approx(plain_bradley_terry(wins), abs=1e-6)


@pytest.mark.slow
def test_battles_of_an_arena_are_counted_as_by_hand():
    frame = pd.DataFrame(
        [
            ("gpt", "claude", "model_b"),
            ("gpt", "llama", "model_a"),
            ("claude", "llama", "tie (bothbad)"),
            ("llama", "gpt", "tie"),
            ("claude", "gpt", "claude"),
            ("llama", "claude", "model_b"),
        ],
        columns=["model_a", "model_b", "winner"],
    )
    found = analysis.verdict(frame)
    table = found.table.set_index("competitor")
    counted = ["games", "pairs", "wins", "draws", "losses", "score"]
    assert table.loc["claude", counted].tolist() == [4, 4, 3, 1, 0, 3.5 / 4]
    assert table.loc["gpt", counted].tolist() == [4, 4, 1, 1, 2, 1.5 / 4]
    assert table.loc["llama", counted].tolist() == [4, 4, 0, 2, 2, 1.0 / 4]
    assert found.table["competitor"].iloc[0] == "claude"
    met = found.pairings.set_index(["home", "away"]).loc["gpt", "llama"]
    by_hand = elo_from_games(1, 1, 0)
    assert [met["wins"], met["draws"], met["losses"]] == [1, 1, 0]
    assert [met["elo"], met["elo_low"]] == pytest.approx([400 * np.log10(0.75 / 0.25), by_hand.low], abs=1e-6)


def test_games_of_a_pair_are_one_unit_whatever_seatings_it_has():
    frame = pd.DataFrame(
        {
            "home": ["a", "b", "a", "a", "b", "a"],
            "away": ["b", "a", "b", "b", "a", "b"],
            "result": [1, 0.5, 0, "1-0", "½-½", "0-1"],
            "opening": ["x", "x", "y", "z", "z", None],
        }
    )
    games = Games.from_frame(frame)
    assert games.pair.tolist() == [0, 0, 1, 2, 2, 3]
    found = analysis.verdict(frame)
    assert found.pairings[["pairs", "games"]].iloc[0].tolist() == [4, 6]
    better = found.pairings["home"].iloc[0]
    of_a = elo_from_pairs([0.75, 0.0, 0.75, 0.0])
    expected = of_a.elo if better == "a" else -of_a.elo
    assert found.pairings["elo"].iloc[0] == pytest.approx(expected, abs=1e-6)


def test_pairs_of_different_sizes_have_their_scores_on_one_scale():
    frame = pd.DataFrame(
        {
            "home": list("aaaaab"),
            "away": list("bbbbba"),
            "pair": [1, 1, 1, 2, 2, 3],
            "result": [1, 1, 0, 1, 0, 1],
        }
    )
    counts = meetings_of(Games.from_frame(frame)).counts[0]
    assert len(counts) == 13, "twelfths: halves of pairs of one, two and three games"
    assert np.flatnonzero(counts).tolist() == [0, 6, 8]


def test_ranks_and_scores_of_tables_of_three_are_the_same_games():
    by_rank = pd.DataFrame({"game": [7] * 3 + [9] * 3, "player": list("abccab"), "rank": [1, 2, 2, 3, 1, 2]})
    by_score = by_rank.drop(columns="rank").assign(score=[9.5, 1, 1, -3, 2.0, 0])
    one, other = map(Games.from_frame, (by_rank, by_score))
    assert one.points.tolist() == other.points.tolist() == [1.0, 1.0, 0.5, 0.0, 0.0, 1.0]
    assert one.home_place.tolist() == [0, 0, 1, 0, 0, 1]
    assert one.match.tolist() == [0, 0, 0, 1, 1, 1]


def test_seats_may_come_in_any_order():
    frame = pd.DataFrame(
        {"game": [1, 2, 1, 2], "seat": [1, 0, 0, 1], "player": list("abba"), "score": [1, 0, 0, 5]}
    )
    games = Games.from_frame(frame)
    named = [
        (games.competitors[h], games.competitors[a]) for h, a in zip(games.home, games.away, strict=True)
    ]
    assert named == [("b", "a"), ("b", "a")]
    assert games.points.tolist() == [0.0, 0.0]


def test_a_count_stands_for_as_many_games():
    frame = pd.DataFrame({"home": ["a", "b"], "away": ["b", "c"], "result": ["win", "draw"], "count": [3, 2]})
    games = Games.from_frame(frame)
    assert (len(games), games.num_pairs) == (5, 5)
    assert games.points.tolist() == [1.0] * 3 + [0.5] * 2


def test_unfinished_games_are_left_out():
    frame = pd.DataFrame({"home": ["a", "a", "b"], "away": ["b", "b", "a"], "result": ["*", "1-0", "0-0"]})
    assert Games.from_frame(frame).points.tolist() == [1.0]


def test_dates_become_seconds():
    frame = pd.DataFrame(A_GAME).assign(date="2024.05.01")
    assert results_of_frame(frame).started_at.tolist() == [pd.Timestamp("2024-05-01").timestamp()]
    assert results_of_frame(frame.assign(date="????.??.??")).started_at.tolist() == [0.0]
    assert results_of_frame(frame.assign(date="1485.01.01")).started_at.tolist() == [-15305068800.0]


def test_dates_in_seconds_may_be_missing_and_are_none_that_no_calendar_has():
    frame = pd.DataFrame({"home": list("ab"), "away": list("ba"), "result": 1, "date": [None, 1.7e9]})
    assert results_of_frame(frame).started_at.tolist() == [0.0, 1.7e9]
    with pytest.raises(Mistake, match=r"row 1: date is 1.7e\+12, expected seconds since 1970"):
        results_of_frame(frame.assign(date=[0.0, 1.7e12]))


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.concat([pd.DataFrame(A_GAME), pd.DataFrame({"home": ["c"]})], axis=1), "'home' comes twice"),
        (pd.DataFrame(A_GAME).assign(pair=[[1, 2]]), "column 'pair' has list<.*>, expected text or numbers"),
    ],
)
def test_a_frame_that_has_no_such_columns_is_one_line(frame, said):
    with pytest.raises(Mistake, match=said):
        Games.from_frame(frame)


def test_columns_that_are_not_needed_may_hold_anything():
    frame = pd.DataFrame(A_GAME).assign(moves=[["e4", "e5"]], notes=[{1, 2}])
    assert Games.from_frame(frame).points.tolist() == [1.0]


def test_columns_may_be_named():
    frame = pd.DataFrame({"X": ["a"], "Y": ["b"], "Z": ["0-1"]})
    games = Games.from_frame(frame, {"home": "X", "away": "Y", "result": "Z"})
    assert games.points.tolist() == [0.0]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"hme": "home"}, "found 'hme', expected what a column is; did you mean 'home'"),
        ({"home": "hoem"}, "found no column 'hoem' for home; did you mean 'home'"),
        ({"home": "away", "away": "away"}, "column 'away' is home and away"),
    ],
)
def test_a_column_that_is_named_wrongly_is_refused(columns, said):
    with pytest.raises(Mistake, match=said):
        Games.from_frame(pd.DataFrame(A_GAME), columns)


@pytest.mark.parametrize(
    ("home", "away", "apart"),
    [
        ("aaa", "bcd", False),  # a gauntlet whose seed always begins
        ("aab", "cdc", False),  # two teams, one of which always begins
        ("ab", "bc", False),  # a chain, each begins against the next
        ("aba", "bcc", True),  # a triangle: a is one above c, and two
        ("ab", "ba", True),
    ],
)
def test_places_are_told_apart_from_strengths_where_sides_were_swapped(home, away, apart):
    games = Games.from_frame(pd.DataFrame({"home": list(home), "away": list(away), "result": 1}))
    assert places_told_apart(games) == apart


def test_given_strengths_on_both_sides_tell_places_apart():
    games = Games.from_frame(pd.DataFrame({"home": list("aaa"), "away": list("bcd"), "result": 1}))
    assert places_told_apart(games, ["a", "c"])
    assert not places_told_apart(games, ["b", "c"])  # the seed may be as much stronger as its place is worth


@pytest.mark.slow
def test_a_gauntlet_whose_seed_always_begins_is_a_warning():
    frame = pd.DataFrame({"home": list("aaa"), "away": list("bcd"), "result": [1, 0, 1]})
    assert "worth of the places cannot be separated" in " ".join(warnings(analysis.verdict(frame)))
    swapped = frame.rename(columns={"home": "away", "away": "home"})
    both = analysis.verdict(pd.concat([frame, swapped]))
    assert "worth of the places cannot be separated" not in " ".join(warnings(both))
