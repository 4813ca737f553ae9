"""Diagnosis: the findings of every diagnostic, most important first."""

from __future__ import annotations

from analysis.diagnostics.checks.circling import find_circling
from analysis.diagnostics.checks.crashes import find_crashes
from analysis.diagnostics.checks.cycles import find_cycles
from analysis.diagnostics.checks.drift import find_drift
from analysis.diagnostics.checks.forgetting import find_forgetting
from analysis.diagnostics.checks.learners import find_lag, find_starvation
from analysis.diagnostics.checks.regressions import find_regressions
from analysis.diagnostics.checks.stagnation import find_stagnation
from analysis.diagnostics.finding import Finding, by_importance
from analysis.diagnostics.record import Record
from analysis.history.history import History


def diagnose(history: History) -> list[Finding]:
    """Return all findings of one run or several, warnings first; [] without findings.

    With several runs, subjects and sentences start with the name of the run.
    """
    if len(history.runs) == 1:
        return examine(Record(history))
    found = []
    for run in history.sql("SELECT DISTINCT run FROM runs ORDER BY run")["run"]:
        for one in examine(Record(history, run)):
            evidence = {"run": run} | one.evidence
            sentence = f"{run}: {one.sentence}"
            found.append(Finding(one.kind, one.severity, f"{run}: {one.subject}", sentence, evidence))
    return by_importance(found)


def examine(record: Record) -> list[Finding]:
    """Return the findings of one run, most important first."""
    crashes = find_crashes(record)
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
        ]
    )
