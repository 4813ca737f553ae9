"""What can be asked of a run, during and after training. `open_run(path)` gives a `History`, `verdict(path)`
says what a tournament came to."""

from analysis.exports import export, match_records
from analysis.history import History
from analysis.tournament import Verdict, verdict

__all__ = ["History", "Verdict", "export", "match_records", "open_run", "verdict"]

open_run = History
