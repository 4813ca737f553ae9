"""What can be asked of a run, during and after training. `open_run(path)` gives a `History`."""

from analysis.history import History

__all__ = ["History", "open_run"]

open_run = History
