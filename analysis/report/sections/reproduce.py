"""Sections at the end: the words of the page, and how to repeat a run: settings, seed, version, commands."""

from __future__ import annotations

import shlex
from typing import Any

from analysis.history.frames import setting
from analysis.report.legible import WORDS
from analysis.report.markup import Section, drawn
from analysis.report.phrases import count, moment
from analysis.report.story import Story
from storage.layout import RATED


def glossary(story: Story) -> Section:
    """Return the section that explains the words of the page."""
    return drawn("glossary.html", "words", "Words", words=WORDS)


def reproduce(story: Story) -> Section:
    """Return the section on how to repeat the run and query it."""
    run, facts = story.session, story.totals
    config = story.sql("SELECT config FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1")["config"]
    settings = str(config.iloc[0]) if len(config) else ""
    rows = [
        ("name in the settings", run["name"] if run["name"] != story.name else None),
        ("game", run["env"]),
        ("seed", run["seed"]),
        ("version", f"checkpoint-league {run['version']}" if run["version"] else None),
        ("first session began", moment(run["started_at"])),
        *(row for branch in story.branches.to_dict("records") for row in _branched(branch)),
        ("last event", moment(facts.last)),
        ("sessions", run["sessions"]),
    ]
    return drawn(
        "reproduce.html",
        "reproduce",
        "Run it again",
        story=story,
        facts=rows,
        again=_again(story),
        exact=setting(story.config, "runners") == 0 and not setting(story.config, "stop", "minutes"),
        questions=_questions(story),
        settings=settings,
    )


def _branched(branch: dict[Any, Any]) -> list[tuple[str, str]]:
    moment_of = f"{branch['parent']}, as of {count(branch['env_steps'])} env steps"
    return [("branched from", moment_of), ("settings changed then", ", ".join(branch["changes"]) or "none")]


def _again(story: Story) -> list[str]:
    """Return the commands that begin the run again."""
    if not story.branches.empty:
        own = story.branches.iloc[-1]
        words = ["league", "branch", own["parent"], "runs/again", "--as-of", str(own["env_steps"])]
        changes = [word for change in own["changes"] for word in ("--set", change)]
        return [shlex.join([*words, *changes]), "league train runs/again --resume"]
    if RATED in story.config:
        return [shlex.join(["league", "rate", *story.config[RATED], "--run", "runs/again"])]
    kind = "tournament" if story.is_tournament else "train"
    return [f"league {kind} again.yaml --run runs/again"]


def _questions(story: Story) -> list[str]:
    run = story.argument
    board = story.leaderboard
    # a player's name is short for its newest snapshot, which may be the other one
    names = board[board["kind"] != "player"]["competitor"].tolist()[:2]
    asked = [f'league sql {run} "SELECT * FROM leaderboard"', f"league diagnose {run}"]
    if story.is_solitary and not story.snapshots.empty:
        newest = str(story.snapshots["snapshot_id"].iloc[-1])
        asked.append(f"league evaluate {run} {shlex.quote(newest)}")
    plain = all(name.replace("-", "").replace("@", "").isalnum() for name in names)
    if plain and len(names) == 2 and not (story.is_tournament or story.is_solitary):
        asked.append(f"league compare {run} {names[0]} {names[1]}")
    return [*asked, f"league report {run}"]
