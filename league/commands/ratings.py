"""The command `league ratings`: all competitors of a run, best first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from league.commands.console import AsOfOption, JsonOption, RunArgument, print_rows, working
from storage.errors import printable

MANY_LIMITED = 0.05  # share of matches

if TYPE_CHECKING:
    from analysis.statistics.strength.order import Order, RankedCompetitor


def ratings(run: RunArgument, as_json: JsonOption = False, as_of: AsOfOption = None) -> None:
    """Show all competitors, best first by strength: Elo with its interval, and the probability of being best.

    Live players, bots, anchors and untrained weights are listed apart, behind the others. mu, sigma and
    skill (mu - 3 sigma) are TrueSkill's, by which opponents are drawn; games and win rate are of all games.
    Of a tournament all is as in its verdict, which counts whole pairs.
    """
    with working(f"rating the competitors of {run}"):
        rows, order, rated, best, limited = _read(run, as_of)
    places = [place for place in order.places if place.competitor in rows]
    if order.unit != "Elo":  # no one meets another
        for place in places:
            rows[place.competitor]["games"] = place.games
    if as_json:
        header = ["competitor", "role", "elo", "elo_low", "elo_high", "p_best", "apart", *rated]
        print_rows(header, [_figures(place, rows[place.competitor], rated) for place in places], as_json)
        return
    from analysis.statistics.strength.wording import above, of_best, probability

    unit = "mean score" if order.unit != "Elo" else "Elo"
    above_what = "" if order.yardstick is None else f" above {order.yardstick}"
    print(printable(f"{best or 'Best: ' + of_best(order)}. Strength is {unit}{above_what}."))
    if limited:
        print(printable(limited))
    shown = []
    for place in places:
        row = rows[place.competitor]
        chance = "apart" if place.apart else "" if math.isnan(place.chance) else probability(place.chance)
        shown.append((row["competitor"], row["role"], above(order, place), chance, *(row[n] for n in rated)))
    print_rows(["competitor", "role", "strength", "best", *rated], shown, as_json)


def best_of(run: Path) -> str:
    """Return which snapshot of the run is best, and how sure that is, as `league ratings` says it."""
    from analysis.statistics.strength.wording import of_best
    from league.competitors.names import order_of_run

    return f"Best: {of_best(order_of_run(run))}"


def _read(run: Path, as_of: str | None) -> tuple[dict[str, dict[str, Any]], Order, list[str], str, str]:
    """Return the rows of the leaderboard by competitor, the order by strength, and the columns to show.

    The others are a tournament's sentence on its best, empty for a league, and one on matches that the limit
    of steps ended, empty if these are few.
    """
    from analysis.statistics.strength.recorded_order import recorded_order
    from storage import connect

    rated = ["mu", "sigma", "skill", "games", "win_rate"]
    newest = "SELECT most_lead, config FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1"
    best = ""
    with connect(run, as_of=as_of) as live, live.at_one_moment():

        def ask(question: str) -> Any:
            return live.sql(question).to_arrow_table()

        session = ask(newest)
        if session["most_lead"].null_count == 0:
            rated.append("lead")  # payoffs count scores
        table = ask(f"SELECT competitor, role, {', '.join(rated)} FROM leaderboard")
        rows = {row["competitor"]: row for row in table.to_pylist()}
        if as_of is None and ask("SELECT count(*) AS n FROM entrants")["n"][0].as_py():
            order, best = _of_tournament(run, rows)
        else:
            order = recorded_order(live)
        ends = ask("SELECT reason, sum(matches)::BIGINT AS n FROM played GROUP BY reason")
        limited = _limited(session["config"].to_pylist(), ends)
    return rows, order, rated, best, limited


def _limited(configs: list[str | None], ends: Any) -> str:
    """Return a sentence if `rollout.step_limit` ended many matches, whose number by reason `ends` has.

    `configs`: the settings of the newest session, as it recorded them.
    """
    import yaml

    config = yaml.safe_load(configs[0] or "") if configs else None
    limit = ((config or {}).get("rollout") or {}).get("step_limit")
    if limit is None:  # limits of the game itself are part of it
        return ""
    counts = dict(zip(ends["reason"].to_pylist(), ends["n"].to_pylist(), strict=True))
    share = counts.get("step_limit", 0) / max(1, sum(counts.values()))
    return f"rollout.step_limit ({limit}) ended {share:.0%} of the matches." if share >= MANY_LIMITED else ""


def _of_tournament(run: Path, rows: Mapping[str, dict[str, Any]]) -> tuple[Order, str]:
    """Return the order of a tournament's verdict, and its sentence on the best; give `rows` its games."""
    from analysis.statistics.hierarchy.anchors import zero_of
    from analysis.statistics.strength.order import Order, RankedCompetitor
    from analysis.tournaments.tournament import verdict
    from analysis.tournaments.wording import headline

    found = verdict(run)
    places = []
    for name, games in zip(found.table["competitor"], found.table["games"], strict=True):
        elo, low, high, chance = (found.value(name, c) for c in ("elo", "elo_low", "elo_high", "p_best"))
        places.append(RankedCompetitor(name, "snapshot", elo, low, high, chance, games, apart=False))
        if name in rows:
            rows[name] |= {"games": games, "win_rate": found.value(name, "score") if games else None}
    return Order(tuple(places), zero_of(found.anchors) if found.anchors else None), headline(found)


def _figures(place: RankedCompetitor, row: dict[str, Any], rated: list[str]) -> tuple[Any, ...]:
    """Return the row of a place; what is not known is `None`."""
    numbers = (None if math.isnan(x) else x for x in (place.elo, place.low, place.high, place.chance))
    return (row["competitor"], row["role"], *numbers, place.apart, *(row[name] for name in rated))
