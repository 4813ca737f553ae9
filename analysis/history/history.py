"""History: the whole story of one run or several as SQL and pandas frames, whether they train or not.

history = analysis.open_run("runs/connect_four")
history.sql("SELECT * FROM leaderboard LIMIT 5")
history.payoff().pivot(index="home", columns="away", values="win_rate")
history.as_of(2_000_000).leaderboard()

Every frame has one row per thing and `run`, the folder's name, as its first column. Columns have the same
types whether there are rows or not: `text` is what pandas makes of str, with NaN or None for "none";
`category` is text whose values repeat; times are UTC without a zone; Int64 are whole numbers that may lack.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import storage
from analysis.history import clock
from analysis.history.frames import Of, parsed, settings_of, to_frame, to_pandas
from analysis.history.named_queries import expand
from storage.errors import Mistake
from storage.snapshots import measurements
from storage.tables.moments import Moment, last_time

_CATEGORIES = {
    "matches": ("run", "purpose", "match_type", "env", "reason", "player"),
    "seats": ("run", "competitor", "outcome"),
}


def open_run(*runs: str | Path | list[str | Path] | tuple[str | Path, ...]) -> History:
    """The history of a run folder or a remote's address, of several, or of one list of them.

    Raises NotARun, CorruptLedger, RemoteFailed; Mistake for no run, or one given twice.
    """
    flat: list[str | Path] = []
    for run in runs:
        flat += run if isinstance(run, (list, tuple)) else [run]
    return History(*flat)


class History:
    """Runs as they are at each question: what was acknowledged before it is in the answer.

    Raises NotARun, CorruptLedger. For one thread at a time.
    """

    def __init__(self, *runs: str | Path, as_of: Moment | None = None) -> None:
        self._live = storage.connect(*runs, as_of=as_of)
        self._as_of = as_of
        self.runs: tuple[Path, ...] = self._live.runs

    def close(self) -> None:
        """Let go of what is held in memory."""
        self._live.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def as_of(self, moment: Moment) -> History:
        """Every frame and table as it stood then, for each run; it stays as it is though the run goes on.

        `moment`: env steps of the league, as `stop.env_steps` counts them: what a run stopped there had, its
        last batch of results and what was decided after it included. Or a time, a datetime or ISO text, UTC
        unless it says otherwise. A later moment than the newest is now. Raises Mistake for what is neither.
        """
        return History(*self.runs, as_of=moment)

    def at_one_moment(self) -> AbstractContextManager[None]:
        """In a `with` block of it all frames and answers show the same facts, though the runs go on."""
        return self._live.at_one_moment()

    def sql(self, query: str, parameters: list[Any] | None = None) -> pd.DataFrame:
        """The answer to `query` over the tables and views of README.md; `?` stand for `parameters`.

        Of several runs each table and view has `run` as its first column (`entrants.run` is `origin` then).

        `@name` stands for a named query (`analysis/history/queries`), which is asked of each run by itself.
        Raises duckdb.Error for what is no SQL, Mistake for a name that there is not.
        """
        sql = expand(query)
        if sql is query or len(self.runs) == 1:
            return self._live.execute(sql, parameters or []).df()
        return self._of_each(sql, parameters or [])

    # ------------------------------------------------------------------ who is there

    def players(self) -> pd.DataFrame:
        """Who learns, in order of joining.

        `run` text, `player` text, `role` text, `added_at` datetime64[us]; as reported or frozen last:
        `env_steps` int64 (decisions it learned from), `updates` int64 (optimizer steps); `snapshots` int64
        (how many it has frozen).
        """
        return self._frame(
            """
            WITH known AS (
                SELECT player, env_steps, updates, 0 AS snapshots FROM {schema}.updates
                UNION ALL SELECT player, env_steps, updates, 1 FROM {schema}.snapshots
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
            FROM {schema}.players LEFT JOIN latest USING (player)
            ORDER BY added_at, player
            """
        )

    def snapshots(self) -> pd.DataFrame:
        """Frozen policies, in order of freezing.

        `run` text, `snapshot_id` text, `player` text, `role` text; of its player when it was frozen:
        `env_steps` int64, `updates` int64; `parent_id` text (none: from scratch), `blob_hash` text,
        `bytes` int64, `architecture` text, `created_at` datetime64[us], `reason` text;
        `league_env_steps` int64 (of the whole league by then), `minutes` float64 (since the first match).
        """
        return self._timed(
            """
            WITH frozen AS (SELECT snapshot_id, min(seq) AS seq FROM {schema}.decisions
                            WHERE kind = 'freeze' GROUP BY snapshot_id),
            placed AS (
                SELECT snapshots.*, coalesce(frozen.seq, before.seq, 0) AS frozen_at
                FROM {schema}.snapshots
                LEFT JOIN frozen USING (snapshot_id)
                ASOF LEFT JOIN {clock} before ON snapshots.created_at >= before.ended
            )
            SELECT placed.* EXCLUDE (frozen_at), {steps}, {minutes:created_at}
            FROM placed {join:frozen_at}
            ORDER BY created_at, snapshot_id
            """
        )

    def lineage(self) -> pd.DataFrame:
        """Every ancestor of every snapshot.

        `run` text, `snapshot_id` text, `ancestor_id` text, `generation` int32 (1: its parent).
        """
        return self._frame("SELECT * FROM {schema}.lineage ORDER BY snapshot_id, generation")

    # ------------------------------------------------------------------ what was played

    def matches(self) -> pd.DataFrame:
        """One row per match, in order of recording.

        `run` category, `seq` int64 (number within the run), `match_id` int64, `purpose` category (training,
        evaluation, tournament), `match_type` category (the branch that drew it), `env` category,
        `seed` int64, `env_steps` int32 (decisions of all seats), `reason` category (how it ended),
        `started_at` datetime64[us], `seconds` float32, `batch` Int64 (frame of the ledger), `num_seats` Int8,
        `player` category (who learned from it), `digest` Int64 (alike for matches that are the same).
        """
        return self._frame("SELECT * FROM {schema}.matches ORDER BY seq", _CATEGORIES["matches"])

    def seats(self) -> pd.DataFrame:
        """One row per match and seat, in order of recording.

        `run` category, `seq` int64 (of the match), `seat` int8, `competitor` category, `learning` bool,
        `outcome` category (win, draw, loss, forfeit), `score` float32 (sum of rewards), `rank` int8 (0 is
        best), `team` Int8 (lacking where a match was recorded before teams were stored).
        """
        return self._frame("SELECT * FROM {schema}.seats ORDER BY seq, seat", _CATEGORIES["seats"])

    def payoff(self, purpose: str | None = None) -> pd.DataFrame:
        """One row per ordered pair that has met, from `home`'s side; `purpose`: in such matches only.

        `run` text, `home` text, `away` text, `games` int64, `wins` int64, `draws` int64, `losses` int64,
        `win_rate` float64 (a draw is half a win). Raises Mistake for a purpose that there is not.
        """
        known = ("training", "evaluation", "tournament")
        if purpose is not None and purpose not in known:
            raise Mistake(f"payoff: purpose '{purpose}', expected one of {', '.join(known)}")
        where = "" if purpose is None else f"WHERE purpose = '{purpose}'"
        return self._frame(
            f"""
            SELECT
                home, away,
                CAST(sum(games) AS BIGINT) AS games, CAST(sum(wins) AS BIGINT) AS wins,
                CAST(sum(draws) AS BIGINT) AS draws, CAST(sum(losses) AS BIGINT) AS losses,
                (sum(wins) + 0.5 * sum(draws)) / sum(games) AS win_rate
            FROM {{schema}}.meetings {where}
            GROUP BY home, away ORDER BY home, away
            """
        )

    def match_mix(self, over_time: bool = False) -> pd.DataFrame:
        """What was played: `share` is of all matches of a purpose that `player` learned from (none: nobody).

        `run` text, `player` text, `purpose` text, `match_type` text, `matches` int64, `share` float64. With
        `over_time` for each minute by itself, and last `minute` int64 (since the first match).
        """
        minute = "date_sub('minute', (SELECT min(started_at) FROM {schema}.matches), started_at)"
        return self._frame(
            f"""
            WITH timed AS (
                SELECT player, purpose, match_type, {minute if over_time else 0} AS minute
                FROM {{schema}}.matches
            )
            SELECT
                player, purpose, match_type, count(*) AS matches,
                count(*) / sum(count(*)) OVER (PARTITION BY player, purpose, minute) AS share
                {", minute" if over_time else ""}
            FROM timed
            GROUP BY player, purpose, match_type, minute
            ORDER BY player, purpose, minute, matches DESC, match_type
            """
        )

    # ------------------------------------------------------------------ how they stand

    def leaderboard(self) -> pd.DataFrame:
        """Everyone who was rated, best first.

        `run` text, `competitor` text, `role` text (none: a bot), `kind` text (player, snapshot, bot),
        `mu` float64 and `sigma` float64 (TrueSkill), `games` int64 (that the rating counts),
        `win_rate` float64 (over all opponents; NaN: met nobody), `skill` float64 (mu - 3 sigma).
        """
        return self._frame("SELECT * FROM {schema}.leaderboard ORDER BY skill DESC, competitor")

    def ratings(self, points: int | None = None) -> pd.DataFrame:
        """The ratings' history: one row per competitor and batch of results that moved it, in order.

        `run` text, `seq` int64 (of the last match before), `league_env_steps` int64, `minutes` float64 (since
        the first match), `competitor` text, `mu` float64, `sigma` float64, `games` int64 (so far). `points`:
        at most so many rows of each competitor, its first and last among them, evenly spaced.
        """
        if points is not None and points < 2:
            raise Mistake(f"ratings: points={points}, expected at least 2")
        thin = ""
        if points is not None:
            # Of n rows, i = 0 .. n - 1, one is kept whenever i (points - 1) / (n - 1) comes to a new whole.
            at, before = f"i * {points - 1} // (n - 1)", f"(i - 1) * {points - 1} // (n - 1)"
            thin = f"WHERE n <= {points} OR i = 0 OR {at} > {before}"
        return self._timed(
            f"""
            WITH counted AS (
                SELECT
                    seq, coalesce(batch, 0) AS batch, competitor, mu, sigma, games,
                    count(*) OVER (PARTITION BY competitor) AS n,
                    row_number() OVER (PARTITION BY competitor ORDER BY seq, batch) - 1 AS i
                FROM {{schema}}.ratings
            ),
            kept AS (SELECT * FROM counted {thin})
            SELECT kept.seq, {{steps}}, {{minutes:clock.ended}}, competitor, mu, sigma, games
            FROM kept {{join:kept.seq}}
            ORDER BY kept.seq, kept.batch, competitor
            """
        )

    # ------------------------------------------------------------------ what was decided and learned

    def decisions(self) -> pd.DataFrame:
        """What the league decided, and the numbers that led there, in order.

        `run` text, `seq` int64, `league_env_steps` int64, `minutes` float64 (since the first match),
        `kind` text (freeze, reset, add, remove, retire, stop), `player` text, `snapshot_id` text (frozen,
        reset to, or retired), `role` text (of a player added), `reason` text, `evidence` object (a dict of
        numbers), `decided_at` datetime64[us].
        """
        frame = self._timed(
            """
            SELECT decisions.seq, {steps}, {minutes:decided_at}, kind, player, snapshot_id, role, reason,
                evidence, decided_at
            FROM {schema}.decisions {join:decisions.seq} ORDER BY decisions.seq
            """
        )
        return parsed(frame, "evidence")

    def updates(self) -> pd.DataFrame:
        """What learners reported: means over the updates since a player's last row, in order.

        `run` text, `seq` int64, `player` text, `updates` int64 and `env_steps` int64 (so far), `lag` float64
        (updates between the weights that acted and those that learned), `policy_loss` float64,
        `value_loss` float64, `entropy` float64 (nats), `gradient_norm` float64, `metrics` object (a dict of
        all else), `recorded_at` datetime64[us], `league_env_steps` int64, `minutes` float64 (since the first
        match).
        """
        frame = self._timed(
            """
            SELECT updates.*, {steps}, {minutes:recorded_at}
            FROM {schema}.updates {join:updates.seq} ORDER BY updates.seq
            """
        )
        return parsed(frame, "metrics")

    def exploitability(self) -> pd.DataFrame:
        """How far snapshots can be exploited, as measured by `league exploit`, oldest first.

        `run` text, `snapshot_id` text, `player` text, `env_steps` int64 (of its player),
        `league_env_steps` int64, `kind` text (exact; or lower_bound: a trained response gained it),
        `value` float64, `low` float64 and `high` float64 (95 % interval), `unit` text,
        `trained_env_steps` Int64 (of the response; none: exact), `created_at` datetime64[us].
        """
        rows = []
        for name, run in zip(self._live.names, self.runs, strict=True):
            until = np.inf if self._as_of is None else last_time(run, self._as_of)
            found = sorted(measurements.read(run), key=lambda one: (one.created_at, one.snapshot_id))
            rows += [(name, one) for one in found if one.created_at <= until]
        columns: dict[str, pa.Array] = {"run": pa.array([name for name, _ in rows], pa.string())}
        for field, kind in _MEASURED.items():
            columns[field] = pa.array([getattr(one, field) for _, one in rows], kind)
        created = [round(1e6 * min(max(one.created_at, 0.0), _LAST)) for _, one in rows]
        columns["created_at"] = pa.array(created, pa.int64()).cast(pa.timestamp("us"))
        return to_pandas(pa.table(columns))

    def config(self) -> dict[str, Any]:
        """The settings of the first run's newest session; {} when it had none that can be read."""
        (text,) = self._live.execute(
            f"SELECT (SELECT config FROM {self._live.schemas[0]}.runs ORDER BY seq DESC LIMIT 1)"
        ).fetchone()
        return settings_of(text)

    # ------------------------------------------------------------------ asking

    def _of_each(self, query: str, parameters: list[Any]) -> pd.DataFrame:
        """The answers of the runs to `query`, each over its own tables, one behind the other."""
        parts = []
        try:
            for name, schema in zip(self._live.names, self._live.schemas, strict=True):
                self._live.execute(f"SET schema = '{schema}'")
                part = self._live.execute(query, parameters).df()
                part.insert(0, "run", pd.Series([name] * len(part), dtype=str))
                parts.append(part)
        finally:
            self._live.execute("SET schema = 'main'")
        return pd.concat(parts, ignore_index=True)

    def _timed(self, query: str) -> pd.DataFrame:
        """As `_frame`, for a query that asks the clock."""
        with self._live.at_one_moment():
            clock.bring_up_to_date(self._live)
            return self._frame(query)

    def _frame(self, query: str, categories: tuple[str, ...] = ()) -> pd.DataFrame:
        """The answers of all runs to `query`, one behind the other. In it, {schema} is the run's own,
        {clock} its clock, {join:X} joins that at seq X, {minutes:X} is the column of facts from time X."""
        parts = []
        for number, (name, schema) in enumerate(zip(self._live.names, self._live.schemas, strict=True)):
            filled = query.format(
                schema=schema,
                clock=clock.table_of(number),
                steps=clock.STEPS,
                join=Of(partial(clock.joined, number)),
                minutes=Of(partial(clock.minutes, number)),
            )
            quoted = name.replace("'", "''")
            parts.append(f"(SELECT '{quoted}' AS run, * FROM ({filled}))")
        reader = self._live.sql(" UNION ALL ".join(parts)).to_arrow_reader(2**17)
        return to_frame(reader, categories)


_LAST = 253_402_300_799.0  # seconds since the epoch; a file may say anything, no calendar goes on for ever
_MEASURED = {
    "snapshot_id": pa.string(),
    "player": pa.string(),
    "env_steps": pa.int64(),
    "league_env_steps": pa.int64(),
    "kind": pa.string(),
    "value": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
    "unit": pa.string(),
    "trained_env_steps": pa.int64(),
}
