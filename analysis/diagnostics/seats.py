"""Jumps of a seat: what it is worth changed at once by more than it changes otherwise in this run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.diagnostics.finding import Finding, percent, percent_between, steps
from analysis.diagnostics.record import Record
from analysis.diagnostics.significance import MEDIAN_SQUARE, Counts, above, holm

STRETCHES = 32  # of equally many matches
LEAST_GAMES = 200.0  # of a seat in a stretch
LEAST_KNOWN = 8  # changes between stretches, by which the usual one is known
JUMP = 0.05  # points per game
LARGE = 0.6  # share of the largest jump, from which on one is as large
LEVEL = 0.001
MOSTLY = 0.5  # share of the jump that one competitor in the seat has, to be named

_SEATS = f"""
WITH last AS (SELECT max(seq) AS seq FROM played),
placed AS (
    SELECT *, least({STRETCHES - 1}, (s.seq - 1) * {STRETCHES} // last.seq) AS part FROM seated s, last
)
SELECT seat, competitor, CAST(part AS BIGINT) AS part, sum(seats)::DOUBLE AS games,
    coalesce(sum(seats) FILTER (outcome = 'win'), 0)::DOUBLE AS wins,
    coalesce(sum(seats) FILTER (outcome = 'draw'), 0)::DOUBLE AS draws
FROM placed WHERE purpose = 'training' AND num_seats > 1 GROUP BY ALL ORDER BY ALL
"""
_STEPS = f"""
WITH last AS (SELECT max(seq) AS seq FROM played),
parts AS (
    SELECT least({STRETCHES - 1}, (p.seq - 1) * {STRETCHES} // last.seq) AS part, sum(env_steps) AS steps
    FROM played p, last WHERE NOT is_placing GROUP BY part
)
SELECT CAST(part AS BIGINT) AS part, sum(steps) OVER (ORDER BY part)::DOUBLE AS env_steps FROM parts
"""


def find_seats(record: Record) -> list[Finding]:
    """Return the first of the largest jumps of a seat's points per game, if there is one."""
    rows = record.sql(_SEATS)
    if rows.empty:
        return []
    seats = np.sort(rows["seat"].unique())
    counts = Counts(*(_by_seat(rows, name, seats) for name in ("games", "wins", "draws")))
    score, variance = counts.estimate, counts.variance
    change, by_chance = np.diff(score), variance[:, 1:] + variance[:, :-1]
    known = (counts.games[:, 1:] >= LEAST_GAMES) & (counts.games[:, :-1] >= LEAST_GAMES)
    if known.sum() < LEAST_KNOWN * len(seats):
        return []
    usual = max(1.0, float(np.median((change**2 / by_chance)[known])) / MEDIAN_SQUARE)
    p = np.ones(change.shape)
    p[known] = holm(2.0 * above(np.abs(change[known]) / np.sqrt(usual * by_chance[known])))
    size = np.where((p < LEVEL) & (np.abs(change) >= JUMP), np.abs(change), 0.0)
    if not size.any():
        return []
    large = size >= LARGE * size.max()
    at = int(large.any(axis=0).argmax())
    row = int(large[:, at].argmax())
    seat, before, after = int(seats[row]), float(score[row, at]), counts[row, at + 1].evidence(usual)
    reached = record.sql(_STEPS).set_index("part")["env_steps"].reindex(range(STRETCHES)).ffill()
    near = np.abs(score[row, at + 2 :] - before) < size[row, at] / 2
    back = int(at + 2 + near.argmax()) if near.any() else None
    who = _most_of(rows[(rows["seat"] == seat) & (rows["part"] == at + 1)], before)
    since, until = float(reached[at]), None if back is None else float(reached[back])
    sentence = (
        f"seat {seat} (0 is the first) went from {percent(before)} to {percent_between(after)} of the points "
        f"after {steps(since)} of the league{f', most of it with {who} in it' if who else ''}; "
        + ("it has stayed so" if until is None else f"it was back by {steps(until)}")
    )
    evidence = {"seat": seat, "before": before, **after, "env_steps": since, "back": until}
    return [Finding("seats", "note", f"seat {seat}", sentence, evidence | {"competitor": who})]


def _by_seat(rows: pd.DataFrame, name: str, seats: np.ndarray) -> np.ndarray:
    """Return the sums [S, STRETCHES] of a column."""
    table = rows.pivot_table(name, "seat", "part", "sum", 0.0)
    return table.reindex(index=seats, columns=range(STRETCHES), fill_value=0.0).to_numpy(dtype=np.float64)


def _most_of(rows: pd.DataFrame, before: float) -> str | None:
    """Return the competitor that most of the points beyond (or below) those of before are of, if one is."""
    excess = rows["wins"] + 0.5 * rows["draws"] - before * rows["games"]
    share = excess / excess.sum()
    return str(rows["competitor"].iloc[int(share.argmax())]) if share.max() > MOSTLY else None
