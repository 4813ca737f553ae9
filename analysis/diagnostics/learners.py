"""Learners with too little or too old experience: lag, starvation, dropped steps.

Normal values differ between games and machines, so each player is compared with itself. A finding is a
significant change for the worse within the run, or lost experience.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import pdtr

from analysis.diagnostics.finding import Finding, percent
from analysis.diagnostics.record import WINDOWS, Record
from analysis.diagnostics.significance import above
from analysis.history.frames import number_setting
from storage.arrays import Floats

LEVEL = 0.001  # of each test
LEAST_ROWS = 12  # rows of `updates` for a trend
GROWN = 1.5  # least ratio of a grown lag to the player's earlier median
MOST_LAG = (
    32.0  # updates, that sizes of requests aim at: less is no problem, where settings do not ask for less
)
STARVED = 0.25  # of the player's earlier share of matches, or updates per match
LEAST_BATCHES = 8.0  # batches of results expected by the player's earlier share
LOST = 0.05  # share of a player's steps that were dropped before learning
RECENT = WINDOWS // 4
_SILENCE = 3.0  # in usual intervals of reports: without a report for this long, there was no learning


def find_lag(record: Record) -> list[Finding]:
    """Return players whose experience gets older and older, and is older than `rollout.max_lag` asks for."""
    found = []
    limit = number_setting(record.config, "rollout", "max_lag", default=MOST_LAG, above=0.0)
    for player, rows in record.updates.groupby("player"):
        lag = rows["lag"].to_numpy(dtype=np.float64)
        lag = lag[np.isfinite(lag)]
        if len(lag) < LEAST_ROWS:
            continue
        before, recent = lag[: len(lag) // 2], lag[-max(3, len(lag) // 4) :]
        usual, now = float(np.median(before)), float(np.median(recent))
        p_value = float(above(rank_sum(before, recent)))
        if now <= limit or now < GROWN * usual or p_value > LEVEL * 10:
            continue
        most = float(lag.max())
        sentence = (
            f"{player} learns from ever older experience, beyond {limit:g} updates: weights lag by {now:.1f} "
            f"updates in the last quarter of its reports, by {usual:.1f} in the first half (medians; at most "
            f"{most:.1f})"
        )
        evidence = {"lag": now, "usual": usual, "most": most, "limit": limit, "rows": len(lag)}
        evidence["p_value"] = p_value
        found.append(Finding("lag", "warning", str(player), sentence, evidence))
    return found


def rank_sum(before: Floats, after: Floats) -> float:
    """Return by how many standard errors `after` ranks above `before`; ties have their mean rank.

    Source: Mann and Whitney, Ann. Math. Stat. 18, 1947.
    """
    _, position, count = np.unique(np.concatenate([before, after]), return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[position]
    m, n = len(before), len(after)
    above_mean = rank[m:].sum() - n * (m + n + 1) / 2
    return float(above_mean / math.sqrt(m * n * (m + n + 1) / 12))


def find_starvation(record: Record) -> list[Finding]:
    """Return players with few matches, few updates or lost experience, and learners that stopped."""
    found = _stopped(record)
    seen = {finding.subject for finding in found}
    for find in (_few_matches, _few_updates, _lost_steps):
        found += [finding for finding in find(record) if finding.subject not in seen]
        seen = {finding.subject for finding in found}
    return found


def _stopped(record: Record) -> list[Finding]:
    """Return players whose learner refused an update, without a reset since."""
    rows = record.decisions[record.decisions["kind"].isin(["stop", "reset"])]
    last = rows.groupby("player").tail(1)
    return [
        _starves(
            str(row.player), f"{row.player} does not learn any more: {row.reason}", {"reason": row.reason}
        )
        for row in last[last["kind"] == "stop"].itertuples()
    ]


def _few_matches(record: Record) -> list[Finding]:
    """Return players whose share of training matches collapsed."""
    batches = _by_window(record.played, "batches", record)
    if batches.empty:
        return []
    total = batches.sum(axis=0).to_numpy()
    found = []
    for player in _training(record, batches.index):
        own = batches.loc[player].to_numpy()
        since = int(np.argmax(own > 0)) + 1  # the player's first window is incomplete
        until = WINDOWS - RECENT
        if until - since < RECENT:
            continue
        busy = since + np.flatnonzero(total[since:until] > 0)
        if not len(busy):
            continue
        usual = float(np.median(own[busy] / total[busy]))
        expected, got = usual * float(total[-RECENT:].sum()), float(own[-RECENT:].sum())
        if expected < LEAST_BATCHES or got > STARVED * expected or pdtr(got, expected / 2) > LEVEL:
            continue
        share = got / float(total[-RECENT:].sum())
        sentence = (
            f"{player} starves: it got {percent(share)} of the batches of training matches in the "
            f"last quarter of the run, but {percent(usual)} before"
        )
        evidence = {"share": share, "usual": usual, "batches": int(got), "expected_batches": expected}
        found.append(_starves(player, sentence, evidence))
    return found


def _few_updates(record: Record) -> list[Finding]:
    """Return players with far fewer updates per batch of matches than before."""
    batches = _by_window(record.played, "batches", record)
    rows = record.updates
    found = []
    for player in _training(record, batches.index):
        own = rows[rows["player"] == player]
        if len(own) < LEAST_ROWS:
            continue
        at, count = own["seq"].to_numpy(), own["updates"].to_numpy(dtype=np.float64)
        made = np.diff(np.maximum.accumulate(np.interp(record.edges, at, count, left=0.0)))
        played = batches.loc[player].to_numpy()
        if record.last_seq - at[-1] <= _SILENCE * np.median(np.diff(at)):
            # The time since the last report is ignored: the next report will cover it.
            whole = int(np.searchsorted(record.edges, at[-1], side="right")) - 1
            made, played = made[:whole], played[:whole]
        before = np.flatnonzero(played[:-RECENT] > 0)[1:]  # the player's first window is incomplete
        recent = float(played[-RECENT:].sum())
        if len(before) < RECENT or recent < LEAST_BATCHES:
            continue
        usual = float(np.median(made[before] / played[before]))
        now = float(made[-RECENT:].sum() / recent)
        if usual > 0.0 and now < STARVED * usual:
            sentence = (
                f"{player} learns too little: {now:.2g} updates for each batch of its matches in "
                f"the last quarter of the run, but {usual:.2g} before"
            )
            evidence = {"updates_per_batch": now, "usual": usual, "batches": int(recent)}
            found.append(_starves(player, sentence, evidence))
    return found


def _lost_steps(record: Record) -> list[Finding]:
    """Return players whose experience was dropped before the learner received it."""
    found = []
    for player, rows in record.updates.groupby("player"):
        lost = added_up(rows["dropped_steps"].to_numpy(dtype=np.float64))
        trained = float(rows["env_steps"].max())
        share = lost / (lost + trained) if lost else 0.0
        if share > LOST:
            sentence = (
                f"{player} lost {percent(share)} of its experience: {lost:,.0f} steps were dropped "
                f"before its learner received them, {trained:,.0f} were used"
            )
            evidence = {"share": share, "dropped_steps": int(lost), "trained_steps": int(trained)}
            found.append(_starves(str(player), sentence, evidence))
    return found


def _starves(player: str, sentence: str, evidence: dict[str, Any]) -> Finding:
    return Finding("starvation", "warning", player, sentence, evidence)


def added_up(counter: Floats) -> float:
    """Return the total of a counter [n] that restarts at 0 whenever a run is resumed."""
    step = np.diff(np.append(0.0, np.nan_to_num(counter)))
    return float(np.where(step < 0, np.nan_to_num(counter), step).sum())


def _training(record: Record, players: pd.Index) -> list[str]:
    """Return those `players` that were not removed from training."""
    removed = set(record.decisions.loc[record.decisions["kind"] == "remove", "player"])
    return [str(player) for player in players if player not in removed]


def _by_window(rows: pd.DataFrame, column: str, record: Record) -> pd.DataFrame:
    """Return `column` as a table [players, WINDOWS], with 0 for missing values."""
    rows = rows[rows["player"].isin(record.live)]
    table = rows.pivot_table(index="player", columns="window", values=column, aggfunc="sum")
    return table.reindex(columns=range(WINDOWS)).astype(np.float64).fillna(0.0)
