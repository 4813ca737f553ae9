"""Crashes: matches that the game ended by an error, or by an answer that cannot be used, with their cause."""

from __future__ import annotations

from analysis.diagnostics.finding import Finding
from analysis.diagnostics.record import Record

GRAVE = 0.01  # share of all matches for a warning


def find_crashes(record: Record) -> list[Finding]:
    """Return a finding if matches crashed: how many, and the cause that is recorded most often."""
    rows = record.sql(
        "SELECT coalesce(sum(matches), 0)::BIGINT AS n,"
        " coalesce(sum(matches) FILTER (reason = 'crash'), 0)::BIGINT AS crashed FROM played"
    )
    matches, crashed = int(rows["n"].iloc[0]), int(rows["crashed"].iloc[0])
    if not crashed:
        return []
    causes = record.sql(
        "SELECT cause, sum(matches)::BIGINT AS n FROM incidents WHERE kind IN ('crash', 'set_aside') "
        "GROUP BY cause ORDER BY n DESC, cause"
    )
    cause = str(causes["cause"].iloc[0]) if len(causes) else ""
    why = f": {cause}" if cause else "; the cause is not recorded"
    more = f"; {len(causes) - 1} other causes are in the table incidents" if len(causes) > 1 else ""
    share = crashed / matches
    shown = f"{100 * share:.2g} %"
    env = str(record.config.get("env", {}).get("id", "the game"))
    return [
        Finding(
            "crashes",
            "warning" if share > GRAVE else "note",
            env,
            f"{crashed:,} of {matches:,} matches of {env} crashed ({shown}){why}{more}. Correct the game "
            f"(league envs check {env})",
            {"crashed": crashed, "matches": matches, "causes": causes["cause"].tolist()},
        )
    ]
