"""What a picture or a figure of the page must not let a reader believe."""

import dataclasses
import math
import re
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pytest

import analysis
from analysis import plots
from analysis.history.strength import ordered
from analysis.plots.pairings import pairings
from analysis.report.page import OF_A_GAME_FOR_ONE, sections
from analysis.report.sections import engine, game_theory
from analysis.report.sections.game_theory import UNDECIDED, beyond, solve
from analysis.report.sections.overview import exploited
from analysis.report.story import Story
from analysis.solution.payoffs import Payoffs
from analysis.statistics.strength.field import RunMember
from analysis.statistics.strength.order import order_of
from tests.analysis.plots.drawn import texts, words
from tests.analysis.plots.leagues import board_of, league, payoff_of
from tests.analysis.report.conftest import html_of

# ---------------------------------------------------------------- never played


@pytest.mark.slow
def test_pages_say_why_they_count_pairings_of_different_numbers_of_competitors(planted, monkeypatch):
    monkeypatch.setattr(game_theory, "MET_ENOUGH", math.inf)
    with analysis.open_run(planted) as history:
        story = Story(history)
        assert len(story.staged_board) > len(story.leaderboard)
        names = [name for name in story.field.names if "@" in name]
        story.field = dataclasses.replace(story.field, names=names, fixed=True)
        said = " ".join(beyond(story).html.split())
    assert f"of the pairings of {len(names)} snapshots and bots that have met were ever played" in said
    assert "stages of players that learn, which the results above have, are left out" in said
    assert "there are more rows than the leaderboard has competitors" in html_of(planted, "payoff")


@pytest.mark.slow
def test_every_row_of_a_full_heatmap_has_its_name():
    of = league(60)
    shown = [text for text, _, _ in texts(plots.payoff_heatmap(of["payoff"], of["leaderboard"]))]
    rows = len(set(of["payoff"]["home"]))
    assert rows > 60
    numbered = {int(found[0]) for text in shown if (found := re.match(r"\d+(?=  )", text))}
    assert numbered == set(range(1, rows + 1))


@pytest.mark.slow
def test_a_live_player_of_different_times_is_not_one_row(planted):
    with analysis.open_run(planted) as history:
        story = Story(history)
        live = set(history.players()["player"])
        assert live & set(history.payoff()["home"])
        assert not live & set(story.staged_payoff["home"])
        assert set(story.staged_payoff["home"]) <= set(story.staged_board["competitor"])
    assert "a row for each stretch of its training" in html_of(planted, "payoff")


# ---------------------------------------------------------------- what games do not decide


@pytest.mark.slow
def test_a_share_that_may_be_none_or_all_is_called_undecided():
    names = ["a", "b", "c"]
    score = np.array([[0.5, 0.55, 0.5], [0.45, 0.5, 0.55], [0.5, 0.45, 0.5]])
    met = payoff_of(names, score, games=4)
    field = SimpleNamespace(
        names=names,
        met=met,
        payoffs=Payoffs.from_frame(met.drop(columns="run"), names),
        share_met=1.0,
        fixed=True,
        filled=pd.DataFrame(2 * score - 1, names, names),
    )
    story = SimpleNamespace(field=field, staged_board=board_of(names), is_tournament=False, argument="x")
    wide = solve(field.payoffs).nash
    assert (wide.high - wide.low).max() >= 0.5
    html = beyond(story).html
    assert "[0.00, 1.00]" not in html
    assert UNDECIDED in html
    assert "which these games do not decide" in html


def test_where_most_pairings_were_never_played_nothing_is_solved(planted):
    with analysis.open_run(planted) as history:
        story = Story(history)
        assert story.field.share_met < 0.5
        html = beyond(story).html
    assert "would be guesses" in html
    assert "beyond-table" not in html
    assert "response-plot" not in html_of(planted, "payoff")


# ---------------------------------------------------------------- the first answers


@pytest.mark.parametrize(
    ("kind", "worth", "said"),
    [
        ("exact", None, "wins 0.250 a game"),
        ("lower_bound", "learned", "wins at least 0.250 a game"),
        ("lower_bound", "nothing_learned", None),
    ],
)
def test_what_was_measured_of_exploitability_is_in_the_summary(kind, worth, said):
    rows = pd.DataFrame(
        {
            "snapshot_id": ["main-0@1", "main-0@2"],
            "kind": kind,
            "value": [0.125, 0.25],
            "unit": "score",
            "worth": worth,
            "league_env_steps": [10, 20],
            "created_at": pd.to_datetime([1, 2], unit="s"),
        }
    )
    found = exploited(rows)
    if said is None:
        assert found is None
    else:
        assert found["snapshot_id"] == "main-0@2"
        assert f"wins {found['said']} a game" == said
        assert re.search(r"The least of 2 is (at least )?0\.125, of main-0@1", found["rest"])
    assert exploited(rows[:0]) is None


def test_the_rating_is_the_first_column_behind_the_name_and_times_are_the_leagues(planted):
    html = html_of(planted, "leaderboard")
    heads = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)", html)
    assert heads[:3] == ["#", "competitor", "Elo, 95 %"]
    with analysis.open_run(planted) as history:
        frozen = history.snapshots()["league_env_steps"]
    assert f"{frozen.max():,}" in html
    assert "env steps of the whole league" in html


def test_the_plots_of_a_tournament_are_in_the_order_of_its_ranking(tournament):
    with analysis.open_run(tournament) as history:
        story = Story(history)
        ranked = story.verdict.table["competitor"].tolist()
        assert pairings(story.staged_payoff, story.staged_board).names == ranked


def test_bots_are_last_in_the_pictures_of_a_league():
    board = board_of(["random", "main-0@0"]).assign(kind=["bot", "snapshot"])
    order = order_of([RunMember("random", "bot"), RunMember("main-0@0", "snapshot")], [])
    assert ordered(board, order, {}, {})["competitor"].tolist() == ["main-0@0", "random"]


def test_a_game_for_one_has_scores_instead_of_ratings(solitary):
    with analysis.open_run(solitary) as history:
        shown = sections(history)
    assert [part.id for part in shown] == list(OF_A_GAME_FOR_ONE)
    html = "".join(part.html for part in shown)
    assert "leaderboard-table" not in html
    assert "leads the leaderboard" not in html
    assert html.index("main-0 scored") < html.index("ends-plot")  # the first of its curves
    assert "Against opponents that improve" not in html
    assert "league compare" not in html


# ---------------------------------------------------------------- one clock, one style


def test_time_is_the_leagues_env_steps_in_every_plot(planted):
    with analysis.open_run(planted) as history:
        mix = plots.match_mix(history.match_mix(over_time=True))
        total = history.sql("SELECT sum(env_steps) AS n FROM matches")["n"].item()
    assert mix.axes[0].get_xlim() == (0, total)
    assert "env steps of the league" in [text for text, _, _ in texts(mix)]
    assert "minutes since" not in html_of(planted, "match-mix", "throughput")


def test_a_bar_of_speed_holds_whole_matches_so_that_slow_ones_leave_no_gaps_between_high_bars():
    start = pd.to_datetime(np.arange(0.0, 60.0, 5.0), unit="s")  # twelve matches of 10 s and 100 steps
    played = {"started_at": start, "seconds": 10.0, "matches": 1, "env_steps": 100, "is_placing": False}
    live = duckdb.connect()
    live.register("played", pd.DataFrame(played))
    totals = SimpleNamespace(first=start[0], minutes=1.0, trained=1.0, env_steps=1200, matches=12)
    story = SimpleNamespace(totals=totals, sql=lambda query: live.sql(query).df())
    html = str(engine._speed(story))
    assert "At most 20 env steps a second" in html
    assert "a bar is 20 seconds" in html


def test_titles_are_text_of_the_page_and_not_of_the_drawing(planted):
    html = html_of(planted, "lineage")
    with analysis.open_run(planted) as history:
        figure = plots.lineage_tree(history.snapshots(), history.leaderboard())
    title, subtitle, _ = plots.headline(figure)
    assert title == words(figure, "title")
    assert f"<h3>{title.partition(' · ')[0]}@" in html  # the page has the exact name too
    assert f">{subtitle}</p>" in html
    drawn = plots.svg(figure, head=False)
    assert "<title id=" in drawn
    assert title in drawn  # for screen readers
    lines = re.findall(r"<text[^>]*>([^<]*)", drawn)
    assert not {text.get_text() for text in figure.texts if text.get_label() == "title"} & set(lines)
    assert float(re.search(r'viewBox="0 ([\d.]+)', drawn)[1]) > 20
    assert plots.svg(figure) == plots.svg(figure)
    assert title.split()[0] in " ".join(re.findall(r"<text[^>]*>([^<]*)", plots.svg(figure)))


def test_small_text_is_nine_pixels_high_on_a_telephone():
    figure = plots.lineage_tree(league(3)["snapshots"], league(3)["leaderboard"])
    width = figure.get_size_inches()[0] * 72
    assert min(points for _, _, points in texts(figure)) * 397 / width > 9
