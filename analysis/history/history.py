"""History: one run or several as SQL and pandas frames, during and after training.

    history = analysis.open_run("runs/connect_four")
    history.sql("SELECT * FROM leaderboard LIMIT 5")
    history.payoff().pivot(index="home", columns="away", values="win_rate")
    history.as_of(2_000_000).leaderboard()

Every frame has one row per thing and `run`, the folder's name, as its first column. Columns have the same
types whether there are rows or not. `text` is pandas' type for str, with NaN or None for missing text.
`category` is text whose values repeat. Times are UTC without a zone. Int64 are whole numbers that may be
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa

import storage
from analysis.history import clock, curves, payoffs
from analysis.history.frames import parsed, settings_of, to_pandas, to_table
from analysis.history.named_queries import expand, frame_of
from analysis.history.payoffs import Unit
from analysis.history.strength import ordered, over_steps
from analysis.statistics.strength.order import Order
from analysis.statistics.strength.recorded_order import recorded_order
from storage.errors import Mistake
from storage.snapshots import figures
from storage.tables.moments import Moment, last_time
from storage.tables.schema import literal

RATING_POINTS = 400  # per competitor in a plot: more than its width
_CATEGORIES = {
    "matches": ("run", "purpose", "match_type", "env", "reason", "player"),
    "seats": ("run", "competitor", "outcome"),
}


def open_run(*runs: str | Path | list[str | Path] | tuple[str | Path, ...]) -> History:
    """Open the history of run folders or addresses of remotes, given one by one or as one list.

    Raise NotARun, CorruptLedger, RemoteFailed, and Mistake for no run or for one given twice.
    """
    flat: list[str | Path] = []
    for run in runs:
        flat += run if isinstance(run, (list, tuple)) else [run]
    return History(*flat)


class History:
    """Runs as they are at each query: every fact acknowledged before it is in the answer.

    Raise NotARun, CorruptLedger. An object is for one thread at a time.
    """

    def __init__(self, *runs: str | Path, as_of: Moment | None = None) -> None:
        self._live = storage.connect(*runs, as_of=as_of)
        self._clocked: list[tuple[int, int]] = []  # what the clock's tables show of the runs
        self.moment = as_of  # that `as_of` chose; `None`: now
        self.runs: tuple[Path, ...] = self._live.runs

    def close(self) -> None:
        """Release the memory that the run's tables take."""
        self._live.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def as_of(self, moment: Moment) -> History:
        """Return every frame and table as it was at `moment`, for each run; later facts do not change it.

        `moment` is a number of env steps of the league, counted as by `stop.env_steps`. It gives what a run
        stopped there had, its last batch of results and the decisions after it included. Or it is a time, a
        datetime or ISO text, in UTC unless it has a zone. A moment later than the newest is now. Raise
        Mistake for any other value.
        """
        return History(*self.runs, as_of=moment)

    def at_one_moment(self) -> AbstractContextManager[None]:
        """Return a context in which all frames and queries show the same facts, though the runs go on."""
        return self._live.at_one_moment()

    def alone(self) -> Iterator[tuple[str, History]]:
        """Yield the name of each run and a history of it alone, at one moment, which is then closed."""
        for name, run in zip(self._live.names, self.runs, strict=True):
            with History(run, as_of=self.moment) as own, own.at_one_moment():
                yield name, own

    def sql(self, query: str, parameters: list[Any] | None = None) -> pd.DataFrame:
        """Return the answer to `query` over the run's tables and views; `?` are values of `parameters`.

        Of several runs each table and view has `run` as its first column (`entrants.run` is `origin` then).

        `@name` is a named query (`analysis/history/queries`), which is answered for each run by itself. Raise
        duckdb.Error for invalid SQL, Mistake for an unknown name.
        """
        if frame := frame_of(query):
            rows: pd.DataFrame = getattr(self, frame)(everyone=True)
            return rows if len(self.runs) > 1 else rows.drop(columns="run")
        sql = expand(query)
        if sql is query or len(self.runs) == 1:
            return self._live.execute(sql, parameters or []).df()
        return self._of_each(sql, parameters or [])

    # ------------------------------------------------------------------ competitors

    def players(self) -> pd.DataFrame:
        """Return the players, in order of joining.

        `run` text, `player` text, `role` text, `added_at` datetime64[us]; as reported or frozen last:
        `env_steps` int64 (decisions it learned from), `updates` int64 (optimizer steps); `snapshots` int64
        (how many it has frozen).
        """
        return self._frame(
            """
            WITH known AS (
                SELECT player, env_steps, updates, 0 AS snapshots FROM updates
                UNION ALL SELECT player, env_steps, updates, 1 FROM snapshots
            ),
            latest AS (
                SELECT
                    player, max(env_steps) AS env_steps, max(updates) AS updates, sum(snapshots) AS snapshots
                FROM known GROUP BY player
            )
            SELECT
                player, role, added_at,
                CAST(coalesce(env_steps, 0) AS BIGINT) AS env_steps,
                CAST(coalesce(updates, 0) AS BIGINT) AS updates,
                CAST(coalesce(snapshots, 0) AS BIGINT) AS snapshots
            FROM players LEFT JOIN latest USING (player)
            ORDER BY added_at, player
            """
        )

    def snapshots(self) -> pd.DataFrame:
        """Return frozen policies, in order of freezing.

        `run` text, `snapshot_id` text, `player` text, `role` text; of its player when it was frozen:
        `env_steps` int64, `updates` int64; `parent_id` text (none: from scratch), `blob_hash` text, `bytes`
        int64, `architecture` text, `created_at` datetime64[us], `reason` text; `league_env_steps` int64 (of
        the whole league by then), `minutes` float64 (since the first match).
        """
        return self._timed(f"FROM ({_SNAPSHOTS}) ORDER BY created_at, snapshot_id")

    def branches(self) -> pd.DataFrame:
        """Return the moments at which runs were branched from others, oldest first; most runs have none.

        `run` text, `parent` text (folder or address of the run that it was branched from; the last row of a
        run is its own, rows before it are of its ancestors), `frame` int64 (of the ledger, the last one that
        both have), `env_steps` int64 and `matches` int64 (of the league by then), `seconds` float64 (of
        training by then), `learners` object (a dict: of each player `state`, or the snapshot whose weights it
        goes on from), `changes` object (a list of settings, `a.b=value`), `moment_at` datetime64[us] (of the
        youngest fact that both have), `branched_at` datetime64[us].
        """
        frame = self._frame("SELECT * EXCLUDE (seq) FROM branches ORDER BY branched_at")
        return parsed(parsed(frame, "learners"), "changes")

    def incidents(self) -> pd.DataFrame:
        """Return what died or was set aside while runs trained, oldest first.

        `run` text, `kind` text (runner, evaluation_runner, learner, peer, aggregator, experience, results,
        set_aside), `who` text, `node` text ("": not known), `cause` text, `players` object (a list: whose
        learning it cost), `matches` int64 (that were under way), `env_steps` int64 (of experience that is not
        learned from), `updates` int64 (that were made and are lost), `remedy` text (what took its place),
        `kept` text (file with what was set aside), `happened_at` datetime64[us].
        """
        return parsed(self._frame("SELECT * EXCLUDE (seq) FROM incidents ORDER BY happened_at"), "players")

    def lineage(self) -> pd.DataFrame:
        """Return every ancestor of every snapshot.

        `run` text, `snapshot_id` text, `ancestor_id` text, `generation` int32 (1: its parent).
        """
        return self._frame("SELECT * FROM lineage ORDER BY snapshot_id, generation")

    # ------------------------------------------------------------------ matches

    def matches(self) -> pd.DataFrame:
        """Return one row per match, in order of recording.

        `run` category, `seq` int64 (number within the run), `match_id` int64, `purpose` category (training,
        evaluation, tournament), `match_type` category (the branch that drew it), `env` category, `seed`
        int64, `env_steps` int32 (decisions of all seats), `reason` category (how it ended), `started_at`
        datetime64[us], `seconds` float32, `batch` Int64 (frame of the ledger), `num_seats` Int8, `player`
        category (the one that learned from it), `digest` Int64 (alike for matches that are the same).

        Matches that were summed up (`storage.retention`) are left out, here and in `seats`; the views that
        count all are `played`, `seated`.
        """
        return self._frame("SELECT * FROM matches ORDER BY seq", _CATEGORIES["matches"])

    def seats(self) -> pd.DataFrame:
        """Return one row per match and seat, in order of recording.

        `run` category, `seq` int64 (of the match), `seat` int8, `competitor` category, `learning` bool,
        `outcome` category (win, draw, loss, forfeit), `score` float32 (sum of rewards), `rank` int8 (0 is
        best), `team` Int8 (lacking where a match was recorded before teams were stored).
        """
        return self._frame("SELECT * FROM seats ORDER BY seq, seat", _CATEGORIES["seats"])

    def payoff(
        self, purpose: str | None = None, unit: Unit | None = None, *, stages: bool = False
    ) -> pd.DataFrame:
        """Return one row per ordered pair that has met, from `home`'s side, in matches of `purpose` (default:
        all).

        `run` text, `home` text, `away` text, `games` int64, `wins` int64, `draws` int64, `losses` int64,
        `win_rate` float64 (a draw is half a win), `lead` float64 (per game, half of what home's score is
        above away's; in the game's own units), `unit` text (outcome, score), `points` float64 and `deviation`
        float64: mean and standard deviation of what a game counts, in [0, 1], `most_lead` float64 (NaN where
        games count their outcomes).

        What games count is chosen by `unit`: by default what they counted in the run's own payoffs. A game
        counts its outcome (1, 1/2, 0) or its score, 1/2 + lead / (2 most_lead): the most that the game
        declares, or the largest lead of the run. Runs that did not count scores can be read by scores too,
        and the reverse. With `stages=True` a live player is several competitors, one between every two of its
        freezes (`analysis.history.payoffs`), unless leads have to be found in `seats`. Raise Mistake for an
        unknown purpose or unit.
        """
        if unit is not None and unit not in get_args(Unit):
            raise Mistake(f"payoff: unit '{unit}', expected one of {', '.join(get_args(Unit))}")
        known = ("training", "evaluation", "tournament")
        if purpose is not None and purpose not in known:
            raise Mistake(f"payoff: purpose '{purpose}', expected one of {', '.join(known)}")
        if self._needs_seats(unit):
            return self._frame(payoffs.query(purpose, unit, from_seats=True))
        if stages:
            staged = payoffs.staged_meetings(_PLACED)
            return self._timed(payoffs.query(purpose, unit, from_seats=False, meetings=staged))
        return self._frame(payoffs.query(purpose, unit, from_seats=False))

    def _needs_seats(self, unit: Unit | None) -> bool:
        """Return whether leads have to be found in `seats`: some run was recorded before they were summed."""
        if unit is not None:
            return unit == "score" and not self._has_sums_of_scores()
        ((counts_scores, lacking),) = self._live.execute(
            "SELECT (SELECT count(most_lead) FROM runs), (SELECT count(*) FROM met WHERE lead IS NULL)"
        ).fetchall()
        return counts_scores > 0 and lacking > 0

    def _has_sums_of_scores(self) -> bool:
        """Return whether matches are sums, which have leads too. Raise Mistake if no largest is declared."""
        ((summed, undeclared),) = self._live.execute(
            "SELECT (SELECT count(*) FROM summed_matches),"
            " (SELECT count(*) FROM runs WHERE most_lead IS NULL)"
        ).fetchall()
        if summed and undeclared:
            raise Mistake(
                "payoff: unit 'score' of a run whose old matches were summed up (storage.retention) and "
                "whose payoffs count games won: the largest lead is not known, expected unit 'outcome'"
            )
        return bool(summed)

    def match_mix(self, over_time: bool = False) -> pd.DataFrame:
        """Return the numbers of matches by player, purpose and match type.

        `share` is of all matches of a purpose that `player` learned from (no player: none learned).

        `run` text, `player` text, `purpose` text, `match_type` text, `matches` int64, `share` float64. With
        `over_time` for each minute by itself, and last `minute` int64 (since the first match) and
        `league_env_steps` int64 (of the whole league by the end of that minute).
        """
        minute = "date_sub('minute', (SELECT min(started_at) FROM played), started_at)"
        return self._frame(
            f"""
            WITH timed AS (
                SELECT player, purpose, match_type, matches AS n,
                    CASE WHEN is_placing THEN 0 ELSE env_steps END AS env_steps,
                    {minute if over_time else 0} AS minute
                FROM played
            ),
            ends AS (
                SELECT minute, CAST(sum(sum(env_steps)) OVER (ORDER BY minute) AS BIGINT) AS league_env_steps
                FROM timed GROUP BY minute
            )
            SELECT
                player, purpose, match_type, CAST(sum(n) AS BIGINT) AS matches,
                sum(n) / sum(sum(n)) OVER (PARTITION BY player, purpose, minute) AS share
                {", minute, any_value(league_env_steps) AS league_env_steps" if over_time else ""}
            FROM timed JOIN ends USING (minute)
            GROUP BY player, purpose, match_type, minute
            ORDER BY player, purpose, minute, matches DESC, match_type
            """
        )

    def matches_by_role(self) -> pd.DataFrame:
        """Return how many matches were played between which kinds of competitors, most first.

        `run` text, `purpose` text, `home_role` text (none: a bot), `home_kind` text (player, snapshot, bot),
        `away_role` text, `away_kind` text, `games` int64 (of a game for two, matches), `win_rate` float64 (of
        home; a draw is half a win, and so is self-play), `share` float64 (of the games with this purpose).
        Two kinds have a row from each side.
        """
        return self._frame("FROM matches_by_role")

    # ------------------------------------------------------------------ ratings

    def leaderboard(self, *, stages: bool = False) -> pd.DataFrame:
        """Return all rated competitors, best first; with `stages=True` live players as in `payoff`.

        `run` text, `competitor` text, `role` text (none: a bot), `kind` text (player, snapshot, bot), `mu`
        float64 and `sigma` float64 (TrueSkill); of all games, counted as in `payoff`: `games` int64,
        `win_rate` float64 (NaN: no game), `points` float64 (as in `payoff`), `lead` float64 (per game, in the
        game's own units; NaN: not recorded); of those with the purpose training: `training_games` int64,
        `training_win_rate` float64, `training_points` float64; of those with the purpose evaluation:
        `evaluation_games` int64, `evaluation_win_rate` float64, `evaluation_points` float64; `skill` float64
        (mu - 3 sigma).
        """
        if stages and not self._needs_seats(None):
            return self._timed(payoffs.staged_leaderboard(_PLACED))
        return self._frame("SELECT * FROM leaderboard ORDER BY skill DESC, competitor")

    def order(self) -> Order:
        """Return the competitors of the one run in order of strength, best first. Raise Mistake for several.

        It is a posterior of all games that tell them apart (`analysis.statistics.strength`).
        """
        if len(self.runs) != 1:
            raise Mistake(f"an order is of one run, found {len(self.runs)}: open one of them")
        with self._live.at_one_moment():
            return recorded_order(self._live)

    def standing(self, order: Order | None = None, *, stages: bool = False) -> pd.DataFrame:
        """Return `leaderboard` of the one run in order of strength; `order` if it is known already.

        Columns are added: `elo` float64 (above `Order.yardstick`, NaN: not known), `elo_low` and `elo_high`
        float64 (95 % interval), `p_best` float64 (probability that no other snapshot is stronger; NaN: it
        cannot be), `apart` bool (live players, bots, anchors and untrained weights, which are last).
        """
        known = self.order() if order is None else order
        frozen = self.snapshots()
        ends = {
            f"{player} to {steps}": (player, name)
            for player, steps, name in zip(
                frozen["player"], frozen["env_steps"], frozen["snapshot_id"], strict=True
            )
        }
        newest = frozen.groupby("player")["env_steps"].max()
        last = {f"{player} from {steps}": str(player) for player, steps in newest.items()}
        return ordered(self.leaderboard(stages=stages), known, ends, last)

    def strengths(self, everyone: bool = False) -> pd.DataFrame:
        """Return how strong the snapshots of mains are (of all players, without mains), in order of freezing.

        Each run is judged by its own games. `run` text, `player` text, `snapshot_id` text, `league_env_steps`
        int64 and `minutes` float64 (when it was frozen), `strength` float64, `low` float64 and `high` float64
        (its 95 % interval), `games` int64, `unit` text (Elo; score in a game with one seat), `yardstick` text
        (the competitor that strengths are above; none: the mean), `role` text, `main` bool. `everyone`: also
        snapshots that are not `main`, and behind them bots, which have neither player nor role.
        """
        parts = [over_steps(name, own.order(), own.snapshots(), everyone) for name, own in self.alone()]
        return pd.concat(parts, ignore_index=True)

    def ratings(self, points: int | None = None) -> pd.DataFrame:
        """Return the ratings' history: one row per competitor and batch of results that moved it, in order.

        `run` text, `seq` int64 (of the last match before), `league_env_steps` int64, `minutes` float64 (since
        the first match), `competitor` text, `mu` float64, `sigma` float64, `games` int64 (so far). `points`:
        limit of rows of each competitor: its first, its last and others evenly spaced. Raise Mistake for
        less than 2.
        """
        if points is not None and points < 2:
            raise Mistake(f"ratings: points={points}, expected at least 2")
        thin = ""
        if points is not None:
            # Row i of n, counted from 0, is kept if the integer part of i (points - 1) / (n - 1) is new.
            at, before = f"i * {points - 1} // (n - 1)", f"(i - 1) * {points - 1} // (n - 1)"
            thin = f"WHERE n <= {points} OR i = 0 OR {at} > {before}"
        return self._timed(
            f"""
            WITH counted AS (
                SELECT
                    seq, coalesce(batch, 0) AS batch, competitor, mu, sigma, games,
                    count(*) OVER (PARTITION BY competitor) AS n,
                    row_number() OVER (PARTITION BY competitor ORDER BY seq, batch) - 1 AS i
                FROM {"ratings" if points is None else "rated"}
            ),
            kept AS (SELECT * FROM counted {thin})
            SELECT kept.seq, {clock.STEPS}, {clock.minutes("clock.ended")}, competitor, mu, sigma, games
            FROM kept {clock.joined("kept.seq")}
            ORDER BY kept.seq, kept.batch, competitor
            """
        )

    # ------------------------------------------------------------------ decisions and learning

    def decisions(self) -> pd.DataFrame:
        """Return the league's decisions, with the numbers that led to them, in order.

        `run` text, `seq` int64, `league_env_steps` int64, `minutes` float64 (since the first match), `kind`
        text (freeze, reset, add, remove, retire, stop), `player` text, `snapshot_id` text (frozen, reset to,
        or retired), `role` text (of a player added), `reason` text, `evidence` object (a dict of numbers),
        `decided_at` datetime64[us].
        """
        frame = self._timed(
            f"""
            SELECT decisions.seq, {clock.STEPS}, {clock.minutes("decided_at")},
                kind, player, snapshot_id, role, reason, evidence, decided_at
            FROM decisions {clock.joined("decisions.seq")} ORDER BY decisions.seq
            """
        )
        return parsed(frame, "evidence")

    def updates(self) -> pd.DataFrame:
        """Return the learners' reports: means over the updates since a player's last row, in order.

        `run` text, `seq` int64, `player` text, `updates` int64 and `env_steps` int64 (so far), `lag` float64
        (updates between the weights that acted and those that learned), `policy_loss` float64, `value_loss`
        float64, `entropy` float64 (nats), `gradient_norm` float64, `metrics` object (a dict of all else),
        `recorded_at` datetime64[us], `league_env_steps` int64, `minutes` float64 (since the first match).
        """
        frame = self._timed(
            f"""
            SELECT updates.*, {clock.STEPS}, {clock.minutes("recorded_at")}
            FROM updates {clock.joined("updates.seq")} ORDER BY updates.seq
            """
        )
        return parsed(frame, "metrics")

    def curves(self, points: int = 60) -> pd.DataFrame:
        """Return learning curves: means over stretches of equally many env steps of the league.

        `run` text, `measure` text, `player` text (none: of all), `series` text (which of several curves of
        one measure), `league_env_steps` int64 and `minutes` float64 (at the end of the stretch), `value`
        float64, `low` float64 and `high` float64 (95 % interval; NaN: none), `samples` int64.

        | measure | value | series | samples |
        |---|---|---|---|
        | score | mean return of the player, in matches that it learned from | | seats |
        | length | mean env steps of all seats, in the same matches | | matches |
        | end | share of these matches that ended in this way | reason | matches |
        | win_rate | points per game of the live player | opponent, or `snapshots of PLAYER` | games |
        | seat | points per game of a seat, a draw is half | number of the seat | games |
        | entropy, policy_loss, value_loss, gradient_norm, lag | mean of the learner's reports | | reports |
        | validation_loss, accuracy | the same, of games that are not learned from | | reports |
        | yardstick | of a snapshot, where it was frozen | yardstick, measure, mode | positions or games |

        There are at most as many stretches as `points`. Raise Mistake if that is out of range.
        """
        if not curves.LEAST_POINTS <= points <= curves.MOST_POINTS:
            raise Mistake(
                f"curves: points={points}, expected from {curves.LEAST_POINTS} to {curves.MOST_POINTS}"
            )
        return self._timed(curves.query(points, _SNAPSHOTS))

    def exploitability(self) -> pd.DataFrame:
        """Return the measurements of `league exploit`, oldest first.

        `run` text, `snapshot_id` text, `player` text, `env_steps` int64 (of its player), `league_env_steps`
        int64, `kind` text (exact; or lower_bound: a trained response gained it), `value` float64, `low`
        float64 and `high` float64 (95 % interval), `unit` text, `trained_env_steps` Int64 (of the response;
        none: exact), `created_at` datetime64[us], `worth` text (of a lower bound:
        nothing_learned, may_rise or settled; none: exact, or not known).
        """
        rows = []
        for name, run in zip(self._live.names, self.runs, strict=True):
            until = np.inf if self.moment is None else last_time(run, self.moment)
            for one in sorted(figures.measurements(run), key=lambda one: (one.created_at, one.snapshot_id)):
                if one.created_at <= until:
                    created = round(1e6 * min(max(one.created_at, 0.0), figures.LAST))
                    rows.append({"run": name, **asdict(one), "created_at": created})
        return to_pandas(pa.Table.from_pylist(rows, _MEASURED))

    def yardsticks(self) -> pd.DataFrame:
        """Return what competitors score on fixed yardsticks, in order of measuring.

        `run` text, `competitor` text (a snapshot, or a bot for comparison), `player` text (none: a bot),
        `env_steps` Int64 (of its player when it was frozen), `league_env_steps` Int64, `yardstick` text
        (positions, or the name of a fixed opponent), `kind` text (positions, games), `measure` text (best and
        kept: shares of positions; score: points per game), `mode` text (sample, greedy), `part` text (all,
        decisive, or a band of plies), `value` float64, `low` float64 and `high` float64 (95 % interval),
        `samples` int64 (positions or games), `created_at` datetime64[us].
        """
        frame = self._timed(
            f"""
            WITH frozen_at AS ({_SNAPSHOTS})
            SELECT
                competitor, player, env_steps, league_env_steps, yardstick, kind, measure, mode, part,
                value, low, high, samples, yardsticks.created_at
            FROM yardsticks LEFT JOIN frozen_at ON competitor = snapshot_id
            WHERE measure <> '{figures.EXPLOITABILITY}'
            ORDER BY yardsticks.created_at, competitor, yardstick, part, mode, measure
            """
        )
        return frame.astype(dict.fromkeys(("env_steps", "league_env_steps"), "Int64"))

    def config(self) -> dict[str, Any]:
        """Return the settings of the first run's newest session; {} when there are none that can be read."""
        (text,) = self._live.execute(
            f"SELECT (SELECT config FROM {self._live.schemas[0]}.runs "
            "ORDER BY seq DESC, started_at DESC LIMIT 1)"
        ).fetchone()
        return settings_of(text)

    # ------------------------------------------------------------------ queries

    def _of_each(self, query: str, parameters: list[Any]) -> pd.DataFrame:
        """Return the answers to `query` over each run's own tables, one run after the other."""
        parts = []
        for name, schema in zip(self._live.names, self._live.schemas, strict=True):
            with self._alone(schema):
                part = self._live.execute(query, parameters).df()
            part.insert(0, "run", pd.Series([name] * len(part), dtype=str))
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def _timed(self, query: str) -> pd.DataFrame:
        """Return `_frame` of a query that reads `clock`, the view of the run's own clock."""
        with self._live.at_one_moment():
            if self._clocked != self._live.seen:
                clock.bring_up_to_date(self._live)
                self._clocked = self._live.seen
            return self._frame(query, timed=True)

    def _frame(self, query: str, categories: tuple[str, ...] = (), *, timed: bool = False) -> pd.DataFrame:
        """Return the rows of `query` on the tables of each run, one run after the other, its name first."""
        parts = []
        with self._live.at_one_moment():
            for number, (name, schema) in enumerate(zip(self._live.names, self._live.schemas, strict=True)):
                with self._alone(schema):
                    if timed:
                        clock.show(self._live, number)
                    rows = self._live.sql(f"SELECT {literal(name)} AS run, * FROM ({query})")
                    parts.append(to_table(rows.to_arrow_reader(2**17), categories))
        return to_pandas(pa.concat_tables(parts))

    @contextmanager
    def _alone(self, schema: str) -> Iterator[None]:
        """Let the names of tables mean those of one run."""
        self._live.execute(f"SET schema = '{schema}'")
        try:
            yield
        finally:
            self._live.execute("SET schema = 'main'")


_PLACED = """
WITH frozen AS (SELECT snapshot_id, min(seq) AS seq FROM decisions
                WHERE kind = 'freeze' GROUP BY snapshot_id)
SELECT snapshots.*, coalesce(frozen.seq, before.seq, 0) AS frozen_at
FROM snapshots
LEFT JOIN frozen USING (snapshot_id)
ASOF LEFT JOIN clock before ON snapshots.created_at >= before.ended
"""
"""Snapshots with the number of the last match before they were frozen."""
_SNAPSHOTS = f"""
SELECT placed.* EXCLUDE (frozen_at), {clock.STEPS}, {clock.minutes("created_at")}
FROM ({_PLACED}) placed {clock.joined("frozen_at")}
"""
"""Snapshots with the league's env steps and minutes, over the view `clock`."""
_KINDS = {"str": pa.string(), "int": pa.int64(), "int | None": pa.int64(), "float": pa.float64()}
_MEASURED = pa.schema(
    [("run", pa.string())]
    + [(one.name, _KINDS.get(str(one.type), pa.string())) for one in fields(figures.Measurement)]
)
_MEASURED = _MEASURED.set(_MEASURED.get_field_index("created_at"), pa.field("created_at", pa.timestamp("us")))
