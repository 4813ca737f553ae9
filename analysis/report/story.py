"""Story: the data of one run that the sections of a page read, each frame loaded once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd

from analysis.diagnostics import diagnose
from analysis.gates.names import shown_names
from analysis.history.history import RATING_POINTS, History
from analysis.history.strength import over_steps
from analysis.plots.names import short_names
from analysis.report.time_left import seconds_left, seconds_trained
from analysis.report.trend import Trend, held
from analysis.solution.payoffs import Payoffs, counts_scores
from analysis.statistics.games import Games
from analysis.tournaments.tournament import Verdict, verdict
from storage.ends import ENV_STEPS, FACTS, RunState, state_of
from storage.errors import Mistake
from storage.layout import LEDGER, origin
from storage.ledger.ledger import is_written
from storage.reader import open_reader
from storage.records import MAIN
from storage.tables.live import names_of

MET_ENOUGH = 0.5  # share of played pairings below which nothing is solved: the rest would be guessed
MOST = 100  # competitors, the best rated: the time of alpha-rank grows with the cube of their number


@dataclass(frozen=True)
class ConceptField:
    """Some competitors of a run and their scores against each other."""

    names: list[str]  # best rated first
    fixed: bool  # only snapshots and bots
    met: pd.DataFrame  # the rows of the payoff between them
    games: Games | None  # only in a tournament

    @property
    def share_met(self) -> float:
        """Share of the field's pairings that were ever played, in [0, 1]."""
        pairings = len(self.names) * (len(self.names) - 1) / 2.0
        return float((self.met["home"] < self.met["away"]).sum()) / max(1.0, pairings)

    @cached_property
    def payoffs(self) -> Payoffs:
        """Payoffs of the field: by pairs in a tournament, by games otherwise."""
        if self.games is not None:
            most = float(self.met["most_lead"].iloc[0]) if counts_scores(self.met) else None
            return Payoffs.from_games(self.games, most).subset(self.names)
        return Payoffs.from_frame(self.met, self.names)

    @cached_property
    def filled(self) -> pd.DataFrame:
        """Scores [N, N] of each against each, in [-1, 1], from estimated strengths if they never met."""
        return pd.DataFrame(self.payoffs.matrix(), self.names, self.names)


def field_of(leaderboard: pd.DataFrame, payoff: pd.DataFrame, games: Games | None) -> ConceptField:
    """Return the field of the best rated MOST snapshots and bots that have met other snapshots or bots.

    Stages of players that learn are left out, because their policies changed meanwhile. They are included if
    few snapshots have met any other.
    """
    fixed = leaderboard[leaderboard["kind"] != "player"]["competitor"]
    played = set(payoff[payoff["home"].isin(fixed) & payoff["away"].isin(fixed)]["home"])
    alone = len(played) >= max(3, 0.5 * len(fixed))
    first: set[str] = set()  # players that have met the others, which connect the field
    if not alone:
        fixed, played = leaderboard["competitor"], set(payoff["home"])
        first = set(leaderboard[leaderboard["kind"] == "player"]["competitor"]) & played
    if games is not None:
        played &= set(games.competitors)
    others = [name for name in fixed if name in played and name not in first]
    chosen = first | set(others[: max(0, MOST - len(first))])
    names = [name for name in fixed if name in chosen]
    return ConceptField(names, alone, payoff[payoff["home"].isin(names) & payoff["away"].isin(names)], games)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlayTotals:
    """Amount and time of play in a run. Times are UTC, `None` before the first match."""

    matches: int  # without placing games
    env_steps: int  # as `stop` counts them: without placing games, with matches that an end cut off
    placing_matches: int
    placing_steps: int
    odd_ends: dict[str, int]  # number of matches by reason, for those with an unusual end
    first: pd.Timestamp | None  # start of the first match
    last: pd.Timestamp | None  # the last fact that the run has recorded
    minutes: float  # from `first` to the end of the last match
    trained: float  # minutes of training, earlier sessions included; of a tournament, `minutes`


def _read(part: Callable[[History], T]) -> cached_property[T]:
    """Return a property of a story: what `part` reads of its history, at the first use."""
    return cached_property(lambda story: part(story.history))


class Story:
    """Frames of one run, each as of its first use. Raise Mistake unless `history` has exactly one run."""

    def __init__(self, history: History, before: Mapping[str, str] = {}) -> None:
        """`before`: `verdicts` of the drawing before this one, if there was one."""
        if len(history.runs) != 1:
            raise Mistake(f"a report is of one run, found {len(history.runs)}: open one of them")
        self.history = history
        self._before = before
        self.verdicts: dict[str, str] = {}  # on players, whether they improve; as far as a page says it
        self.run = history.runs[0].resolve()
        (self.name,) = names_of((self.run,))
        # Of a command that may be copied to a shell.
        self.argument = shlex.quote(origin(self.run) or self.name)

    @cached_property
    def session(self) -> dict[str, Any]:
        """Fields name (the newest), env, seed, version and started_at of the first session, and `sessions`.

        `sessions` is their number; a branch that was only made does not count.
        """
        rows = self.sql("SELECT name, env, seed, version, started_at FROM runs ORDER BY seq, started_at")
        if rows.empty:
            unknown = dict.fromkeys(("seed", "version", "started_at"))
            return {"name": self.name, "env": "", **unknown, "sessions": 0}
        first = {str(name): value for name, value in rows.iloc[0].items()}
        return {**first, "name": rows["name"].iloc[-1], "sessions": len(rows) - len(self.branches)}

    @cached_property
    def state(self) -> RunState | None:
        """State of the run: running, or how it ended; `None` if that is not known.

        It is not known of an earlier moment, of a branch that was never trained, and of a mirror, which does
        not show whether a process writes the run.
        """
        unknown = self.history.moment is not None or origin(self.run) is not None
        if unknown or not self.session["sessions"]:
            return None
        return state_now(self.history)

    @cached_property
    def seconds_left(self) -> float | None:
        """Seconds that are left of a run that trains now; `None` if it does not, or has no known limit."""
        if self.state is None or self.state.kind != "running" or self.is_tournament:
            return None
        return seconds_left(self.history, self.config)

    @cached_property
    def is_tournament(self) -> bool:
        """Whether the run is a tournament."""
        return bool(self.sql("SELECT count(*) AS n FROM entrants")["n"].item())

    @cached_property
    def is_solitary(self) -> bool:
        """Whether the game has one seat, so that there are no opponents."""
        return bool(self.sql("SELECT coalesce(max(seat) = 0, false) AS alone FROM seated")["alone"].item())

    @cached_property
    def totals(self) -> PlayTotals:
        """Totals over all matches of the run."""
        ends = self.sql(
            "SELECT is_placing, reason, CAST(sum(p.matches) AS BIGINT) AS matches, sum(p.env_steps) AS steps,"
            " min(started_at) AS first, max(ended_at) AS last"
            " FROM played p GROUP BY is_placing, reason ORDER BY sum(p.matches) DESC, reason"
        )
        late = self.sql(
            "SELECT (SELECT max(decided_at) FROM decisions), (SELECT max(recorded_at) FROM updates),"
            " (SELECT max(started_at) FROM runs), (SELECT max(happened_at) FROM incidents)"
        )
        times = [*late.iloc[0].tolist(), *([] if ends.empty else [ends["last"].max()])]
        last = max((moment for moment in times if not pd.isna(moment)), default=None)
        first = None if ends.empty else ends["first"].min()
        minutes = 0.0 if ends.empty else max(0.0, (ends["last"].max() - first).total_seconds() / 60.0)
        odd = ends[ends["reason"] != "finished"].groupby("reason", sort=False)["matches"].sum()
        placing, others = ends[ends["is_placing"]], ends[~ends["is_placing"]]
        return PlayTotals(
            matches=int(others["matches"].sum()),
            env_steps=int(self.sql(ENV_STEPS).to_numpy()[0, 0]),
            placing_matches=int(placing["matches"].sum()),
            placing_steps=int(placing["steps"].sum()),
            odd_ends={str(reason): int(n) for reason, n in odd.items()},
            first=first,
            last=last,
            minutes=minutes,
            trained=(0.0 if self.is_tournament else seconds_trained(self.history) / 60.0) or minutes,
        )

    config = _read(History.config)
    players = _read(History.players)
    snapshots = _read(History.snapshots)
    branches = _read(History.branches)
    incidents = _read(History.incidents)
    decisions = _read(History.decisions)
    updates = _read(History.updates)
    curves = _read(History.curves)
    match_mix = _read(History.match_mix)
    matches_by_role = _read(History.matches_by_role)
    match_mix_over_time = _read(lambda history: history.match_mix(over_time=True))
    exploitability = _read(History.exploitability)
    yardsticks = _read(History.yardsticks)
    order = _read(History.order)
    findings = _read(diagnose)

    @cached_property
    def mains(self) -> list[str]:
        """The players of the role main, or all players where there is none, in order of joining."""
        players = self.players
        return players[players["role"] == MAIN]["player"].tolist() or players["player"].tolist()

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """Leaderboard in order of strength (`History.standing`); in a tournament by the verdict."""
        if not self.is_tournament:
            return self.history.standing(self.order)
        board = self.history.leaderboard()
        order = {name: place for place, name in enumerate(self.verdict.table["competitor"])}
        board = self._with_runs(board)
        place = board["competitor"].map(order).fillna(len(order))
        return board.iloc[place.argsort(kind="stable")].reset_index(drop=True)

    @cached_property
    def strengths(self) -> pd.DataFrame:
        """Frame of the strengths of all snapshots and bots (`History.strengths`)."""
        return over_steps(self.name, self.order, self.snapshots, everyone=True)

    @cached_property
    def ratings(self) -> pd.DataFrame:
        """Frame of ratings over time, at most RATING_POINTS of each competitor."""
        return self._with_runs(self.history.ratings(points=RATING_POINTS))

    @cached_property
    def payoff(self) -> pd.DataFrame:
        """Frame of the payoff between all competitors."""
        return self._with_runs(self.history.payoff())

    @cached_property
    def staged_payoff(self) -> pd.DataFrame:
        """Frame of the payoff, in which a live player is one competitor for each stage of its training."""
        return self._with_runs(self.history.payoff(stages=not self.is_tournament))

    @cached_property
    def staged_board(self) -> pd.DataFrame:
        """Leaderboard of the competitors of `staged_payoff`, in order of strength."""
        if self.is_tournament:
            return self.leaderboard
        return self.history.standing(self.order, stages=True)

    @cached_property
    def field(self) -> ConceptField:
        """Competitors that solution concepts cover."""
        games = self.verdict.games if self.is_tournament else None
        return field_of(self.staged_board, self.staged_payoff, games)

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on all games of a tournament. Raise Mistake if the history is of an earlier moment."""
        if self.history.moment is not None:
            raise Mistake(
                f"{self.run}: the verdict of a tournament covers all its games, found a report as of "
                f"{self.history.moment}: leave the moment out"
            )
        return verdict(self.run)

    def _with_runs(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a frame with the names of a tournament's competitors as its verdict shows them."""
        names = self._shown_names
        there = [c for c in ("competitor", "home", "away") if names and c in frame]
        return frame.assign(**{c: frame[c].map(lambda name: names.get(name, name)) for c in there})

    @cached_property
    def _shown_names(self) -> dict[str, str]:
        if not self.is_tournament:
            return {}
        shown = shown_names(open_reader(self.run).entrants())
        return shown if any(old != new for old, new in shown.items()) else {}

    @cached_property
    def short_names(self) -> dict[str, str]:
        """Names of the competitors as a page shows them, by the exact ones."""
        names = [*self.sql("SELECT competitor FROM competitors")["competitor"], *self._shown_names.values()]
        return short_names([*names, *(name.partition(":")[0] for name in names)])

    def verdict_on(self, trend: Trend) -> str:
        """Return whether a player improves: of a page that is drawn again and again, steadily (`held`)."""
        self.verdicts[trend.player] = held(self._before.get(trend.player), trend)
        return self.verdicts[trend.player]

    def sql(self, query: str) -> pd.DataFrame:
        """Return the result of `query` on the run, for data that no frame holds."""
        return self.history.sql(query)


def state_now(history: History) -> RunState:
    """Return the state of the one run of `history` at this moment."""
    row = history.sql(FACTS).astype(object).iloc[0]
    facts: dict[str, Any] = {str(name): None if pd.isna(value) else value for name, value in row.items()}
    facts |= {name: int(facts[name]) for name in ("env_steps", "of_env_steps") if facts[name] is not None}
    return state_of(facts, is_written(history.runs[0] / LEDGER))
