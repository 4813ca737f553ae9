from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

import storage
from storage.errors import Mistake
from storage.ledger.ledger import Ledger
from storage.records import MAIN, CacheRecord, Freeze, LivePlayer, RatingChange, Snapshot, UpdateRecord
from storage.tables import codec, columns, schema
from storage.tables.columns import competitor_tables
from storage.tables.moments import last_frame_at, last_time, parse_moment

BEGUN = 1.7e9  # seconds since the epoch
NAMES = ("main-0", "random", "main-0@0")


def frames(make_results, old=False):
    """(tables, when it was recorded, env steps of the league up to it) of the frames of two sessions.
    `old`: results as a version recorded them that knew neither meetings nor batches of ratings."""
    seq, played, now = 1, 0, BEGUN
    row = {"name": "planted", "env": "connect_four", "seed": 0}
    made = []

    def add(tables):
        made.append((tables, now, played))

    for session in range(2):
        add({"runs": columns.run_table(row, f"session: {session}", seq, now)})
        if not session:
            now += 1
            add(competitor_tables(LivePlayer("main-0", MAIN), now))
        for number in range(7):
            now += 10
            results = make_results(5, 5 * number + 100 * session, seed=number)
            results.started_at[:] = now - 3 + np.arange(5) / 10
            results.seconds[:] = 0.5
            played += int(results.env_steps.sum())
            changes = [RatingChange(name, float(number), 8.0, number) for name in NAMES]
            tables = columns.result_tables(results, changes, seq, len(made) + 1)
            if old:
                del tables["meetings"]
                tables["matches"] = tables["matches"].drop_columns(["num_seats", "player"])
            add(tables)
            seq += 5
            if number % 2:
                now += 1
                name = f"main-0@{session}{number}"
                snapshot = Snapshot(name, "main-0", MAIN, number, 1, None, "ab", 8, "mlp", now, "due")
                freeze = columns.decision_table([Freeze(player="main-0", reason="due")], seq, now, name)
                add(competitor_tables(snapshot, now) | {"decisions": freeze})
                rating = RatingChange(name, 1.0, 8.0, 0)
                add({"ratings": codec.rows("ratings", [rating], seq=seq, batch=len(made) + 1)})
                seq += 1
            if number % 3 == 2:
                now += 1
                record = UpdateRecord("main-0", number, 10, 0.5, {"entropy": 1.0})
                add({"updates": columns.update_table([record], seq, now)})
                seq += 1
                cache = CacheRecord("here", "disk", 1, 2, 3, 4, {})
                add({"caches": codec.rows("caches", [cache], seq=seq, recorded_at=now)})
        now += 100  # what an end of training writes, and a pause
        add({"updates": columns.update_table([UpdateRecord("main-0", 9, 10, 0.5, {})], seq, now)})
        seq += 1
        now += 1000
    return made


def write(folder, made, compacted):
    (folder / "ledger").mkdir(parents=True)
    (folder / "FORMAT").write_text('{"version": 1}')
    with Ledger(folder / "ledger", "test", segment_frames=8) as ledger:
        for tables, _, _ in made:
            ledger.append(tables)
        if compacted:
            ledger.compact()
    return folder


# What closed segments come to, in stretches of the run: equal sums, but other rows.
SUMS = {
    "played": "SELECT purpose, match_type, reason, sum(matches), sum(env_steps) FROM played GROUP BY ALL",
    "seated": "SELECT competitor, seat, outcome, sum(seats), sum(score) FROM seated GROUP BY ALL",
    "met": "SELECT home, away, sum(games), sum(wins), sum(draws) FROM met GROUP BY ALL",
    "rated": "SELECT competitor, max_by(mu, (seq, batch)) FROM rated GROUP BY ALL",
    "summed_opponents": "SELECT player, opponent, sum(games) FROM summed_opponents GROUP BY ALL",
}


def everything(run, as_of=None):
    """The rows of every table and view."""
    with storage.connect(run, as_of=as_of) as live:
        return {
            name: sorted(live.execute(SUMS.get(name, f"FROM {name}")).fetchall(), key=repr)
            for name in (*schema.TABLES, *schema.VIEWS)
        }


@pytest.fixture(params=["new", "old"])
def story(request, make_results):
    return frames(make_results, old=request.param == "old")


@pytest.mark.long
def test_every_table_and_view_of_a_past_time_is_that_of_a_run_that_stopped_there(story, tmp_path):
    run = write(tmp_path / "run", story, compacted=True)
    times = [now for _, now, _ in story]
    assert last_frame_at(run, datetime.fromtimestamp(BEGUN - 1, UTC)) == 0
    for k in range(3, len(story), 9):
        there = datetime.fromtimestamp(times[k] + 0.6, UTC)
        last = sum(now <= times[k] + 0.6 for now in times)
        assert last_frame_at(run, there) == last
        stopped = write(tmp_path / f"stopped-{k}", story[:last], compacted=False)
        assert everything(run, there) == everything(stopped)


@pytest.mark.long
@pytest.mark.parametrize("compacted", [False, True])
def test_at_some_env_steps_a_run_has_what_one_had_that_was_stopped_there(make_results, compacted, tmp_path):
    """The batch that reaches them and what follows it, up to the next batch or the next session."""
    story = frames(make_results, old=compacted)
    run = write(tmp_path / "run", story, compacted)
    played = [steps for _, _, steps in story]
    total = played[-1]
    for wanted in (0, 1, played[4], played[4] + 1, total // 2, total // 2 + 40, played[-2], total, total + 1):
        later = (
            i
            for i, (tables, _, steps) in enumerate(story)
            if i and not tables.keys().isdisjoint({"matches", "runs"}) and played[i - 1] >= wanted
        )
        last = next(later, len(story))
        assert last_frame_at(run, wanted) == last
    for wanted in (0, played[12]):
        stopped = write(tmp_path / f"stopped-{wanted}", story[: last_frame_at(run, wanted)], compacted=False)
        assert everything(run, wanted) == everything(stopped)


@pytest.mark.slow
def test_a_moment_of_the_past_stays_as_it_is_while_the_run_goes_on(story, tmp_path):
    run = write(tmp_path / "run", story[:9], compacted=False)
    now = everything(run)
    with storage.connect(run, as_of=10**9) as live:
        with Ledger(run / "ledger", "test", segment_frames=8) as ledger:
            for tables, _, _ in story[9:]:
                ledger.append(tables)
            ledger.compact()
        assert sorted(live.execute("FROM matches").fetchall(), key=repr) == now["matches"]
        assert sorted(live.execute("FROM payoff").fetchall(), key=repr) == now["payoff"]
    assert everything(run) != now


def test_a_moment_has_a_time(story, tmp_path):
    run = write(tmp_path / "run", story, compacted=False)
    there = datetime(2023, 11, 14, 23, tzinfo=UTC)
    assert last_time(run, there) == there.timestamp()
    assert last_time(run, 10**9) == np.inf
    last = last_frame_at(run, story[4][2])
    assert last_time(run, story[4][2]) == pytest.approx(max(now for _, now, _ in story[:last]), abs=2.6)


def test_moments_are_numbers_and_times_in_many_forms():
    noon = datetime(2025, 1, 31, 12, tzinfo=UTC).timestamp()
    assert [parse_moment(m) for m in (0, 2_000, np.int64(7), " 2_000 ")] == [0, 2000, 7, 2000]
    assert isinstance(parse_moment(np.int64(7)), int)
    for moment in (
        "2025-01-31T12:00:00",
        "2025-01-31 12:00",
        "2025-01-31T14:00:00+02:00",
        datetime(2025, 1, 31, 12),
        datetime(2025, 1, 31, 13, tzinfo=timezone(timedelta(hours=1))),
    ):
        assert parse_moment(moment) == noon
        assert isinstance(parse_moment(moment), float)


@pytest.mark.parametrize("moment", ["yesterday", "", -1, "-5", True, 1.5, None])
def test_what_is_no_moment_is_a_mistake_that_names_both_kinds(moment):
    with pytest.raises(Mistake, match=r"expected env steps .*, or a time"):
        parse_moment(moment)
