"""The command `league sweep`: train a grid of settings over several seeds, or search for the best ones."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import JsonOption, print_rows

if TYPE_CHECKING:
    from analysis.statistics.seeds import Estimate
    from analysis.sweeps import Line
    from league.training.searches import Search
    from league.training.sweeps import Plan

HEADER = ("setting", "figure", "seeds", "mean", "median", "iqm", "scores")


def sweep(
    config: Annotated[
        Path,
        typer.Argument(metavar="CONFIG | DIR", help="A YAML file; or a sweep's folder, to go on with it"),
    ],
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Number of seeds of each setting; default 3")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="A.B=V1,V2",
            help="A setting; with several values an axis of the grid. Repeatable",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--run", "--out", metavar="DIR", help="Folder of the sweep; default runs/<name>-sweep"),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="A.B=FORM(...),...",
            help="Settings to search, each log(low,high), linear(low,high), int(low,high) or choice(x,y); "
            "trials are scored by games against the yardsticks of the config, else the bots of the game",
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=2, max=1000, help="Number of trials of a search; default 40")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a sweep that is there")] = False,
    jobs: Annotated[int, typer.Option(min=1, max=1000, help="Number of runs that train at a time")] = 1,
    by: Annotated[
        str | None,
        typer.Option(
            help="Figure that settings are compared by: strength, score, exploitability, or one on a "
            "yardstick; default: the first that all runs have"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train every setting of a grid with several seeds, and say which differ; or search for the best.

    A grid is fixed at the start. With --search, each trial is chosen by the scores of those before, and
    stopped once it is surely worse than most. The same command, or `league sweep DIR`, goes on after a kill:
    finished runs are not trained again, and cut ones are resumed.
    """
    from league.config.file import PLAN, fields_of
    from league.training.sweeps import Grid, begin, make_plan, read_plan, train_all
    from storage.errors import Mistake

    if by is not None:  # a mistake in it is answered before training
        from analysis.sweeps import check_figure

        check_figure(by)
    if config.is_dir():
        if seeds or set_ or out or search is not None or trials:
            raise Mistake(
                f"{config}: a sweep that is there keeps its grid, expected no --seeds, --set, --run, "
                "--search or --trials"
            )
        folder, plan = config, read_plan(config)
    else:
        folder = out or Path("runs") / f"{fields_of(config)[1]['name']}-sweep"
        if resume and not (folder / PLAN).exists():
            raise Mistake(f"--resume: {folder} has no sweep, expected one; leave --resume out to begin it")
        if search is not None:
            from league.training.searches import make_search

            if seeds or by:
                raise Mistake("--search: found --seeds or --by, expected neither: a trial has one seed")
            plan = make_search(config, set_ or (), search, trials or 40)
        elif trials:
            raise Mistake("--trials: found no --search, expected both, or --seeds")
        else:
            plan = make_plan(config, set_ or (), seeds or 3)
        begin(plan, folder)
        plan = read_plan(folder)

    say = functools.partial(typer.echo, err=as_json)
    if plan.search is not None:
        _search(plan, folder, jobs, say, as_json)
        return
    say(f"{folder}: {len(plan.runs)} runs of {len(plan.settings)} settings, in the order of {folder / PLAN}")
    failed = train_all(Grid(plan), folder, jobs, say)
    from analysis.sweeps import figures_of, verdict

    figures: dict[str, list[dict[str, float]]] = {setting: [] for setting in plan.settings}
    for run in plan.runs:
        if run.name not in failed:
            figures[run.setting].append(figures_of(folder / run.name))
    lines = verdict(figures, by)
    if as_json:
        print(
            json.dumps({"sweep": str(folder), "failed": failed, "settings": _as_json(plan, figures, lines)})
        )
    else:
        print_rows(HEADER, [_row(line) for line in lines], as_json=False)
        for line in lines:
            print(line.sentence)
        print(f"More: league runs {folder}; league report {folder}/RUN; iqm: interquartile mean, bootstrap")
    _raise_failed(failed, len(plan.runs), folder)


def _raise_failed(failed: Sequence[str], runs: int, folder: Path) -> None:
    """Raise Failure if any run failed."""
    from storage.errors import Failure

    if failed:
        again = f"league sweep {folder}"
        raise Failure(f"{len(failed)} of {runs} runs failed: {', '.join(failed)}; again: {again}")


def _search(plan: Plan, folder: Path, jobs: int, say: Callable[[str], None], as_json: bool) -> None:
    """Train the trials of a search, print them from the best on, and write its page."""
    from league.training.searches import Search
    from league.training.sweeps import train_all

    found = Search(plan, folder)
    say(f"{folder}: {found.total} trials, {found.done} of them over")
    failed = train_all(found, folder, jobs, say)
    rows, importance = _trials(found), found.importance()
    page = _write_page(folder, found, rows, importance)
    if as_json:
        print(json.dumps({"sweep": str(folder), "trials": rows, "importance": importance, "failed": failed}))
    else:
        header = list(rows[0])
        print_rows(header, [tuple(row.values()) for row in rows], as_json=False)
        best, others = rows[0], [row for row in rows[1:] if row["high"] is not None]
        if best["score"] is not None:
            alike = sum(row["high"] >= best["low"] for row in others)
            trial = found.plan.runs[int(best["trial"].rpartition("-")[2])]
            print(
                f"Best: {best['trial']}, {trial.setting}: {best['score']:.3f} [{best['low']:.3f}, "
                f"{best['high']:.3f}]; the intervals of {alike} others reach into its own. It was chosen as "
                f"the best of {len(rows)}, so expect somewhat less"
            )
            axes = " ".join(f"--set {override!r}" for override in trial.overrides[:-1])
            print(f"Over seeds: league sweep {plan.config} --seeds 5 {axes} --run {folder}-best")
        if importance:
            print("Mattered: " + ", ".join(f"{key} {share:.0%}" for key, share in importance.items()))
        print(f"More: {page}; league runs {folder}")
    _raise_failed(failed, len(found.plan.runs), folder)


def _trials(found: Search) -> list[dict[str, Any]]:
    """Return a row for each trial, the best first; those that were stopped early, or failed, are last."""
    rows = []
    for trial in found.trials:
        last = trial.last
        score = (None,) * 4 if last is None else (last.value, last.low, last.high, last.env_steps)
        row: dict[str, Any] = {"trial": trial.run.name} | dict(
            zip((axis.key for axis in found.axes), trial.chosen, strict=True)
        )
        row |= dict(zip(("score", "low", "high", "env_steps"), score, strict=True)) | {"ended": trial.ended}
        rows.append(row)
    order = ("trained", "stopped")
    return sorted(
        rows,
        key=lambda row: (order.index(row["ended"]) if row["ended"] in order else 2, -(row["score"] or 0.0)),
    )


def _write_page(
    folder: Path, found: Search, rows: Sequence[Mapping[str, Any]], importance: Mapping[str, float]
) -> Path:
    """Write the report of a search into its folder; return its path."""
    import pandas as pd

    from analysis.report.search import search_page
    from storage.disk import write_whole

    frame, forms = pd.DataFrame(rows), {axis.key: axis.form for axis in found.axes}
    for axis in found.axes:
        if axis.form != "choice":
            frame[axis.key] = frame[axis.key].astype(float)
    page = folder / "report.html"
    write_whole(page, [search_page(folder.name, frame, forms, importance).encode()])
    return page


def _row(line: Line) -> tuple[Any, ...]:
    from analysis.sweeps import ends, number

    found = line.aggregate
    mean, iqm = (f"{number(part.value)}{ends(part)}" for part in (found.mean, found.iqm))
    scores = ", ".join(map(number, line.scores))
    return line.setting, line.figure, found.n, mean, number(found.median), iqm, scores


def _as_json(
    plan: Plan, figures: Mapping[str, Sequence[Mapping[str, float]]], lines: Sequence[Line]
) -> list[dict[str, Any]]:
    return [
        {
            "setting": line.setting,
            "figure": line.figure,
            "scores": line.scores,
            "mean": _ends(line.aggregate.mean),
            "median": line.aggregate.median,
            "iqm": _ends(line.aggregate.iqm),
            "behind": None if line.behind is None else _ends(line.behind),
            "sentence": line.sentence,
            "runs": [run.name for run in plan.runs if run.setting == line.setting],
            "figures": figures[line.setting],
        }
        for line in lines
    ]


def _ends(interval: Estimate) -> list[float | None]:
    """Return value, low and high; JSON has no infinity."""
    return [x if math.isfinite(x) else None for x in (interval.value, interval.low, interval.high)]
