"""Section on how to repeat a run: settings, seed, version, commands."""

from __future__ import annotations

import shlex

from analysis.history.frames import setting
from analysis.report.story import Story
from analysis.report.writing.markup import Html, element
from analysis.report.writing.phrases import count, moment
from analysis.report.writing.section import Section, paragraph, section


def reproduce(story: Story) -> Section:
    """Return the section on how to repeat the run and query it."""
    run, facts = story.session, story.totals
    config = story.sql("SELECT config FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1")["config"]
    settings = str(config.iloc[0]) if len(config) else ""
    rows = [
        ("name", run["name"]),
        ("game", run["env"]),
        ("seed", run["seed"]),
        ("version", f"checkpoint-league {run['version']}" if run["version"] else None),
        ("first session began", moment(run["started_at"])),
        *_branch_rows(story),
        ("last event", moment(facts.last)),
        ("sessions", run["sessions"]),
    ]
    listed = [
        part
        for name, value in rows
        if value is not None
        for part in (element("dt", name), element("dd", str(value)))
    ]
    return section(
        "reproduce",
        "Run it again",
        element("dl", *listed, class_="facts"),
        *_again(story),
        paragraph(_how_exactly(story)),
        paragraph("To query this run, in the folder that contains it:"),
        _commands(_questions(story)),
        element(
            "details",
            element("summary", "All settings"),
            element("pre", element("code", settings), tabindex=0),
        ),
    )


def _branch_rows(story: Story) -> list[tuple[str, str]]:
    return [
        row
        for branch in story.branches.to_dict("records")
        for row in (
            ("branched from", f"{branch['parent']}, as of {count(branch['env_steps'])} env steps"),
            ("settings changed then", ", ".join(branch["changes"]) or "none"),
        )
    ]


def _again(story: Story) -> list[Html]:
    """Return how to begin the run again, and the commands."""
    if not story.branches.empty:
        own = story.branches.iloc[-1]
        words = ["league", "branch", own["parent"], "runs/again", "--as-of", str(own["env_steps"])]
        changes = [word for change in own["changes"] for word in ("--set", change)]
        lines = [shlex.join([*words, *changes]), "league train runs/again --resume"]
        return [paragraph("Branch it again from the other run:"), _commands(lines)]
    kind = "tournament" if story.is_tournament else "train"
    line = f"league {kind} again.yaml --run runs/again"
    return [
        paragraph("Save the settings below as ", element("code", "again.yaml"), ", then:"),
        _commands([line]),
    ]


def _how_exactly(story: Story) -> str:
    if story.is_tournament:
        return "The same settings and seed give the same games, with any number of processes."
    if setting(story.config, "runners") == 0 and not setting(story.config, "stop", "minutes"):
        return "Without runners the same settings and seed give the same run on the same kind of machine."
    return (
        "The timing of runners and clocks varies, so this run gives a similar league, not the same numbers. "
        "A run without runners that stops after a number of env steps repeats bit by bit."
    )


def _questions(story: Story) -> list[str]:
    run = story.argument
    names = story.leaderboard["competitor"].tolist()[:2]
    asked = [f'league sql {run} "SELECT * FROM leaderboard"', f"league diagnose {run}"]
    if story.is_solitary and not story.snapshots.empty:
        newest = str(story.snapshots["snapshot_id"].iloc[-1])
        asked.append(f"league evaluate {run} {shlex.quote(newest)}")
    elif (
        len(names) == 2
        and not story.is_tournament
        and all(name.replace("-", "").replace("@", "").isalnum() for name in names)
    ):
        asked.append(f"league compare {run} {names[0]} {names[1]}")
    return [*asked, f"league report {run}"]


def _commands(lines: list[str]) -> Html:
    return element("pre", element("code", "\n".join(lines)), tabindex=0)
