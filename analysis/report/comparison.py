"""Page on several runs: what was trained, how strong it became, and in which settings the runs differ.

Names are always `run/competitor`. Each run is judged by its own games, so the page says what plays them
against each other.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import plots
from analysis.history.history import History
from analysis.plots.names import short_names
from analysis.report import markup
from analysis.report.legible import legible
from analysis.report.markup import Column, Section, paragraph, part, section, table
from analysis.report.page import document
from analysis.report.phrases import count, listed, probability, short, span, whole
from analysis.report.sections.pictures import picture
from analysis.report.story import Story
from analysis.statistics.strength.wording import above
from storage.layout import origin
from storage.tables.live import names_of

MOST_SETTINGS = 60  # rows of the table of settings
MOST_PAIRS = 3  # runs that are compared with the first one, among the commands
_NAMED_APART = ("name",)  # settings that say which run it is, not what it does


def several_page(history: History) -> str:
    """Return an HTML page on the runs of `history`; the same runs give the same bytes."""
    names = names_of(history.runs)
    opened = [History(run, as_of=history.moment) for run in history.runs]
    try:
        stories = {name: Story(own) for name, own in zip(names, opened, strict=True)}
        of_runs = short_names(f"{name}/{one}" for name, story in stories.items() for one in story.short_names)
        shown = [
            _overview(stories),
            _strengths(history.strengths()),
            _curves(history.curves()),
            _settings({name: story.config for name, story in stories.items()}),
            _further(stories),
        ]
    finally:
        for own in opened:
            own.close()
    shown = [legible(each, of_runs) for each in shown]
    title = f"{listed(names)}: league report"
    return document(title, listed(names), f"{count(len(names), 'run')} beside each other", shown)


def _overview(stories: Mapping[str, Story]) -> Section:
    rows = [_row(name, story) for name, story in stories.items()]
    columns = [
        Column(name, lambda row, name=name: row[name], name in _NUMBERS, _MEANINGS.get(name))  # type: ignore[misc]
        for name in rows[0]
    ]
    return markup.drawn(
        "runs.html",
        "overview",
        "In short",
        count=len(stories),
        games=list({str(story.session["env"]) for story in stories.values()}),
        table=table("runs", "The runs", columns, rows, sortable=True),
    )


_NUMBERS = ("env steps", "matches", "trained for", "snapshots", "strength", "chance")
_MEANINGS = {
    "best": "the snapshot that is likely the best",
    "strength": "with its 95 % interval",
    "above": "what strength is measured from",
    "chance": "that it is the best of its run",
}


def _row(name: str, story: Story) -> dict[str, str]:
    """Return what the table has of a run, by the headings of its columns."""
    best = None if story.is_tournament or not story.totals.matches else story.order.best
    league = story.config.get("league")
    row = {
        "run": name,
        "game": str(story.session["env"]),
        "preset": "tournament" if story.is_tournament else str((league or {}).get("preset", "")),
        "state": "" if story.state is None else story.state.word,
        "env steps": short(story.totals.env_steps),
        "matches": whole(story.totals.matches),
        "trained for": span(story.totals.trained),
        "snapshots": whole(len(story.snapshots)),
        **{"best": "none yet", "strength": "", "above": "", "chance": ""},
    }
    if best is None:
        return row
    order = story.order
    elo = order.unit == "Elo"
    yardstick = f"{name}/{order.yardstick}" if order.yardstick else "mean of all" if elo else "0 (mean score)"
    return row | {
        "best": f"{name}/{best.competitor}",
        "strength": above(order, best),
        "above": yardstick,
        "chance": probability(best.chance),
    }


def _strengths(frame: pd.DataFrame) -> Section:
    caption = (
        "Each run is judged by its own games. Strengths of two runs can be compared as far as what they are "
        "measured from is as strong in both, as a bot is. Games between the runs tell more: see below."
    )
    return section("strengths", "Strength", picture("strengths-plot", plots.strengths(frame), caption))


def _curves(frame: pd.DataFrame) -> Section:
    drawn = (
        ("score", plots.scores, "Scores as each player acted then, with exploration, against its opponents."),
        ("win_rate", plots.win_rates, "Points of live players by opponent. Bots never change."),
        ("entropy", plots.learning, "What learners report."),
    )
    parts = [
        picture(f"{measure.replace('_', '-')}-plot", draw(frame), caption)
        for measure, draw, caption in drawn
        if measure in set(frame["measure"])
    ]
    return section("curves", "Learning curves", *(parts or [paragraph("No match is recorded yet.")]))


def _settings(configs: Mapping[str, Mapping[str, Any]]) -> Section:
    """Return the section of the settings that are not the same in all runs."""
    flat = {name: dict(_flat(config)) for name, config in configs.items()}
    keys = dict.fromkeys(key for settings in flat.values() for key in settings)
    values = {key: {settings.get(key, "") for settings in flat.values()} for key in keys}
    differ = [key for key, found in values.items() if key not in _NAMED_APART and len(found) > 1]
    title = "Settings that differ"
    if not differ:
        return section("settings", title, paragraph("All settings of the runs are the same."))
    columns = [Column("setting", lambda row: part("code", text=row["setting"]))]
    columns += [Column(name, lambda row, name=name: row[name]) for name in flat]  # type: ignore[misc]
    rows = [{"setting": key, **{n: flat[n].get(key, "") for n in flat}} for key in differ[:MOST_SETTINGS]]
    more = len(differ) - len(rows)
    rest = paragraph(f"{count(more, 'more setting differs', 'more settings differ')}.") if more > 0 else None
    return section("settings", title, table("differing", title, columns, rows), rest)


def _flat(settings: Any, path: str = "") -> list[tuple[str, str]]:
    """Return each setting as text, by its path; a list is one setting."""
    if isinstance(settings, Mapping) and settings:
        inner = [(f"{path}.{key}" if path else str(key), value) for key, value in settings.items()]
        return [found for key, value in inner for found in _flat(value, key)]
    return [(path, json.dumps(settings, default=str) if not isinstance(settings, str) else settings)]


def _further(stories: Mapping[str, Story]) -> Section:
    """Return the section of the commands that play the runs against each other."""
    first = next(iter(stories.values()))
    alike = [story for story in stories.values() if story.session["env"] == first.session["env"]]
    folders = [origin(story.run) or str(story.history.runs[0]) for story in alike]
    mains = [story.mains[0] if story.mains else "best" for story in alike]
    if len(alike) < 2:
        return section("further", "Games between the runs", paragraph("The runs are of different games."))
    commands = [
        f"league compare {shlex.quote(f'{folders[0]}:{mains[0]}')} {shlex.quote(f'{folder}:{main}')}"
        for folder, main in list(zip(folders, mains, strict=True))[1 : MOST_PAIRS + 1]
    ]
    commands.append(f"league tournament {' '.join(map(shlex.quote, folders))}")
    return markup.drawn("further.html", "further", "Games between the runs", commands=commands)
