"""Page on a search of settings: the best trials, what mattered, and the score over the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.sheet import EDGE, Sheet, grid
from analysis.plots.style import GREY, HUES, STRENGTHS, WIDTH, drawing
from analysis.report.markup import Column, bullets, paragraph, section, table
from analysis.report.page import document
from analysis.report.phrases import count, whole
from analysis.report.sections.pictures import picture
from storage.arrays import Floats

TALL = 130.0  # points of a panel
FEWEST = 6  # trials with a score for a surface
NEAR = 0.15  # width of the kernel that smooths it, of the range of each setting


def search_page(
    name: str, trials: pd.DataFrame, forms: Mapping[str, str], importance: Mapping[str, float]
) -> str:
    """Return an HTML page on a search; the same trials give the same bytes.

    `trials`: a column for each setting of `forms` (log, linear, int, choice), and trial, score, low, high,
    env_steps, ended. `importance`: share of each setting in what differs, if it is known.
    """
    keys = list(forms)
    measured = trials.dropna(subset=["score"])
    order = measured.assign(whole=measured["ended"] == "trained").sort_values(
        ["whole", "score"], ascending=False, kind="stable"
    )
    columns = [Column("trial", lambda row: row["trial"])]
    columns += [
        Column(key, lambda row, key=key: str(row[key]), numeric=forms[key] != "choice")  # type: ignore[misc]
        for key in keys
    ]
    columns += [
        Column("score", lambda row: f"{row['score']:.3f}", numeric=True),
        Column("95 % interval", lambda row: f"{row['low']:.3f} to {row['high']:.3f}", numeric=True),
        Column("env steps", lambda row: whole(row["env_steps"]), numeric=True),
        Column("ended", lambda row: "stopped early" if row["ended"] == "stopped" else row["ended"]),
    ]
    shares = sorted(importance.items(), key=lambda item: -item[1])
    said = "Share of each setting in the differences between trials, by an analysis of variance."
    said = said if shares else "Too few trials, or all alike: nothing is known of what matters."
    meaning = (
        "The score is the mean of points per game against the fixed opponents. The interval is of "
        "the games alone, not of the chance of training."
    )
    best = table("trials-table", "The best first", columns, order.to_dict("records"), sortable=True)
    mattered = bullets([f"{key}: {share:.0%}" for key, share in shares])
    shown = [
        section("trials", "Trials", paragraph(meaning), best),
        section("mattered", "What mattered", paragraph(said), mattered),
    ]
    ranked = [key for key, _ in shares] or keys
    pictures = []
    if len(measured):
        figure = each_setting(measured, forms)
        pictures.append(picture("settings-plot", figure, "Hollow marks are trials that were stopped early."))
    pair = [key for key in ranked if forms[key] != "choice"][:2]
    if len(pair) == 2 and len(measured) >= FEWEST:
        caption = "The colour between the trials is a mean of those that are near, so it is no measurement."
        pictures.append(picture("surface-plot", surface(measured, forms, pair[0], pair[1]), caption))
    shown.append(section("surface", "Score over the settings", *pictures))
    return document(f"{name}: search", name, count(len(trials), "trial"), shown)


@drawing()
def each_setting(trials: pd.DataFrame, forms: Mapping[str, str]) -> Figure:
    """Draw the score over each setting, with its interval, one panel below the other."""
    sheet = Sheet("settings", "Score by setting", "points per game with 95 % intervals", 0)
    sheet.resize(len(forms) * (TALL + 44))
    for row, key in enumerate(forms):
        bottom = (len(forms) - 1 - row) * (TALL + 44) + 34
        axes = sheet.axes(50, bottom, WIDTH - 50 - EDGE - 6, TALL)
        x = _places(trials, key, forms[key])
        score, stopped = trials["score"].to_numpy(float), (trials["ended"] == "stopped").to_numpy()
        error = np.abs(trials[["low", "high"]].to_numpy(float).T - score)
        axes.errorbar(x, score, yerr=error, fmt="none", ecolor=GREY, elinewidth=0.8)
        for part, fill in ((~stopped, HUES[0]), (stopped, "none")):
            axes.scatter(x[part], score[part], s=16, facecolor=fill, edgecolor=HUES[0], zorder=3)
        _axis(axes, "x", key, trials, forms[key])
        axes.set_ylabel("score")
        grid(axes)
        sheet.fit(axes, bottom=bottom - 34)
    return sheet.figure


@drawing()
def surface(trials: pd.DataFrame, forms: Mapping[str, str], across: str, up: str) -> Figure:
    """Draw the score over two settings of numbers, smoothed between the trials."""
    low, high = trials["score"].min(), trials["score"].max()
    sheet = Sheet(
        "surface", f"Score over {across} and {up}", f"from {low:.3f} (dark) to {high:.3f} (light)", 0
    )
    sheet.resize(260)
    axes = sheet.axes(60, 34, WIDTH - 60 - EDGE - 6, 220)
    at = np.stack([_places(trials, key, forms[key]) for key in (across, up)])  # [2, trials]
    first, span = at.min(axis=1, keepdims=True), np.ptp(at, axis=1, keepdims=True)
    span[span == 0] = 1.0
    unit, line = (at - first) / span, np.linspace(0.0, 1.0, 40)
    cells = np.stack(np.meshgrid(line, line)).reshape(2, -1)
    distance = np.square(cells[:, :, None] - unit[:, None, :]).sum(axis=0)  # [cells, trials]
    weight = np.exp(-distance / (2 * NEAR**2)) + 1e-12
    mean = (weight * trials["score"].to_numpy(float)).sum(axis=1) / weight.sum(axis=1)
    x, y = cells * span + first
    shape = (len(line), len(line))
    axes.contourf(x.reshape(shape), y.reshape(shape), mean.reshape(shape), levels=12, cmap=STRENGTHS)
    colors: Any = {"c": trials["score"], "cmap": STRENGTHS, "vmin": low, "vmax": high}
    axes.scatter(at[0], at[1], s=22, edgecolor="black", clip_on=False, **colors)
    _axis(axes, "x", across, trials, forms[across])
    _axis(axes, "y", up, trials, forms[up])
    sheet.fit(axes)
    return sheet.figure


def _places(trials: pd.DataFrame, key: str, form: str) -> Floats:
    """Return the places [trials] of the values on an axis: logarithms, or numbers of choices."""
    if form == "choice":
        return np.unique(trials[key], return_inverse=True)[1].astype(float)
    values = trials[key].to_numpy(float)
    return np.log10(values) if form == "log" else values


def _axis(axes: Axes, which: str, key: str, trials: pd.DataFrame, form: str) -> None:
    """Name an axis, with the values of choices at their places."""
    label = f"{key}, power of 10" if form == "log" else key
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(label)
    if form == "choice":
        names = np.unique(trials[key])
        axes.set_xticks(np.arange(len(names)), [str(name) for name in names])
