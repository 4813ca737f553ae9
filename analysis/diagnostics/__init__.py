"""Diagnostics of a league: forgetting, cycles, stagnation, regressions, lag, starvation, rating drift.

for finding in diagnose(analysis.open_run("runs/connect_four")):
    print(finding.sentence)
"""

from analysis.diagnostics.bisection import Location, locate_forgetting
from analysis.diagnostics.diagnosis import diagnose
from analysis.diagnostics.finding import Finding

__all__ = ["Finding", "Location", "diagnose", "locate_forgetting"]
