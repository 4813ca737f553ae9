"""Section with the leaderboard of a league or the ranking of a tournament, sortable and searchable."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from analysis.report.markup import Column, Html, Row, Section, paragraph, part, section, table
from analysis.report.phrases import MISSING, number, probability, whole, words
from analysis.report.story import Story
from analysis.solution.payoffs import counts_scores
from analysis.statistics.strength.wording import interval_of

TITLE = "Leaderboard"


def leaderboard(story: Story) -> Section:
    """Return the section with the leaderboard, or the ranking of a tournament."""
    if story.is_tournament:
        return section("leaderboard", "Ranking", *_ranking(story))
    rows = story.leaderboard
    if rows.empty:
        return section("leaderboard", TITLE, paragraph("No competitor has been rated yet."))
    frozen = dict(zip(story.snapshots["snapshot_id"], story.snapshots["league_env_steps"], strict=True))
    order = story.order
    low, high = _range(rows["elo_low"], rows["elo_high"])
    wide = high - low > 20.0  # narrower scales are those of scores
    unit = "Elo" if order.unit == "Elo" else "score"
    columns = [
        Column("#", lambda row: row["place"], numeric=True),
        Column("competitor", lambda row: row["competitor"]),
        Column(
            f"{unit}, 95 %", lambda row: _elo(row, low, high, is_elo=wide), True, "with its 95 % interval"
        ),
        Column("role", _role),
        Column(
            "best", lambda row: probability(row["p_best"]), True, "probability that no snapshot is stronger"
        ),
        Column("games", lambda row: whole(row["games"]), True, "all games"),
        Column("win rate", lambda row: number(row["win_rate"]), True, "of all games; a draw is half a win"),
        Column(
            "frozen at", lambda row: whole(frozen.get(row["competitor"])), True, "env steps of the league"
        ),
        Column("training", lambda row: _of_purpose(row, "training"), True, "games of training: win rate"),
        Column(
            "evaluation", lambda row: _of_purpose(row, "evaluation"), True, "games of evaluation: win rate"
        ),
        Column("TrueSkill", lambda row: _plus_minus(row["mu"], row["sigma"]), True, "mu and sigma"),
    ]
    if counts_scores(story.payoff):
        columns.append(Column("lead", lambda row: number(row["lead"], 3), True, "score ahead, per game"))
    number_of = itertools.count(1)
    board = rows.to_dict("records")
    placed = [{"place": MISSING if row["apart"] else next(number_of), **row} for row in board]
    above = "" if order.yardstick is None else f" above {order.yardstick}"
    what = (
        f"Ordered by strength: Elo{above}, by all games that tell the competitors apart. A snapshot that has "
        "hardly played is near what it was trained from, with a wide interval."
        if unit == "Elo"
        else "Ordered by the mean score of a match."
    )
    how = (
        f"{what} Live players, bots, anchors of the ratings and untrained weights have no place and "
        "are last. Win rates are not comparable between competitors, because their opponents differ. "
        "TrueSkill's ratings are those by which opponents are drawn. Times are env steps of the whole "
        "league; the number in a snapshot's name counts those of its own player."
    )
    shown = _table("All rated competitors, best first", columns, placed, "Search the leaderboard")
    return section("leaderboard", TITLE, paragraph(how), shown)


def _table(caption: str, columns: list[Column], rows: list[dict[Any, Any]], searchable: str) -> Html:
    return table("leaderboard-table", caption, columns, rows, sortable=True, searchable=searchable)


def _ranking(story: Story) -> list[Html]:
    verdict = story.verdict
    played = verdict.played
    if played.empty:
        return [paragraph("No pair has been finished yet.")]
    low, high = _range(played["elo_low"], played["elo_high"])
    places = [name for name in verdict.table.columns if name.startswith("score_place_")]
    columns = [
        Column("rank", lambda row: whole(row["rank"]), numeric=True),
        Column("competitor", lambda row: row["competitor"]),
        Column("Elo, 95 %", lambda row: _elo(row, low, high), True, "Bradley-Terry, with its 95 % interval"),
        Column("best", lambda row: probability(row["p_best"]), True, "probability of being the best"),
        Column("games", lambda row: whole(row["games"]), True),
        Column("score", lambda row: number(row["score"]), True, "points per game; a draw is half a point"),
        Column("by place", lambda row: _by_place(row, places), False, "score in each place"),
        Column("worst opponent", _worst),
        Column("TrueSkill", lambda row: _plus_minus(row["mu"], row["sigma"]), True, "mu and sigma"),
    ]
    how = f"Elo is {verdict.scale}. A pair is one seed in every seating. Intervals are those of pairs."
    rows = verdict.table.to_dict("records")
    return [paragraph(how), _table("All competitors, best first", columns, rows, "Search the ranking")]


def _elo(row: Row, low: float, high: float, is_elo: bool = True) -> Html | str:
    """Return a strength with its interval on the scale from `low` to `high`, a score with decimals."""
    if pd.isna(row["elo"]):
        return MISSING
    shown = f"{row['elo']:.3f} [{row['elo_low']:.3f}, {row['elo_high']:.3f}]"
    if is_elo:
        shown = interval_of(row["elo"], row["elo_low"], row["elo_high"])
    return shown if pd.isna(row["elo_low"]) else bar(shown, row, low, high)


def bar(shown: str, row: Row, low: float, high: float) -> Html:
    """Return text with a bar that draws the row's interval on the scale from `low` to `high`."""
    values = (row["elo_low"], row["elo"], row["elo_high"])
    at = [f"{100.0 * min(max((value - low) / (high - low), 0.0), 1.0):.1f}" for value in values]
    return part("bar", text=shown, low=at[0], middle=at[1], high=at[2])


def _range(low: pd.Series, high: pd.Series) -> tuple[float, float]:
    """Return the scale of the bars. Very wide intervals are ignored, as they would squeeze the others."""
    low, high = low.dropna(), high.dropna()
    if low.empty:
        return 0.0, 1.0
    width = high - low
    narrow = width <= 2.0 * width.median()
    start, end = float(low[narrow].min()), float(high[narrow].max())
    return (start, end) if end > start else (start - 1.0, start + 1.0)


def _by_place(row: Row, places: list[str]) -> str:
    return " ".join(number(row[name]) for name in places) if row["games"] else MISSING


def _worst(row: Row) -> str:
    worst = f"{row['worst_opponent']} {row['worst_score']:.2f} ({row['worst_games']})"
    return worst if row["games"] else MISSING


def _of_purpose(row: Row, purpose: str) -> str:
    """Return text such as `1,145: 0.48`, games and win rate."""
    games = row[f"{purpose}_games"]
    return f"{whole(games)}: {number(row[f'{purpose}_win_rate'])}" if games else MISSING


def _plus_minus(mu: Any, sigma: Any) -> str:
    return MISSING if pd.isna(mu) else f"{mu:.1f} ± {sigma:.1f}"


def _role(row: Row) -> str:
    """Return text such as main exploiter, main, live, bot."""
    role, kind = row["role"], str(row["kind"])
    if role is None or pd.isna(role):
        return kind
    return f"{words(str(role))}, live" if kind == "player" else words(str(role))
