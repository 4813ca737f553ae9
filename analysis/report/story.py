"""Story: what the sections of one page ask of a run, each frame asked for once."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.diagnostics import Finding, diagnose
from analysis.history.history import History
from analysis.report.fields import Field, field_of
from analysis.tournaments.tournament import Verdict, verdict
from storage.errors import Mistake
from storage.layout import origin
from storage.tables.live import names_of

RATING_POINTS = 400  # of each competitor: more than a plot is wide


@dataclass(frozen=True, slots=True)
class Totals:
    """How much a run has played, and when. Times are UTC, None before the first match."""

    matches: int
    env_steps: int
    odd_ends: dict[str, int]  # matches by reason, of those that did not come to an ordinary end
    first: pd.Timestamp | None  # when the first match began
    last: pd.Timestamp | None  # the last fact that the run has recorded
    minutes: float  # from `first` to the end of the last match


class Story:
    """One run's frames, as they stood when they were first asked for. Raises Mistake unless it is one run."""

    def __init__(self, history: History) -> None:
        if len(history.runs) != 1:
            raise Mistake(f"a report is of one run, found {len(history.runs)}: open one of them")
        self.history = history
        self.run = history.runs[0].resolve()
        (self.name,) = names_of((self.run,))
        self.argument = shlex.quote(
            origin(self.run) or self.name
        )  # of a command that may be copied to a shell

    @cached_property
    def session(self) -> dict[str, Any]:
        """name, env, seed, version, started_at of the first session, and the number of `sessions`."""
        rows = self._sql("SELECT name, env, seed, version, started_at FROM runs ORDER BY seq, started_at")
        if rows.empty:
            return {
                "name": self.name,
                "env": "",
                "seed": None,
                "version": None,
                "started_at": None,
                "sessions": 0,
            }
        return {**{str(name): value for name, value in rows.iloc[0].items()}, "sessions": len(rows)}

    @cached_property
    def is_tournament(self) -> bool:
        return bool(self._sql("SELECT count(*) AS n FROM entrants")["n"].item())

    @cached_property
    def is_solitary(self) -> bool:
        """Whether the game has one seat: nobody plays against anybody."""
        return bool(self._sql("SELECT coalesce(max(seat) = 0, false) AS alone FROM seats")["alone"].item())

    @cached_property
    def totals(self) -> Totals:
        ends = self._sql(
            "SELECT reason, count(*) AS matches, sum(env_steps) AS env_steps, min(started_at) AS first,"
            " max(started_at + to_milliseconds(CAST(1000 * coalesce(seconds, 0) AS BIGINT))) AS last"
            " FROM matches GROUP BY reason ORDER BY matches DESC, reason"
        )
        late = [] if ends.empty else [ends["last"].max()]
        for table, column in (
            ("decisions", "decided_at"),
            ("updates", "recorded_at"),
            ("runs", "started_at"),
        ):
            late.append(self._sql(f"SELECT max({column}) AS last FROM {table}")["last"].iloc[0])
        last = max((moment for moment in late if not pd.isna(moment)), default=None)
        first = None if ends.empty else ends["first"].min()
        minutes = 0.0 if ends.empty else (ends["last"].max() - first).total_seconds() / 60.0
        odd = ends[ends["reason"] != "finished"]
        return Totals(
            matches=int(ends["matches"].sum()),
            env_steps=int(ends["env_steps"].sum()),
            odd_ends={str(reason): int(n) for reason, n in zip(odd["reason"], odd["matches"], strict=True)},
            first=first,
            last=last,
            minutes=max(0.0, minutes),
        )

    @cached_property
    def config(self) -> dict[str, Any]:
        return self.history.config()

    @cached_property
    def players(self) -> pd.DataFrame:
        return self.history.players()

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """As History has it; of a tournament in the order of its verdict."""
        board = self.history.leaderboard()
        if not self.is_tournament:
            return board
        order = {name: place for place, name in enumerate(self.verdict.table["competitor"])}
        place = board["competitor"].map(order).fillna(len(order))
        return board.iloc[place.argsort(kind="stable")].reset_index(drop=True)

    @cached_property
    def snapshots(self) -> pd.DataFrame:
        return self.history.snapshots()

    @cached_property
    def ratings(self) -> pd.DataFrame:
        return self.history.ratings(points=RATING_POINTS)

    @cached_property
    def payoff(self) -> pd.DataFrame:
        return self.history.payoff()

    @cached_property
    def decisions(self) -> pd.DataFrame:
        return self.history.decisions()

    @cached_property
    def updates(self) -> pd.DataFrame:
        return self.history.updates()

    @cached_property
    def match_mix(self) -> pd.DataFrame:
        return self.history.match_mix()

    @cached_property
    def match_mix_over_time(self) -> pd.DataFrame:
        return self.history.match_mix(over_time=True)

    @cached_property
    def exploitability(self) -> pd.DataFrame:
        return self.history.exploitability()

    @cached_property
    def field(self) -> Field:
        return field_of(self.leaderboard, self.payoff, self.verdict.games if self.is_tournament else None)

    @cached_property
    def findings(self) -> list[Finding]:
        """Of analysis.diagnostics, most important first."""
        return diagnose(self.history)

    @cached_property
    def verdict(self) -> Verdict:
        """A tournament's, always of all that its folder holds. Raises Mistake for an earlier moment."""
        if self.history._as_of is not None:
            raise Mistake(
                f"{self.run}: a tournament's verdict is of all its games, found a report as of "
                f"{self.history._as_of}: leave the moment out"
            )
        return verdict(self.run)

    def sql(self, query: str) -> pd.DataFrame:
        """For what no frame has."""
        return self._sql(query)

    def _sql(self, query: str) -> pd.DataFrame:
        return self.history.sql(query)
