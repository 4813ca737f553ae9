"""History: a run's whole story as SQL and pandas frames, whether it is training or not.

history = analysis.open_run("runs/connect_four")
history.sql("SELECT * FROM leaderboard LIMIT 5")
history.payoff().pivot(index="home", columns="away", values="win_rate")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import storage


class History:
    """A run as it is at each question: what was acknowledged before it is in the answer.

    Raises NotARun, CorruptLedger.
    """

    def __init__(self, run: str | Path) -> None:
        self._connection = storage.connect(run)
        self.run: Path = self._connection.run

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(self, query: str, parameters: list[Any] | None = None) -> pd.DataFrame:
        """The answer to `query` over the tables and views of README.md; `?` stand for `parameters`."""
        return self._connection.execute(query, parameters or []).df()

    def snapshots(self) -> pd.DataFrame:
        """One row per snapshot, in order of freezing."""
        return self.sql("SELECT * FROM snapshots ORDER BY created_at, snapshot_id")

    def matches(self) -> pd.DataFrame:
        """One row per match and seat, in order of recording."""
        return self.sql("SELECT * FROM matches JOIN seats USING (seq) ORDER BY seq, seat")

    def ratings(self) -> pd.DataFrame:
        """The leaderboard, best first."""
        return self.sql("SELECT * FROM leaderboard")

    def payoff(self) -> pd.DataFrame:
        """One row per ordered pair that has played, from `home`'s side."""
        return self.sql("SELECT * FROM payoff ORDER BY home, away")
