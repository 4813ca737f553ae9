"""Figures measured beside the writer are kept in the run; live readers show them with the ledger's."""

import dataclasses
import json
import os

import pytest

import storage
from storage.archive import Archive
from storage.errors import Mistake, NotARun
from storage.records import YardstickRecord
from storage.snapshots import manifests
from storage.snapshots.yardsticks import YARDSTICKS, add, files, prepare, read
from storage.upkeep.garbage import collect

pytestmark = pytest.mark.slow

FIGURE = YardstickRecord(
    competitor="main-0@0",
    yardstick="positions",
    kind="positions",
    measure="best",
    mode="greedy",
    part="all",
    value=0.5,
    low=0.4,
    high=0.6,
    samples=1000,
)
KEPT = dataclasses.replace(FIGURE, measure="kept", value=0.6)


def test_all_come_back_as_they_were_the_oldest_first(run):
    add(run, [FIGURE, KEPT])
    add(run, [KEPT])
    assert [figure for _, figure in read(run)] == [FIGURE, KEPT, KEPT]
    times = [time for time, _ in read(run)]
    assert times == sorted(times)


def test_a_run_without_figures_has_none_and_what_is_no_run_says_so(run, tmp_path):
    assert read(run) == []
    with pytest.raises(NotARun, match="no file FORMAT"):
        add(tmp_path / "elsewhere", [FIGURE])


def test_ids_of_any_kind_get_files_of_their_own_inside_the_folder(run):
    ids = ["a/../../b", "..", "a.b", "x" * 1000]
    paths = {add(run, [dataclasses.replace(FIGURE, competitor=name)]) for name in ids}
    assert len(paths) == len(ids)
    assert {path.parent for path in paths} == {run / YARDSTICKS}


@pytest.mark.parametrize(
    "change",
    [
        {"value": float("nan")},
        {"value": 0.7},
        {"low": -0.1},
        {"samples": 0},
        {"samples": 1.0},
        {"part": ""},
        {"competitor": "a\nb"},
        {"extra": 1},
    ],
)
def test_a_file_that_holds_no_figures_is_named_and_left_out(run, change):
    row = dataclasses.asdict(FIGURE) | change
    path = prepare(run) / "bad.json"
    if change.get("value", 0.0) == change.get("value", 0.0):
        path.write_bytes(manifests.seal({"created_at": 1.0, "figures": [row]}))
    else:
        path.write_text(json.dumps({"created_at": 1.0, "figures": [row]}))
    add(run, [FIGURE])
    told = []
    assert [figure for _, figure in read(run, told.append)] == [FIGURE]
    assert len(told) == 1
    assert "bad.json" in told[0]


def test_figures_that_could_not_be_read_again_are_refused(run):
    with pytest.raises(ValueError, match="outside its interval"):
        add(run, [dataclasses.replace(FIGURE, value=0.7)])
    assert files(run) == []


def test_a_link_in_place_of_the_folder_is_refused(run, tmp_path):
    os.symlink(tmp_path, run / YARDSTICKS)
    with pytest.raises(Mistake, match="found a link"):
        prepare(run)


def test_collecting_garbage_leaves_them(run):
    add(run, [FIGURE])
    collect(run, delete=True)
    assert len(read(run)) == 1


def test_live_readers_show_those_of_the_ledger_and_of_files_as_soon_as_there(run):
    asked = "SELECT competitor, measure, value, seq FROM yardsticks ORDER BY measure, created_at"
    with Archive.open(run) as archive, storage.connect(run) as live:
        assert live.execute(asked).fetchall() == []
        archive.append_yardsticks([FIGURE])
        assert archive.append_yardsticks([]) == archive._ledger.last_sequence
        assert live.execute(asked).fetchall() == [("main-0@0", "best", 0.5, 0)]
        add(run, [KEPT])
        assert live.execute(asked).fetchall() == [
            ("main-0@0", "best", 0.5, 0),
            ("main-0@0", "kept", 0.6, None),
        ]
        assert archive.yardsticks() == [FIGURE]


def test_as_of_a_time_only_older_figures_are_shown(run):
    add(run, [FIGURE])
    count = "SELECT count(*) AS n FROM yardsticks"
    assert storage.query(run, count).to_pylist() == [{"n": 1}]
    assert storage.query(run, count, as_of="2001-01-01").to_pylist() == [{"n": 0}]
    assert storage.query(run, count, as_of="2101-01-01").to_pylist() == [{"n": 1}]


def test_figures_of_the_ledger_come_back_when_the_run_is_opened(run):
    with Archive.open(run) as archive:
        archive.append_yardsticks([FIGURE, KEPT])
    with Archive.open(run) as archive:
        assert archive.yardsticks() == [FIGURE, KEPT]
