"""Regressions: snapshots of other players that a player loses to now.

An exploiter that has just been frozen beats the player that it was trained against; a finding is that it
still does in that player's latest games. Exploiters lose to all others after each reset, which is expected.
So the subjects are mains or, in a league without mains, all players that were never reset. In a tournament,
where no player learns, the newest snapshots of mains are compared with snapshots of other roles.
"""

from __future__ import annotations

import numpy as np

from analysis.diagnostics.finding import Finding, percent_between
from analysis.diagnostics.record import WINDOWS, Record, Series
from analysis.diagnostics.significance import Counts, above, dispersion, holm
from storage.records import MAIN

MARGIN = 0.05  # below one half: larger losses are not an even match
LEVEL = 0.01  # probability of any false finding
LEAST_GAMES = 100.0
RECENT = WINDOWS // 4  # moments that count as now
GRAVE = 0.4  # scores below this are warnings
MOST = 3  # findings for one player


def find_regressions(record: Record, known: set[tuple[str, str]]) -> list[Finding]:
    """Return the worst regressions of each player, without the `known` pairs (player, opponent)."""
    mains = MAIN in record.role.values()
    subjects = [
        series
        for series in record.series
        if (_role(record, series) == MAIN or not mains) and series.player not in record.last_reset
    ]
    tested = [(series, i, _latest(series.counts[i])) for series in subjects for i in _others(record, series)]
    tested = [one for one in tested if one[2].games >= LEAST_GAMES and not _recovered(one[0].counts[one[1]])]
    if not tested:
        return []
    spread = {series.player: dispersion(series.counts) for series in subjects}
    z = [
        (0.5 - MARGIN - counts.estimate) / np.sqrt(spread[series.player] * counts.variance)
        for series, _, counts in tested
    ]
    p_values = holm(above(np.array(z)))
    found = [
        _finding(record, series, series.opponents[i], counts, spread[series.player], float(p))
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


def _latest(counts: Counts, least_games: float = LEAST_GAMES) -> Counts:
    """Return counts of the shortest stretch until now with enough games, of at most RECENT moments [K]."""
    for moments in range(1, RECENT + 1):
        found = counts[-moments:].sum()
        if found.games >= least_games:
            break
    return found


def _recovered(counts: Counts) -> bool:
    """Return whether the player no longer loses by its most recent games alone.

    A player that recovered meets the opponent less often, so that the many earlier games would hide it.
    """
    return float(_latest(counts, LEAST_GAMES / 4).score) > 0.5 - MARGIN


def _finding(
    record: Record, series: Series, opponent: str, counts: Counts, spread: float, p_value: float
) -> Finding:
    player = series.player
    subject = (
        record.entered[player][-1] if not record.live else record.snapshot_before(player, record.last_seq)
    )
    score, (low, high) = float(counts.score), map(float, counts.interval(spread))
    role, other = _role(record, series), record.role.get(opponent)
    grave = score < GRAVE and role != other
    since = subject if not record.live or subject == player else f"{player} (since {subject})"
    return Finding(
        kind="regression",
        severity="warning" if grave else "note",
        subject=subject,
        sentence=(
            f"{since} loses {percent_between(1.0 - score, 1.0 - high, 1.0 - low)} to {opponent}, in its last "
            f"{counts.games:,.0f} games against it"
        ),
        evidence={
            "player": player,
            "opponent": opponent,
            "opponent_role": other,
            "score": score,
            "low": low,
            "high": high,
            "games": int(counts.games),
            "p_value": p_value,
        },
    )
