"""Sums of closed segments: views read them in place of rows, and answer as before."""

import contextlib
import functools
import itertools
import shutil

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import analysis
import storage
from analysis.diagnostics import diagnose
from analysis.report import report_page
from storage.archive import Archive
from storage.disk import using
from storage.errors import DiskFailed
from storage.layout import LEDGER, SUMS
from storage.ledger.ledger import Ledger, read_tables
from storage.ledger.segments import Segment
from storage.records import LEAGUE_EXPLOITER, MAIN, Bot, Freeze, LivePlayer, Purpose, RatingChange
from storage.retention import segment_sums
from storage.retention.groups import coded
from storage.retention.segment_rows import RESOLUTION
from storage.retention.sums import MATCHES_PER_ROW, sum_up
from storage.settings import Keep
from storage.tables.columns import result_tables
from tests import made_up
from tests.steps import flip_bit
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk, Killed
from tests.storage.retention.test_retention import SAME, answers

ROW = {"name": "test", "env": "connect_four", "seed": 3}
NAMES = ("main-0", "random", "main-0@0", "league_exploiter-0")
ALL = (
    *SAME,
    "FROM matches_by_role",
    "SELECT home, away, sum(games), sum(draws) FROM met GROUP BY ALL ORDER BY ALL",
    "SELECT competitor, seat, outcome, learning, sum(seats) FROM seated GROUP BY ALL ORDER BY ALL",
    "SELECT player, purpose, sum(step_squares) FROM played GROUP BY ALL ORDER BY ALL",
)
BY_PAIRS_OF_SEATS = """
SELECT learner.competitor AS player, other.competitor AS opponent, count(DISTINCT learner.seq) AS games
FROM seats learner JOIN seats other ON learner.seq = other.seq AND learner.seat <> other.seat
WHERE learner.learning GROUP BY ALL ORDER BY ALL
"""


def drawn(number, count=30):
    """Results of one batch: for two or four seats, with self-play, and now and then for evaluation."""
    rng = np.random.default_rng(number)
    seats = 2 if number % 3 else 4
    seat = rng.integers(len(NAMES), size=(count, seats))
    learns = number % 5 != 4
    learner = 3 if number % 2 else 0
    matches = made_up.matches(
        NAMES,
        seat,
        env="connect_four",
        purpose=Purpose.TRAINING if learns else Purpose.EVALUATION,
        match_types=("self_play", "pfsp"),
        match_type=rng.integers(2, size=count),
        learning=(seat == learner) & learns,
        match_id=count * number + np.arange(count),
    )
    outcome = rng.integers(4, size=(count, seats))
    return made_up.results(
        matches,
        outcome,
        score=rng.normal(size=(count, seats)),
        env_steps=rng.integers(7, 43, size=count),
        reason=rng.integers(2, size=count),
        started_at=1.7e9 + 25.0 * number + rng.random(count),
        seconds=rng.random(count),
    )


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Sums from the first match on."""
    monkeypatch.setattr(segment_sums, "LEAST_SEQ", 0)


@pytest.fixture
def play(weights, monkeypatch):
    """Makes a run of 24 batches and some snapshots, whose closed segments are compacted and summed up."""
    monkeypatch.setattr("storage.archive.Ledger", functools.partial(Ledger, segment_frames=6))

    def make(folder, summed=True, stops=(), keep=None):
        archive = Archive.create(folder, "env: {id: connect_four}\n", ROW, keep=keep)
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_player(LivePlayer("league_exploiter-0", LEAGUE_EXPLOITER))
        archive.add_bot(Bot("random"))
        freeze = Freeze(player="main-0", reason="due", evidence={})
        archive.add_snapshot("main-0", MAIN, 0, 0, None, weights, {}, "mlp", "due", decisions=[freeze])
        for i in range(24):
            changes = [RatingChange(name, 25.0 + i, 8.0 - 0.1 * i, 30 * i) for name in NAMES]
            archive.append_results(drawn(i), changes)
            if i % 6 == 5:
                again = "main-0", MAIN, i, i, "main-0@0", weights
                archive.add_snapshot(*again, {}, "mlp", "due", decisions=[freeze])
            if archive.wants_fold:
                archive.note_fold({}, {"batch": i})
            if i in stops:
                archive.close()
                archive = Archive.open(folder, keep=keep)
        archive._compaction.close()
        while archive._ledger.compact() or (summed and archive._compaction._step()):
            pass
        archive.close()
        if not summed:
            shutil.rmtree(folder / SUMS, ignore_errors=True)
        return folder

    return make


def views(run):
    with storage.connect(run) as live:
        return [live.sql(question).to_arrow_table().to_pylist() for question in ALL]


def by_rows(run, monkeypatch):
    """The answers without sums."""
    with monkeypatch.context() as patched:
        patched.setattr(segment_sums, "found", lambda *_: None)
        patched.setattr("storage.tables.live_tables.is_written", lambda _: True)
        return views(run), answers(run)


def numbers_of(run):
    return sorted(path.name for path in (run / SUMS).glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stops", "keep"), [((), Keep(bytes=1, share=0.3)), ((3, 11, 12), None), ((3, 11, 12), Keep(bytes=1))]
)
def test_sums_answer_all_that_rows_answer(play, tmp_path, stops, keep, monkeypatch):
    run, whole = (
        play(tmp_path / "a" / "run", stops=stops, keep=keep),
        play(tmp_path / "b" / "run", stops=stops),
    )
    assert (len(numbers_of(run)) > 4) or keep is not None
    expected = by_rows(whole, monkeypatch)
    for found, wanted in zip((*views(run), *answers(run)), itertools.chain(*expected), strict=True):
        assert found == wanted


@pytest.mark.slow
def test_who_was_learned_from_is_what_a_join_of_all_seats_counts(play, tmp_path):
    for summed in (True, False):
        run = play(tmp_path / str(summed) / "run", summed)
        seats = read_tables(run / LEDGER, ("seats",))["seats"]
        expected = duckdb.sql(BY_PAIRS_OF_SEATS).fetchall()
        assert len(seats) == 1920
        assert len(expected) > 6
        found = storage.query(run, "SELECT player, opponent, games FROM learned_from ORDER BY ALL")
        assert [tuple(row.values()) for row in found.to_pylist()] == expected


@pytest.mark.slow
def test_matches_by_role_count_each_match_of_a_game_for_two_once(tmp_path):
    run = tmp_path / "run"
    with Archive.create(run, "", ROW) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_player(LivePlayer("main-1", MAIN))
        archive.add_bot(Bot("random"))
        seat = np.array([[0, 0]] * 5 + [[0, 1]] * 3 + [[2, 0]] * 2)
        matches = made_up.matches(("main-0", "main-1", "random"), seat, learning=seat == 0)
        outcome = np.array([[1, 1]] * 5 + [[0, 2]] * 3 + [[0, 2]] * 2)
        archive.append_results(made_up.results(matches, outcome), [])
    found = storage.query(run, "FROM matches_by_role").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("training", "main", "player", "main", "player", 8, 0.5, 0.8),
        ("training", "main", "player", None, "bot", 2, 0.0, 0.2),
        ("training", None, "bot", "main", "player", 2, 1.0, 0.2),
    ]


@pytest.mark.slow
def test_no_view_and_no_page_reads_the_rows_of_a_closed_segment(play, tmp_path):
    run = play(tmp_path / "run")
    with analysis.open_run(run) as history:
        page = report_page(history)
        assert 'id="roles-table"' in page
        assert "snapshot of main" in page
        diagnose(history)
        history.ratings(points=20)
        for view in ("payoff", "leaderboard", "learned_from", "matches_by_role", "match_mix"):
            history.sql(f"FROM {view}")
        (live,) = history._live._runs
        for name in ("matches", "seats", "meetings", "ratings"):
            assert not live.tables[name].wanted
            parts = [part for parts in live.tables[name]._sums.parts.values() for part in parts]
            assert all(part.path is None or part.path.parent.name == SUMS for part in parts)
        plan = history.sql("EXPLAIN FROM learned_from").to_string().lower()
        assert "join" not in plan
        assert len(history.sql("FROM matches")) == 24 * 30
        assert live.tables["matches"].wanted


@pytest.mark.slow
def test_a_run_without_sums_gets_them_once_from_its_first_reader(play, tmp_path, monkeypatch):
    run = play(tmp_path / "run", summed=False)
    expected = by_rows(run, monkeypatch)[0]
    assert numbers_of(run) == []
    assert views(run) == expected
    made = numbers_of(run)
    assert len(made) > 4
    monkeypatch.setattr(segment_sums, "make", None)  # not called
    assert views(run) == expected


@pytest.mark.slow
def test_where_sums_cannot_be_written_views_read_the_rows(play, tmp_path, monkeypatch):
    run, calls = play(tmp_path / "run", summed=False), []

    def refuse(*_):
        calls.append(1)
        raise DiskFailed("no room")

    monkeypatch.setattr(segment_sums, "make", refuse)
    expected = by_rows(run, monkeypatch)[0]
    with storage.connect(run) as live:
        for question, answer in zip(ALL, expected, strict=True):
            assert live.sql(question).to_arrow_table().to_pylist() == answer
    assert len(calls) == 1


@pytest.mark.slow
def test_a_reader_makes_none_beside_a_writer_and_takes_up_those_that_this_makes(play, tmp_path, monkeypatch):
    run = play(tmp_path / "run", summed=False)
    expected = by_rows(run, monkeypatch)[0]
    with storage.connect(run) as live:
        question = "SELECT sum(matches) FROM played"
        with Ledger(run / LEDGER, "test") as ledger:
            assert live.sql(question).fetchall() == [(720,)]
            assert numbers_of(run) == []
            before, sums = live.restarts, segment_sums.SegmentSums(ledger)
            while sums.step():
                assert live.sql(question).fetchall() == [(720,)]
        assert len(numbers_of(run)) > 4
        assert live.restarts[0] > before[0]
        for asked, answer in zip(ALL, expected, strict=True):
            assert live.sql(asked).to_arrow_table().to_pylist() == answer


@pytest.mark.slow
def test_damaged_or_foreign_sums_are_made_again(play, tmp_path, monkeypatch):
    run = play(tmp_path / "run")
    expected = by_rows(run, monkeypatch)[0]
    for change in ("flip", "remove", "other rows", "older"):
        (file,) = (run / SUMS).glob("00000003.meetings.parquet")
        if change == "flip":
            flip_bit(file, 0.5)
        elif change == "remove":
            file.unlink()
        elif change == "older":
            monkeypatch.setattr(segment_sums, "VERSION", segment_sums.VERSION + 1)
        else:
            for own in (run / SUMS).glob("00000004.*"):
                shutil.copy(own, own.with_name(own.name.replace("4", "3")))
        before = (run / SUMS / "00000003.json").stat().st_mtime_ns
        assert views(run) == expected
        assert (run / SUMS / "00000003.json").stat().st_mtime_ns > before, change
        assert segment_sums.found(run / LEDGER, Segment.load(run / LEDGER, 3))


@pytest.mark.long
def test_a_death_or_a_failing_disk_while_sums_are_made_changes_no_answer(play, tmp_path, monkeypatch):
    source = play(tmp_path / "source", summed=False)
    expected = by_rows(source, monkeypatch)[0][0]
    effects = itertools.cycle([Effect.DIE_AFTER, Effect.ENOSPC, Effect.DIE_BEFORE])
    for call, effect in zip(itertools.count(2, 29), effects, strict=False):  # of some hundred
        run, disk = shutil.copytree(source, tmp_path / f"run-{call}"), FaultyDisk()
        with Ledger(run / LEDGER, "test") as ledger:
            sums = segment_sums.SegmentSums(ledger)
            disk.plan(Fault(call, effect))
            with using(disk), contextlib.suppress(Killed, DiskFailed, OSError):
                while sums.step():
                    pass
            disk.revive()
            with_writer = storage.query(run, ALL[0]).to_pylist()
        assert with_writer == expected, disk.happened
        assert storage.query(run, ALL[0]).to_pylist() == expected, disk.happened
        shutil.rmtree(run)
        if disk.happened is None:
            break
    assert call > 60


@pytest.mark.slow
@pytest.mark.parametrize("competitors", [5, 400])
def test_sums_are_few_however_many_competitors_met(tmp_path, competitors):
    names = tuple(f"c{i}" for i in range(competitors))
    with Ledger(tmp_path, "test", segment_frames=50) as ledger:
        for i in range(51):
            rng = np.random.default_rng(i)
            seat = rng.integers(competitors, size=(400, 2))
            matches = made_up.matches(names, seat, learning=seat == 0)
            results = made_up.results(matches, rng.permuted([[0, 2]] * 400, axis=1))
            ledger.append(result_tables(results, [], 1 + 400 * i, i + 1))
        ledger.compact()
        (segment,) = ledger.compacted
    sums = {name: len(rows) for name, (rows, _) in sum_up(segment).tables.items()}
    rows = segment.rows("meetings")
    if competitors == 5:
        assert 10 * 20 < sums["meetings"] <= 20 * RESOLUTION
        assert sums["meetings"] + sums["summed_seats"] <= 20_000 // MATCHES_PER_ROW + 50
    else:  # in one stretch: a row for each pair
        pairs = segment.table("meetings").group_by(["home", "away"]).aggregate([])
        assert sums["meetings"] == len(pairs) < rows
    assert sums["summed_matches"] <= 50 * 2


@pytest.mark.slow
def test_the_first_million_matches_have_no_sums(play, tmp_path, monkeypatch):
    monkeypatch.setattr(segment_sums, "LEAST_SEQ", 300)
    run = play(tmp_path / "run")
    firsts = [segment.table("matches")["seq"][-1].as_py() for segment in _with_matches(run)]
    assert firsts[0] < 300 < firsts[-1]
    assert len(numbers_of(run)) == sum(seq >= 300 for seq in firsts)
    assert views(run) == by_rows(run, monkeypatch)[0]


def _with_matches(run):
    segments = [Segment.load(run / LEDGER, 1 + n) for n in range(len(list((run / LEDGER).glob("*.json"))))]
    return [segment for segment in segments if segment.rows("matches")]


def test_numbers_for_texts_take_a_text_that_stands_twice_in_a_dictionary_for_one():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["a", "b", "a"]))
    codes, texts = coded(pa.chunked_array([column]))
    assert texts.take(pa.array(codes)).to_pylist() == ["a", "b", "a", None]
    assert codes[0] == codes[2]
