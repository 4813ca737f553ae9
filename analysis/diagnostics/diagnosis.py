"""What is wrong in a run: every diagnostic, most important finding first."""

from __future__ import annotations

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
    """What whoever trains should know of the run or runs, warnings first; [] where nothing is wrong, or
    nothing can be told yet. Findings of one among several runs have the run's name before the subject."""
    if len(history.runs) == 1:
        return examine(Record(history))
    found = []
    for run in history.sql("SELECT DISTINCT run FROM runs ORDER BY run")["run"]:
        for one in examine(Record(history, run)):
            evidence = {"run": run} | one.evidence
            told = f"{run}: {one.sentence}"
            found.append(Finding(one.kind, one.severity, f"{run}: {one.subject}", told, evidence))
    return by_importance(found)


def examine(record: Record) -> list[Finding]:
    """All that one run's record tells, most important first."""
    if not record.last_seq:
        return []
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
            *forgotten,
            *regressed,
            *find_starvation(record),
            *find_lag(record),
            *find_stagnation(record, known),
            *find_drift(record, explained),
            *cycles,
        ]
    )
