"""The command `league sweep`: train a grid of settings over several seeds, and compare them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import JsonOption, print_rows

if TYPE_CHECKING:
    from analysis.statistics.seeds import Estimate
    from analysis.sweeps import Line
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
    """Train every setting of a grid with several seeds, and say which settings differ.

    The grid is fixed at the start. The same command, or `league sweep DIR`, goes on after a kill: finished
    runs are not trained again, and cut ones are resumed.
    """
    from league.config.file import PLAN, fields_of
    from league.training.sweeps import begin, make_plan, read_plan, train_all
    from storage.errors import Failure, Mistake

    if by is not None:  # a mistake in it is answered before training
        from analysis.sweeps import check_figure

        check_figure(by)
    if config.is_dir():
        if seeds or set_ or out:
            raise Mistake(
                f"{config}: a sweep that is there keeps its grid, expected no --seeds, --set or --run"
            )
        folder, plan = config, read_plan(config)
    else:
        plan = make_plan(config, set_ or (), seeds or 3)
        folder = out or Path("runs") / f"{fields_of(config)[1]['name']}-sweep"
        begin(plan, folder)

    def say(line: str) -> None:
        typer.echo(line, err=as_json)

    say(f"{folder}: {len(plan.runs)} runs of {len(plan.settings)} settings, in the order of {folder / PLAN}")
    failed = train_all(plan, folder, jobs, say)
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
    if failed:
        again = f"league sweep {folder}"
        raise Failure(f"{len(failed)} of {len(plan.runs)} runs failed: {', '.join(failed)}; again: {again}")


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
