"""Diagnosis: the findings of every diagnostic, most important first."""

from __future__ import annotations

from analysis.diagnostics.cycles import find_circling, find_cycles
from analysis.diagnostics.drift import find_drift
from analysis.diagnostics.finding import Finding, by_importance
from analysis.diagnostics.forgetting import find_forgetting, find_regressions
from analysis.diagnostics.learners import find_lag, find_starvation
from analysis.diagnostics.record import Record
from analysis.diagnostics.seats import find_seats
from analysis.diagnostics.stagnation import find_stagnation
from analysis.history.history import History


def diagnose(history: History) -> list[Finding]:
    """Return all findings of one run or several, warnings first; [] without findings.

    With several runs, subjects and sentences start with the name of the run.
    """
    if len(history.runs) == 1:
        return examine(Record(history))
    of_run = {run: examine(Record(own)) for run, own in history.alone()}
    found = []
    for run in sorted(of_run):
        for one in of_run[run]:
            evidence = {"run": run} | one.evidence
            sentence = f"{run}: {one.sentence}"
            found.append(Finding(one.kind, one.severity, f"{run}: {one.subject}", sentence, evidence))
    return by_importance(found)


def examine(record: Record) -> list[Finding]:
    """Return the findings of one run, most important first."""
    crashes = [*find_crashes(record), *find_limited(record)]
    if not record.last_seq:
        return crashes
    forgotten = find_forgetting(record)
    known = {(one.subject, name) for one in forgotten for name in one.evidence["forgotten_opponents"]}
    regressed = find_regressions(record, known)
    known |= {(one.evidence["player"], one.evidence["opponent"]) for one in regressed}
    cycles = find_cycles(record)
    explained = known | {
        (record.owner.get(one, one), other)
        for finding in cycles
        for result in finding.evidence["results"]
        for one, other in ((result["winner"], result["loser"]), (result["loser"], result["winner"]))
    }
    return by_importance(
        [
            *crashes,
            *forgotten,
            *regressed,
            *find_circling(record),
            *find_starvation(record),
            *find_lag(record),
            *find_stagnation(record, known),
            *find_drift(record, explained),
            *cycles,
            *find_seats(record),
        ]
    )


GRAVE = 0.01  # share of all matches for a warning
LIMITED = 0.05  # share of all matches that the limit of steps ended, from which on it is a finding


def find_crashes(record: Record) -> list[Finding]:
    """Return a finding if matches crashed: how many, and the cause that is recorded most often."""
    matches, crashed = _matches_and_ended_by(record, "crash")
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
    env = str(record.config.get("env", {}).get("id", "the game"))
    sentence = (
        f"{crashed:,} of {matches:,} matches of {env} crashed ({100 * share:.2g} %){why}{more}. Correct the "
        f"game (league envs check {env})"
    )
    evidence = {"crashed": crashed, "matches": matches, "causes": causes["cause"].tolist()}
    return [Finding("crashes", "warning" if share > GRAVE else "note", env, sentence, evidence)]


def find_limited(record: Record) -> list[Finding]:
    """Return a finding if the limit of steps of the config ended many matches."""
    limit = record.config.get("rollout", {}).get("step_limit")
    if limit is None:
        return []
    matches, limited = _matches_and_ended_by(record, "step_limit")
    if not matches or limited < LIMITED * matches:
        return []
    sentence = (
        f"rollout.step_limit ({limit}) ended {limited / matches:.0%} of {matches:,} matches, which count by "
        "their scores so far; raise it if they are to be decided"
    )
    evidence = {"limited": limited, "matches": matches}
    return [Finding("limited", "warning", "rollout.step_limit", sentence, evidence)]


def _matches_and_ended_by(record: Record, reason: str) -> tuple[int, int]:
    rows = record.sql(
        "SELECT coalesce(sum(matches), 0)::BIGINT AS n,"
        f" coalesce(sum(matches) FILTER (reason = '{reason}'), 0)::BIGINT AS ended FROM played"
    )
    return int(rows["n"].iloc[0]), int(rows["ended"].iloc[0])
