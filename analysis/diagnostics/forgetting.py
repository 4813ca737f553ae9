"""Lost strength: what a player has forgotten, and opponents that it has begun to lose to.

Forgetting: a player used to beat an opponent, and no longer does.

For each fixed opponent, every stretch of moments is compared with every later stretch that lasts until now.
The test is whether the score fell by more than MARGIN, so that natural fluctuation is no finding, with any
number of games. P-values have Bonferroni's correction over the stretches, and Holm's over all players and
opponents. A loss that the player recovered from is not reported: the latest games must still score lower. The
bad times may have most games, because matchmaking then selects that opponent more often.

Regressions: snapshots of other players that a player loses to now.

An exploiter that has just been frozen beats the player that it was trained against; a finding is that it
still does in that player's latest games. Exploiters lose to all others after each reset, which is expected.
So the subjects are mains or, in a league without mains, all players that were never reset. In a tournament,
where no player learns, the newest snapshots of mains are compared with snapshots of other roles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.diagnostics.finding import Finding, percent_between
from analysis.diagnostics.record import WINDOWS, Record, Series
from analysis.diagnostics.significance import Counts, above, dispersion, holm
from storage.arrays import Floats
from storage.records import MAIN

MARGIN = 0.05  # of the score: a smaller loss needs no action
LEVEL = 0.01  # probability of any false finding in a run
LEAST_GAMES = 50.0  # on each side of the drop
GRAVE = 0.15  # least drop for a warning
MOST = 3  # findings for one player


@dataclass(frozen=True, slots=True)
class Drop:
    """Most significant drop against each of P opponents: from moments `first` to `last` until `since` on."""

    p_value: Floats  # [P], over all stretches
    first: Floats  # [P]
    last: Floats  # [P]
    since: Floats  # [P]


def find_forgetting(record: Record) -> list[Finding]:
    """Return the largest drops of each player, players in order of names."""
    drops = [surest_drop(series.counts, dispersion(series.counts)) for series in record.series]
    if not drops:
        return []
    ends = np.cumsum([len(series.opponents) for series in record.series])[:-1]
    adjusted = np.split(holm(np.concatenate([drop.p_value for drop in drops])), ends)
    found: list[Finding] = []
    for series, drop, p_value in zip(record.series, drops, adjusted, strict=False):
        lost = np.flatnonzero(p_value < LEVEL).tolist()
        of_player = [_forgotten(record, series, drop, i, float(p_value[i])) for i in lost]
        of_player.sort(key=lambda finding: -finding.evidence["drop"])
        for finding in of_player:
            finding.evidence["forgotten_opponents"] = [one.evidence["opponent"] for one in of_player]
        found += of_player[:MOST]
    return found


def surest_drop(counts: Counts, dispersion: float = 1.0) -> Drop:
    """Return the most significant drops of scores [P, K] against P opponents at K moments.

    The variance is `dispersion` times that of independent games.
    """
    opponents, moments = counts.games.shape
    best = np.full(opponents, -np.inf)
    where = np.zeros((3, opponents), dtype=np.int64)
    first, last = np.triu_indices(max(0, moments - 1))
    stretches = 0
    latest = counts.latest(LEAST_GAMES)
    total = counts.mapped(lambda a: np.pad(np.cumsum(a, axis=1), ((0, 0), (1, 0))))
    for since in range(1, moments):
        until = last < since
        i, j = first[until], last[until]
        before = _between(total, i, j + 1)
        after = _between(total, np.array([since]), np.array([moments]))
        fell = before.estimate - after.estimate - MARGIN
        z = fell / np.sqrt(dispersion * (before.variance + after.variance))
        lasts = before.estimate - latest.estimate[:, None] > MARGIN
        z[(before.games < LEAST_GAMES) | (after.games < LEAST_GAMES) | ~lasts] = -np.inf
        stretches += len(i)
        here = z.argmax(axis=1)
        value = z[np.arange(opponents), here]
        better = value > best
        best[better] = value[better]
        where[:, better] = np.stack([i[here], j[here], np.full(opponents, since)])[:, better]
    return Drop(np.minimum(1.0, above(best) * max(1, stretches)), *where)


def _between(total: Counts, first: np.ndarray, end: np.ndarray) -> Counts:
    """Return counts of moments `first` to `end` - 1, from running totals [P, K + 1]."""
    return total.mapped(lambda a: a[:, end] - a[:, first])


def _forgotten(record: Record, series: Series, drop: Drop, i: int, p_value: float) -> Finding:
    opponent, k = series.opponents[i], len(series.edges) - 1
    first, last, since = int(drop.first[i]), int(drop.last[i]), int(drop.since[i])
    before, after = series.counts[i, first : last + 1].sum(), series.counts[i, since:k].sum()
    spread = dispersion(series.counts)
    was, now = before.evidence(spread), after.evidence(spread)
    if record.live:
        # The drop may be anywhere within the last moment before and the first one after.
        begins, ends = int(series.edges[last]), int(series.edges[since + 1])
        earlier = record.snapshot_before(series.player, begins)
        later = record.snapshot_after(series.player, ends)
        best_begins, best_ends = int(series.edges[first]), int(series.edges[last + 1])
        best = record.snapshot_within(series.player, best_begins, best_ends) or record.snapshot_before(
            series.player, best_ends
        )
        when = {"after_seq": begins, "before_seq": ends, "env_steps": float(record.env_steps[since])}
    else:
        snapshots = record.entered[series.player]
        earlier, later = snapshots[series.edges[last + 1] - 1], snapshots[series.edges[since]]
        best, when = snapshots[series.edges[first]], {}
    fell = was["score"] - now["score"]
    sentence = (
        f"{series.player} lost strength against {opponent}: it scored {percent_between(was)} in "
        f"{before.games:,.0f} games, and {percent_between(now)} in the last {after.games:,.0f}; "
        f"this happened between {earlier} and {later}"
    )
    evidence = {
        "opponent": opponent,
        "before": was,
        "after": now,
        "drop": fell,
        "between": [earlier, later],
        "best_from": best,  # first snapshot of the best stretch
        "p_value": p_value,
        **when,
    }
    return Finding("forgetting", "warning" if fell >= GRAVE else "note", series.player, sentence, evidence)


LEAST_LATELY = 100.0  # games of the latest moments
RECENT = WINDOWS // 4  # moments that count as now
LOSING = 0.4  # scores below this are warnings


def find_regressions(record: Record, known: set[tuple[str, str]]) -> list[Finding]:
    """Return the worst regressions of each player, without the `known` pairs (player, opponent)."""
    mains = MAIN in record.role.values()
    subjects = [
        series
        for series in record.series
        if (_role(record, series) == MAIN or not mains) and series.player not in record.last_reset
    ]
    tested = [
        (series, i, series.counts[i, -RECENT:].latest(LEAST_LATELY))
        for series in subjects
        for i in _others(record, series)
    ]
    tested = [one for one in tested if one[2].games >= LEAST_LATELY and not _recovered(one[0].counts[one[1]])]
    if not tested:
        return []
    spread = {series.player: dispersion(series.counts) for series in subjects}
    z = [
        (0.5 - MARGIN - counts.estimate) / np.sqrt(spread[series.player] * counts.variance)
        for series, _, counts in tested
    ]
    p_values = holm(above(np.array(z)))
    found = [
        _regression(record, series, series.opponents[i], counts, spread[series.player], float(p))
        for (series, i, counts), p in zip(tested, p_values, strict=True)
        if p < LEVEL and (series.player, series.opponents[i]) not in known
    ]
    found.sort(key=lambda finding: finding.evidence["score"])
    count: dict[str, int] = {}
    for finding in found:
        count[finding.evidence["player"]] = count.get(finding.evidence["player"], 0) + 1
        finding.evidence["rank"] = count[finding.evidence["player"]]
    return [finding for finding in found if finding.evidence["rank"] <= MOST]


def _others(record: Record, series: Series) -> list[int]:
    """Return the opponents that are snapshots of other players."""
    role = _role(record, series)
    return [
        i
        for i, opponent in enumerate(series.opponents)
        if record.owner.get(opponent, series.player) != series.player
        and (record.live or record.role.get(opponent) != role)
    ]


def _role(record: Record, series: Series) -> str | None:
    """Return the role of the player; in a tournament the role of its newest snapshot."""
    return record.role.get(series.player if record.live else record.entered[series.player][-1])


def _recovered(counts: Counts) -> bool:
    """Return whether the player no longer loses by its most recent games alone.

    A player that recovered meets the opponent less often, so that the many earlier games would hide it.
    """
    return float(counts[-RECENT:].latest(LEAST_LATELY / 4).score) > 0.5 - MARGIN


def _regression(
    record: Record, series: Series, opponent: str, counts: Counts, spread: float, p_value: float
) -> Finding:
    player = series.player
    subject = (
        record.entered[player][-1] if not record.live else record.snapshot_before(player, record.last_seq)
    )
    score = counts.evidence(spread)
    lost = {"score": 1.0 - score["score"], "low": 1.0 - score["high"], "high": 1.0 - score["low"]}
    role, other = _role(record, series), record.role.get(opponent)
    grave = score["score"] < LOSING and role != other
    since = subject if not record.live or subject == player else f"{player} (since {subject})"
    sentence = (
        f"{since} loses {percent_between(lost)} to {opponent}, in its last {counts.games:,.0f} games "
        "against it"
    )
    who = {"player": player, "opponent": opponent, "opponent_role": other}
    evidence = who | score | {"p_value": p_value}
    return Finding("regression", "warning" if grave else "note", subject, sentence, evidence)
