"""Interactive charts: Vega-Lite with its JavaScript inside the page, so that they work offline.

The extra `report` brings the JavaScript (vl-convert contains it: 0.9 MB). Two charts are worth that size: the
payoff heatmap, which has more cells than labels, and ratings over time, where lines are close to each other.
A page without the extra is complete: the static plots show the same data.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from analysis.plots.pairings import between
from analysis.plots.style import GREY, HUES, WIN_RATE_COLORS, looks, role_of
from analysis.report.story import Story
from analysis.report.writing.markup import Html, element
from analysis.report.writing.resources import resource
from analysis.solution.payoffs import counts_scores
from storage.errors import Mistake

MOST_COMPETITORS = 100  # in the heatmap: 10,000 cells, 400 kB
MOST_LETTERS = 22  # of a name beside the heatmap
MOST_LINES = 12  # players with a line
UNPLAYED = "url(#unplayed)"  # the hatching that charts.js defines
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # an identifier, which no page loads
_REMEDY = "Interactive charts need the extra 'report': pip install '.[report]'."


@dataclass(frozen=True, slots=True)
class Charts:
    """Data and scripts of a page's charts. `reason`: why the page has none, if it could have some."""

    data: tuple[Html, ...] = ()
    scripts: tuple[str, ...] = ()
    reason: str | None = None


def charts_of(story: Story, interactive: bool | None) -> Charts:
    """Return the charts of a run. Raise Mistake if `interactive` is `True` and the extra is missing."""
    if interactive is False or story.leaderboard.empty:
        return Charts()
    if importlib.util.find_spec("vl_convert") is None:
        if interactive:
            raise Mistake(f"interactive charts: vl-convert-python is not installed. {_REMEDY}")
        return Charts(reason=_REMEDY)
    all_in = len(story.staged_board) <= MOST_COMPETITORS
    shown = "Point at a cell for its numbers"
    hint = f"{shown}." if all_in else f"{shown}. Only the best rated {MOST_COMPETITORS} are drawn."
    moved = "Drag to move, Shift and mouse wheel to zoom, double-click to reset."
    specs = [
        _data("payoff-chart", "payoff-plot" if all_in else None, hint, heatmap(story)),
        _data("ratings-chart", "ratings-plot", moved, None if story.is_tournament else rating_lines(story)),
    ]
    data = tuple(spec for spec in specs if spec is not None)
    return Charts(data, _scripts()) if data else Charts()


def heatmap(story: Story) -> dict[str, Any] | None:
    """Return the chart of points per game of each pairing, or `None` if no two competitors have met."""
    table = between(story.staged_payoff)
    seen = set(table["home"]) | set(table["away"])
    names = [name for name in story.staged_board["competitor"] if name in seen][:MOST_COMPETITORS]
    index = {name: place for place, name in enumerate(names)}
    met = table[table["home"].isin(names) & table["away"].isin(names)]
    if met.empty:
        return None
    played = set(zip(met["home"], met["away"], strict=True))
    unmet = [
        {"i": index[home], "j": index[away], "games": 0}
        for home in names
        for away in names
        if home != away and (home, away) not in played
    ]
    themselves = [{"i": place, "j": place} for place in range(len(names))]
    by_score = counts_scores(met)
    rate = met["lead" if by_score else "win_rate"]
    most = float(rate.abs().max()) or 1.0
    what, ends = (
        ("lead in score per game", [-most, 0, most]) if by_score else ("points per game", [0, 0.5, 1])
    )
    cells = pd.DataFrame(
        {
            "i": met["home"].map(index),
            "j": met["away"].map(index),
            "rate": rate.round(3),
            "games": met["games"],
        }
    )
    who = [{"at": place, "name": f"{place + 1}  {_shortened(name)}"} for name, place in index.items()]
    named = [
        {"lookup": key, "from": {"data": {"values": who}, "key": "at", "fields": ["name"]}, "as": [name]}
        for key, name in (("i", "row"), ("j", "column"))
    ]
    labels = [entry["name"] for entry in who]
    axis = {"title": None, "grid": False, "ticks": False, "domain": False, "labelPadding": 6}
    y = {
        "type": "ordinal",
        "field": "row",
        "scale": {"domain": labels, "padding": 0},
        "axis": {**axis, "labelOverlap": False, "labelLimit": 190},
    }
    below = {"labelOverlap": "greedy", "labelSeparation": 4, "labelAngle": 0, "labelExpr": "datum.value + 1"}
    x = {
        "type": "ordinal",
        "field": "j",
        "scale": {"domain": list(range(len(names))), "padding": 0},
        "axis": {**axis, **below, "title": "opponent, by place"},
    }
    who_played = [{"field": "row", "title": "row"}, {"field": "column", "title": "against"}]
    return {
        "$schema": _SCHEMA,
        "description": f"Heatmap: {what} of each competitor against each other, best rated first.",
        "width": "container",
        "height": max(200, 15 * len(names)),
        "layer": [
            {
                "data": {"values": unmet},
                "transform": [*named, {"calculate": "'never played'", "as": "games"}],
                "mark": {"type": "rect", "fill": UNPLAYED},
                "encoding": {"y": y, "x": x, "tooltip": [*who_played, {"field": "games", "title": "games"}]},
            },
            {
                "data": {"values": themselves},
                "transform": named[:1],
                "mark": {"type": "rect", "fill": GREY, "opacity": 0.9},
                "encoding": {"y": y, "x": x},
            },
            {
                "data": {"values": _rows(cells)},
                "transform": named,
                "mark": {"type": "rect"},
                "encoding": {
                    "y": y,
                    "x": x,
                    "color": {
                        "field": "rate",
                        "type": "quantitative",
                        "scale": {
                            "domain": [
                                ends[0],
                                (ends[0] + ends[1]) / 2,
                                ends[1],
                                (ends[1] + ends[2]) / 2,
                                ends[2],
                            ],
                            "range": list(WIN_RATE_COLORS),
                            "type": "linear",
                            "interpolate": "rgb",
                        },
                        "legend": {"title": what, "orient": "bottom", "gradientLength": 180},
                    },
                    "tooltip": [
                        *who_played,
                        {"field": "rate", "type": "quantitative", "title": what, "format": ".3f"},
                        {"field": "games", "type": "quantitative", "title": "games", "format": ",d"},
                    ],
                },
            },
        ],
    }


def rating_lines(story: Story) -> dict[str, Any] | None:
    """Return the chart of mu of each player over env steps, with snapshots; `None` without ratings."""
    board = story.leaderboard
    players = board[board["kind"] == "player"]["competitor"].tolist()[:MOST_LINES]
    lines = story.ratings[story.ratings["competitor"].isin(players)]
    if lines.empty:
        return None
    lines = pd.DataFrame(
        {
            "who": lines["competitor"],
            "steps": lines["league_env_steps"],
            "mu": lines["mu"].round(2),
            "low": (lines["mu"] - 2 * lines["sigma"]).round(2),
            "high": (lines["mu"] + 2 * lines["sigma"]).round(2),
        }
    )
    frozen = board.merge(story.snapshots[["snapshot_id", "player", "league_env_steps"]], left_on="competitor",
                         right_on="snapshot_id")  # fmt: skip
    points = pd.DataFrame(
        {
            "who": frozen["player"],
            "snapshot": frozen["competitor"],
            "steps": frozen["league_env_steps"],
            "mu": frozen["mu"].round(2),
            "games": frozen["games"],
        }
    )
    last = max(1.0, float(lines["steps"].max()), float(points["steps"].max()) if len(points) else 0.0)
    x = {
        "field": "steps",
        "type": "quantitative",
        "title": "env steps of the league",
        "axis": {"format": "~s", "grid": False, "tickCount": 5},
        "scale": {"domain": [-0.02 * last, 1.02 * last], "nice": False},
    }
    color = {
        "field": "who",
        "type": "nominal",
        "title": "player",
        "scale": _colours_of(board[board["competitor"].isin(players)]),
        "legend": {"title": None, "orient": "bottom", "columns": 2, "symbolOpacity": 1},
    }
    rating = {"type": "quantitative", "title": "TrueSkill rating μ", "scale": {"zero": False}}
    return {
        "$schema": _SCHEMA,
        "description": "Lines: TrueSkill's mu of each player over the league's env steps, snapshots as "
        "points.",
        "width": "container",
        "height": 380,
        "layer": [
            {
                "data": {"values": _rows(lines)},
                "mark": {"type": "area", "opacity": 0.16},
                "encoding": {
                    "x": x,
                    "y": {"field": "low", **rating},
                    "y2": {"field": "high"},
                    "color": color,
                },
            },
            {
                "data": {"values": _rows(lines)},
                "mark": {"type": "line", "strokeWidth": 2},
                "params": [
                    {
                        "name": "view",
                        "select": {"type": "interval", "zoom": "wheel![event.shiftKey]"},
                        "bind": "scales",
                    }
                ],
                "encoding": {"x": x, "y": {"field": "mu", **rating}, "color": color},
            },
            {
                "data": {"values": _rows(points)},
                "mark": {"type": "point", "filled": True, "size": 45},
                "encoding": {
                    "x": x,
                    "y": {"field": "mu", **rating},
                    "color": color,
                    "tooltip": [
                        {"field": "snapshot"},
                        {"field": "mu", "type": "quantitative", "format": ".1f"},
                        {"field": "games", "type": "quantitative", "format": ",d"},
                    ],
                },
            },
        ],
    }


def _colours_of(players: pd.DataFrame) -> dict[str, list[str]]:
    """Return each player's colour: that of its role in the plots, unless two players share a role."""
    names, roles = players["competitor"].tolist(), [role_of(role) for role in players["role"]]
    if len(set(roles)) < len(roles):
        return {"range": list(HUES)}
    look = looks(roles)
    return {"domain": names, "range": [look[role].color for role in roles]}


def _data(place: str, replaces: str | None, hint: str, spec: dict[str, Any] | None) -> Html | None:
    """Return `spec` as a data element whose text cannot end the element.

    The chart is drawn into the element `place`, and replaces the plot in the figure `replaces`.
    """
    if spec is None:
        return None
    shown = json.dumps(spec, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        shown = shown.replace(character, f"\\u{ord(character):04x}")
    kind = "application/vnd.vegalite+json"
    return element("script", Html(shown), type=kind, data_place=place, data_replaces=replaces, data_hint=hint)


def _shortened(name: str) -> str:
    """Return `name`, shortened in the middle: names differ at their ends."""
    keep = (MOST_LETTERS - 1) // 2
    return name if len(name) <= MOST_LETTERS else f"{name[: keep - 2]}…{name[-keep - 2 :]}"


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as objects: Vega parses CSV with generated code, which the page's policy forbids."""
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.to_numpy(object).tolist()]


@cache  # bundling takes over a second
def _scripts() -> tuple[str, ...]:
    import vl_convert

    return (vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"), resource("charts.js"))
