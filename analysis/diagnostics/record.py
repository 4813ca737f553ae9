"""Record: the data of a run that diagnostics read, a few arrays summed in SQL for any number of matches.

Time is divided into WINDOWS with equal numbers of matches. A learning player is measured against fixed
opponents (snapshots and bots), window by window, since its last reset. In a tournament no player learns: a
player's snapshots, in order of training, replace the windows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.diagnostics.significance import Counts
from analysis.history.history import History
from storage.arrays import Floats

WINDOWS = 16
_SUMS = "sum(games)::DOUBLE AS games, sum(wins)::DOUBLE AS wins, sum(draws)::DOUBLE AS draws"


@dataclass(frozen=True, slots=True)
class Series:
    """Results of one player against P fixed opponents, at K moments."""

    player: str
    opponents: tuple[str, ...]
    counts: Counts  # [P, K]
    edges: npt.NDArray[np.int64]  # [K + 1]: moment k is after edges[k], up to edges[k + 1]


@dataclass(frozen=True, slots=True)
class Forms:
    """Results among N fixed competitors.

    The results of a player in the second half of the time between two of its snapshots count for the later
    snapshot. Its results since the last snapshot count for the player itself.
    """

    names: tuple[str, ...]
    counts: Counts  # [N, N] row against column


class Record:
    """Data of the one run of a history, each part read once."""

    def __init__(self, history: History) -> None:
        self._history = history
        rows = self.sql(
            "SELECT competitor, kind, role, player FROM competitors ORDER BY added_at, competitor"
        ).set_index("competitor")
        self.kind, self.role, self.owner = (
            {str(name): str(value) for name, value in rows[column].dropna().items()}
            for column in ("kind", "role", "player")
        )
        self.live: tuple[str, ...] = tuple(c for c, kind in self.kind.items() if kind == "player")
        (last,) = self.sql("SELECT coalesce(max(seq), 0) AS seq FROM met")["seq"]
        self.last_seq = int(last)
        self.decisions = self.sql("SELECT seq, kind, player, snapshot_id, reason FROM decisions ORDER BY seq")

    def sql(self, query: str) -> pd.DataFrame:
        """Return the result of `query` over the tables of the run."""
        return self._history.sql(query)

    @cached_property
    def measured(self) -> pd.DataFrame:
        """Measurements of `league exploit`, oldest first."""
        return self._history.exploitability()

    @cached_property
    def config(self) -> dict[str, Any]:
        """Settings of the newest session; {} if there are none or they cannot be read."""
        return self._history.config()

    # ------------------------------------------------------------------ time

    @cached_property
    def edges(self) -> npt.NDArray[np.int64]:
        """Numbers of matches [WINDOWS + 1] at the ends of the windows."""
        return np.arange(WINDOWS + 1) * self.last_seq // WINDOWS

    @cached_property
    def played(self) -> pd.DataFrame:
        """Training matches by player and window: columns player, window, matches, batches, env_steps."""
        return self.sql(
            f"""WITH batches AS (
                SELECT
                    player, batch, max(seq) AS seq, sum(p.matches) AS matches, sum(p.env_steps) AS env_steps,
                    coalesce(sum(p.batches), 1) AS batches
                FROM played p WHERE purpose = 'training' GROUP BY player, batch
            )
            SELECT player, {self.window("seq")} AS window, sum(matches)::BIGINT AS matches,
                sum(batches)::BIGINT AS batches, sum(env_steps)::BIGINT AS env_steps
            FROM batches WHERE seq <= {self.last_seq} GROUP BY ALL ORDER BY ALL"""
        )

    @cached_property
    def env_steps(self) -> Floats:
        """Env steps [WINDOWS + 1] of the league at each edge."""
        by_window = self.played.groupby("window")["env_steps"].sum().reindex(range(WINDOWS), fill_value=0)
        return np.append(0.0, np.cumsum(by_window.to_numpy(dtype=np.float64)))

    @cached_property
    def updates(self) -> pd.DataFrame:
        """Updates: columns seq, player, updates, env_steps, lag, dropped_steps (0 if not recorded)."""
        rows = self.sql("SELECT seq, player, updates, env_steps, lag, metrics FROM updates ORDER BY seq")
        metrics = [json.loads(text) if isinstance(text, str) else {} for text in rows.pop("metrics")]
        rows["dropped_steps"] = [float(one.get("queue_dropped_steps", 0.0)) for one in metrics]
        return rows

    def window(self, column: str) -> str:
        """Return SQL for the window of the seq in `column`."""
        return (
            f"least({WINDOWS - 1}, greatest(0, {column} - 1) * {WINDOWS} // {max(1, self.last_seq)})::INTEGER"
        )

    @cached_property
    def frozen(self) -> dict[str, list[tuple[int, str]]]:
        """Pairs (seq, snapshot) of each player's own snapshots, in order; the initial one has seq 0."""
        found: dict[str, list[tuple[int, str]]] = {}
        freezes = self.decisions[self.decisions["kind"] == "freeze"]
        seq = dict(zip(freezes["snapshot_id"], freezes["seq"].astype(int), strict=True))
        rows = self.sql(
            "SELECT snapshot_id, player FROM snapshots ORDER BY created_at, env_steps, snapshot_id"
        )
        for snapshot, player in zip(rows["snapshot_id"], rows["player"], strict=True):
            if player in self.kind:
                found.setdefault(player, []).append((seq.get(snapshot, 0), snapshot))
        return {player: sorted(those, key=lambda one: one[0]) for player, those in found.items()}

    @cached_property
    def last_reset(self) -> dict[str, int]:
        """Seq of each player's last reset, without players that were never reset."""
        resets = self.decisions[self.decisions["kind"] == "reset"]
        last = resets.groupby("player")["seq"].max()
        return dict(zip(last.index, last.astype(int), strict=True))

    def snapshot_before(self, player: str, seq: int) -> str:
        """Return the player's newest snapshot at `seq`, or the player's name if it had none."""
        made = [name for at, name in self.frozen.get(player, ()) if at <= seq]
        return made[-1] if made else player

    def snapshot_within(self, player: str, begin: int, end: int) -> str | None:
        """Return the player's first snapshot from seq `begin` to `end`, or `None`."""
        return next((name for at, name in self.frozen.get(player, ()) if begin <= at <= end), None)

    def snapshot_after(self, player: str, seq: int) -> str:
        """Return the player's first snapshot from `seq` on, or else the player's name."""
        return next((name for at, name in self.frozen.get(player, ()) if at >= seq), player)

    # ------------------------------------------------------------------ results

    @cached_property
    def series(self) -> list[Series]:
        """Series of each player with fixed opponents, in order of names."""
        return self._by_window() if self.live else self._by_snapshot()

    def _by_window(self) -> list[Series]:
        fixed = "SELECT competitor FROM competitors WHERE kind <> 'player'"
        rows = self.sql(
            f"""WITH began AS (
                SELECT competitor AS player, coalesce((
                    SELECT max(seq) FROM decisions WHERE kind = 'reset' AND decisions.player = competitor
                ), 0) AS seq
                FROM competitors WHERE kind = 'player'
            )
            SELECT home, away, {self.window("m.seq")} AS moment, {_SUMS}
            FROM met m JOIN began ON home = player AND m.seq > began.seq
            WHERE away IN ({fixed}) GROUP BY ALL ORDER BY ALL"""
        )
        return [_series(str(player), part, WINDOWS, self.edges) for player, part in rows.groupby("home")]

    def _by_snapshot(self) -> list[Series]:
        """Return the series of a tournament: at most WINDOWS moments, each of consecutive snapshots."""
        found = []
        for player, snapshots in self.entered.items():
            block = np.arange(len(snapshots)) * min(WINDOWS, len(snapshots)) // len(snapshots)
            met = self.met.merge(pd.DataFrame({"home": snapshots, "moment": block}), on="home")
            rows = met.groupby(["away", "moment"], as_index=False).sum(True)
            edges = np.searchsorted(block, np.arange(block[-1] + 2))
            found.append(_series(player, rows, len(edges) - 1, edges))
        return found

    @cached_property
    def entered(self) -> dict[str, list[str]]:
        """Snapshots of each player in a tournament, in order of training."""
        rows = self.sql(
            "SELECT competitor, player FROM entrants WHERE kind = 'snapshot' AND player IS NOT NULL "
            "ORDER BY player, env_steps, created_at, competitor"
        )
        return {str(player): part["competitor"].tolist() for player, part in rows.groupby("player")}

    @cached_property
    def met(self) -> pd.DataFrame:
        """Results of all pairs that met: columns home, away, games, wins, draws."""
        return self.sql(f"SELECT home, away, {_SUMS} FROM met GROUP BY home, away ORDER BY home, away")

    @cached_property
    def forms(self) -> Forms:
        """Results between all competitors, players replaced by fixed forms."""
        rows = self.sql(
            f"""WITH ends AS (
                SELECT player, seq, snapshot_id AS form FROM decisions WHERE kind = 'freeze'
                UNION ALL
                SELECT competitor, {self.last_seq + 1}, competitor FROM competitors WHERE kind = 'player'
            ),
            stages AS (
                SELECT player, seq, form,
                    (seq + coalesce(lag(seq) OVER (PARTITION BY player ORDER BY seq), 0)) // 2 AS middle
                FROM ends
            ),
            of_home AS (
                SELECT m.*, coalesce(form, home) AS home_form, coalesce(m.seq > middle, true) AS late
                FROM met m ASOF LEFT JOIN stages s ON m.home = s.player AND m.seq <= s.seq
                WHERE m.home < m.away
            ),
            of_both AS (
                SELECT m.*, coalesce(s.form, away) AS away_form,
                    late AND coalesce(m.seq > s.middle, true) AS counts
                FROM of_home m ASOF LEFT JOIN stages s ON m.away = s.player AND m.seq <= s.seq
            )
            SELECT home_form AS home, away_form AS away, {_SUMS}
            FROM of_both WHERE counts AND home_form <> away_form GROUP BY ALL"""
            if self.live
            else f"SELECT home, away, {_SUMS} FROM met WHERE home < away GROUP BY home, away"
        )
        index, names = pd.factorize(pd.concat([rows["home"], rows["away"]]), sort=True)
        home, away = index.reshape(2, -1)
        there = _counts(rows, home, away, (len(names), len(names)))
        # Each meeting is read once; the other side's wins are the remaining games.
        counts = Counts(
            there.games + there.games.T,
            there.wins + (there.games - there.wins - there.draws).T,
            there.draws + there.draws.T,
        )
        return Forms(tuple(names.tolist()), counts)


def _series(player: str, rows: pd.DataFrame, moments: int, edges: npt.NDArray[np.int64]) -> Series:
    row, opponents = pd.factorize(rows["away"], sort=True)
    moment = rows["moment"].to_numpy(dtype=np.int64)
    counts = _counts(rows, row, moment, (len(opponents), moments))
    return Series(player, tuple(opponents.tolist()), counts, edges)


def _counts(rows: pd.DataFrame, row: Any, column: Any, shape: tuple[int, int]) -> Counts:
    counts = Counts(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    for name in counts.__slots__:
        np.add.at(getattr(counts, name), (row, column), rows[name].to_numpy(dtype=np.float64))
    return counts
