"""What is measured beside the writer stays in the run, and is rows of one table; other files are left out."""

import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import storage
from storage.archive import Archive
from storage.errors import Mistake, NotARun
from storage.records import YardstickRecord
from storage.snapshots import figures, manifests
from storage.snapshots.figures import (
    MEASUREMENTS,
    YARDSTICKS,
    Measurement,
    add_measurement,
    add_yardsticks,
    files,
    measurements,
    prepare,
    rows,
)
from storage.tables import codec
from storage.upkeep.garbage import collect

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
FOUND = Measurement(
    snapshot_id="main-0@120000",
    player="main-0",
    env_steps=120_000,
    league_env_steps=300_000,
    kind="lower_bound",
    value=0.25,
    low=0.2,
    high=0.3,
    unit="score",
    trained_env_steps=1_000_000,
    created_at=1.7e9 + 0.1,
)


def shown(run):
    """The figures on yardsticks in the run's files."""
    tables = [rows(path) for path in files(run, YARDSTICKS)]
    return [record for table in tables for record in codec.records(YardstickRecord, table)]


def measured(run, competitor="main-0@0"):
    return add_measurement(run, dataclasses.replace(FOUND, snapshot_id=competitor))


def compared(run, competitor="main-0@0"):
    return add_yardsticks(run, [dataclasses.replace(FIGURE, competitor=competitor)])


KINDS = pytest.mark.parametrize(("folder", "add"), [(MEASUREMENTS, measured), (YARDSTICKS, compared)])


@KINDS
def test_a_run_has_none_at_first_and_what_is_no_run_says_so(run, tmp_path, folder, add):
    assert (files(run), measurements(run), shown(run)) == ([], [], [])
    for ask in (measurements, add):
        with pytest.raises(NotARun, match="no file FORMAT"):
            ask(tmp_path / "elsewhere")


@KINDS
def test_ids_of_any_kind_get_files_of_their_own_inside_the_folder(run, folder, add):
    ids = ["a/../../b", "..", "a.b", "a b", "x" * 1000, "ä@1"]
    paths = {add(run, name) for name in ids}
    assert len(paths) == len(ids)
    assert {path.parent for path in paths} == {run / folder}
    found = [one.snapshot_id for one in measurements(run)] + [one.competitor for one in shown(run)]
    assert sorted(found) == sorted(ids)


@KINDS
def test_collecting_garbage_leaves_figures_alone(run, folder, add):
    path = add(run)
    collect(run, delete=True)
    assert files(run, folder) == [path]


@KINDS
def test_a_link_in_place_of_the_folder_is_refused(run, tmp_path_factory, folder, add):
    (run / folder).symlink_to(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(Mistake, match="found a link"):
        add(run)


def test_all_come_back_as_they_were_the_newest_first(run):
    exact = dataclasses.replace(
        FOUND, kind="exact", low=0.25, high=0.25, trained_env_steps=None, created_at=FOUND.created_at + 1
    )
    poorer = dataclasses.replace(
        FOUND, value=0.1, low=0.0, high=0.2, created_at=FOUND.created_at + 2, worth="nothing_learned"
    )
    for measurement in (FOUND, exact, poorer):
        add_measurement(run, measurement, {"seeds": 4000})
    assert measurements(run) == [poorer, exact, FOUND]


def test_a_measurement_of_an_older_version_has_no_known_worth(run):
    fields = dataclasses.asdict(FOUND) | {"details": {}}
    del fields["worth"]
    figures._add(run, MEASUREMENTS, FOUND.snapshot_id, fields, FOUND.kind)
    assert measurements(run) == [FOUND]
    assert FOUND.worth is None


def test_the_same_measurement_twice_is_one_file(run):
    assert add_measurement(run, FOUND) == add_measurement(run, FOUND)
    assert len(files(run, MEASUREMENTS)) == 1


def test_many_processes_may_add_at_once(run):
    many = [dataclasses.replace(FOUND, created_at=float(second)) for second in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: add_measurement(run, one), many))
    assert measurements(run) == many[::-1]


@pytest.mark.parametrize(
    "change",
    [
        {"value": float("nan")},
        {"worth": "much"},
        {"value": 0.4},
        {"low": -float("inf")},
        {"high": 1e308},
        {"high": 10**400},
        {"env_steps": -1},
        {"env_steps": True},
        {"league_env_steps": 1.5},
        {"trained_env_steps": 2**63},
        {"kind": "guess"},
        {"snapshot_id": ""},
        {"unit": "two\nlines"},
        {"created_at": "now"},
    ],
)
def test_what_is_no_measurement_is_not_added(run, change):
    with pytest.raises(ValueError, match="no measurement"):
        add_measurement(run, dataclasses.replace(FOUND, **change))
    assert measurements(run) == []


def strangers(folder):
    """Files that a hostile folder may hold, by name."""
    fields = dataclasses.asdict(FOUND) | {"details": {}}
    sealed = {
        "sealed.json": fields | {"kind": "exec"},
        "more.json": fields | {"__class__": "os.system"},
        "less.json": {"snapshot_id": "main-0@1"},
        "typed.json": fields | {"value": [0.25]},
        "details.json": fields | {"details": "rm -rf"},
    }
    for name, content in sealed.items():
        (folder / name).write_bytes(manifests.seal(content))
    (folder / "flipped.json").write_bytes(manifests.seal(fields).replace(b"1000000", b"1000001"))
    (folder / "huge.json").write_bytes(b"[" * 2**21)
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "plain.json").write_text(json.dumps(fields))
    (folder / "empty.json").touch()
    (folder / "folder.json").mkdir()
    (folder / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    return {path.name for path in folder.iterdir()}


def test_a_strangers_files_are_left_out_and_the_others_still_read(run):
    own = add_measurement(run, FOUND)
    assert len(strangers(own.parent) - {own.name}) == 13
    assert measurements(run) == [FOUND]


def test_a_file_in_place_of_the_folder_is_refused_before_anything_is_measured(run):
    (run / MEASUREMENTS).write_text("mine")
    with pytest.raises(Mistake, match="found a file"):
        prepare(run, MEASUREMENTS)


def test_all_figures_on_yardsticks_come_back_as_they_were(run):
    add_yardsticks(run, [FIGURE, KEPT])
    add_yardsticks(run, [KEPT])
    assert sorted(shown(run), key=lambda one: one.measure) == [FIGURE, KEPT, KEPT]


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
def test_a_file_that_holds_no_figures_is_left_out(run, change):
    row = dataclasses.asdict(FIGURE) | change
    path = prepare(run, YARDSTICKS) / "bad.json"
    if change.get("value", 0.0) == change.get("value", 0.0):
        path.write_bytes(manifests.seal({"created_at": 1.0, "figures": [row]}))
    else:
        path.write_text(json.dumps({"created_at": 1.0, "figures": [row]}))
    add_yardsticks(run, [FIGURE])
    assert shown(run) == [FIGURE]


def test_figures_that_could_not_be_read_again_are_refused(run):
    with pytest.raises(ValueError, match="outside its interval"):
        add_yardsticks(run, [dataclasses.replace(FIGURE, value=0.7)])
    assert files(run, YARDSTICKS) == []


@pytest.mark.slow
def test_live_readers_show_those_of_the_ledger_and_those_in_files_as_soon_as_they_are_there(run):
    asked = "SELECT competitor, measure, value, seq FROM yardsticks ORDER BY measure, created_at"
    with Archive.open(run) as archive, storage.connect(run) as live:
        assert live.execute(asked).fetchall() == []
        archive.append_yardsticks([FIGURE])
        assert archive.append_yardsticks([]) == archive._ledger.last_sequence
        assert live.execute(asked).fetchall() == [("main-0@0", "best", 0.5, 0)]
        add_yardsticks(run, [KEPT])
        assert live.execute(asked).fetchall() == [
            ("main-0@0", "best", 0.5, 0),
            ("main-0@0", "kept", 0.6, None),
        ]
    with Archive.open(run) as archive:
        assert archive.yardsticks() == [FIGURE]


@pytest.mark.slow
def test_sql_finds_every_figure_in_one_table_whoever_measured_it(run):
    exact = dataclasses.replace(FOUND, kind="exact", value=0.3, low=0.3, trained_env_steps=None)
    exact = dataclasses.replace(exact, created_at=FOUND.created_at + 1)
    with Archive.open(run) as archive:
        archive.append_yardsticks([FIGURE])
    add_yardsticks(run, [KEPT])
    add_measurement(run, FOUND, {"seeds": 4000})
    add_measurement(run, exact)
    asked = """
        SELECT seq, competitor, yardstick, kind, measure, mode, part, value, low, high, samples
        FROM yardsticks ORDER BY measure, created_at
    """
    gain = ("exploitability", "sample", "all")
    assert [tuple(row.values()) for row in storage.query(run, asked).to_pylist()] == [
        (0, "main-0@0", "positions", "positions", "best", "greedy", "all", 0.5, 0.4, 0.6, 1000),
        (None, FOUND.snapshot_id, "trained response", "lower_bound", *gain, 0.25, 0.2, 0.3, None),
        (None, FOUND.snapshot_id, "best response", "exact", *gain, 0.3, 0.3, 0.3, None),
        (None, "main-0@0", "positions", "positions", "kept", "greedy", "all", 0.6, 0.4, 0.6, 1000),
    ]
    count = "SELECT count(*) AS n FROM yardsticks WHERE measure = 'exploitability'"
    assert storage.query(run, count).to_pylist() == [{"n": 2}]
    assert storage.query(run, count, as_of="2023-11-14 22:13:20.5").to_pylist() == [{"n": 1}]


def test_a_measurement_of_any_time_is_a_row_that_sql_can_show(run):
    for created_at in (-1e12, 1e12):
        add_measurement(run, dataclasses.replace(FOUND, created_at=created_at))
    asked = "SELECT year(created_at) AS year FROM yardsticks ORDER BY created_at"
    assert storage.query(run, asked)["year"].to_pylist() == [1970, 9999]
