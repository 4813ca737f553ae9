"""Measurements stay beside the snapshots; what is no measurement is named and left out."""

import dataclasses
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage.errors import Mistake, NotARun
from storage.layout import FORMAT
from storage.snapshots import manifests, sealed_files
from storage.snapshots.measurements import MEASUREMENTS, Measurement, add, files, prepare, read
from storage.upkeep.garbage import collect

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


@pytest.fixture
def run(tmp_path):
    (tmp_path / FORMAT).write_text('{"version": 1}')
    return tmp_path


def test_all_come_back_as_they_were_the_newest_first(run):
    exact = dataclasses.replace(
        FOUND, kind="exact", low=0.25, high=0.25, trained_env_steps=None, created_at=FOUND.created_at + 1
    )
    poorer = dataclasses.replace(
        FOUND, value=0.1, low=0.0, high=0.2, created_at=FOUND.created_at + 2, worth="nothing_learned"
    )
    for measurement in (FOUND, exact, poorer):
        add(run, measurement, {"seeds": 4000})
    assert read(run) == [poorer, exact, FOUND]


def test_a_measurement_of_an_older_version_has_no_known_worth(run):
    fields = dataclasses.asdict(FOUND) | {"details": {}}
    del fields["worth"]
    sealed_files.add(run, MEASUREMENTS, FOUND.snapshot_id, fields, FOUND.kind)
    assert read(run) == [FOUND]
    assert FOUND.worth is None


def test_a_run_that_nobody_measured_has_none_and_what_is_no_run_says_so(run, tmp_path):
    assert read(run) == []
    with pytest.raises(NotARun, match="no file FORMAT"):
        read(tmp_path / "elsewhere")


def test_the_same_measurement_twice_is_one_file(run):
    assert add(run, FOUND) == add(run, FOUND)
    assert len(files(run)) == 1


def test_ids_of_any_kind_get_files_of_their_own_inside_the_folder(run):
    ids = ["a/../../b", "..", "a.b", "a b", "x" * 1000, "ä@1"]
    paths = {add(run, dataclasses.replace(FOUND, snapshot_id=name)) for name in ids}
    assert len(paths) == len(ids)
    assert {path.parent for path in paths} == {run / MEASUREMENTS}
    assert {one.snapshot_id for one in read(run)} == set(ids)


def test_many_processes_may_add_at_once(run):
    many = [dataclasses.replace(FOUND, created_at=float(second)) for second in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: add(run, one), many))
    assert read(run) == many[::-1]


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
        add(run, dataclasses.replace(FOUND, **change))
    assert read(run) == []


def test_any_changed_byte_is_noticed_named_and_left_out(run):
    path, told = add(run, FOUND), []
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        assert read(run, told.append) == []
        assert str(path) in told[-1]
    assert len(told) == len(range(0, len(data), 7))
    path.write_bytes(data)
    assert read(run, told.append) == [FOUND]


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
    (folder / "huge.json").write_bytes(b"[" * 2**21)
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "plain.json").write_text(json.dumps(fields))
    (folder / "empty.json").touch()
    (folder / "folder.json").mkdir()
    (folder / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    return {path.name for path in folder.iterdir()}


def test_a_strangers_files_are_named_and_left_out_and_the_others_still_read(run):
    own, told = add(run, FOUND), []
    names = strangers(own.parent) - {own.name}
    assert read(run, told.append) == [FOUND]
    assert len(told) == len(names) == 12
    assert all(any(name in problem for problem in told) for name in names)


def test_a_link_in_place_of_the_folder_is_refused(run, tmp_path_factory):
    (run / MEASUREMENTS).symlink_to(tmp_path_factory.mktemp("elsewhere"))
    with pytest.raises(Mistake, match="found a link"):
        add(run, FOUND)


def test_a_file_in_place_of_the_folder_is_refused_before_anything_is_measured(run):
    (run / MEASUREMENTS).write_text("mine")
    with pytest.raises(Mistake, match="found a file"):
        prepare(run)


def test_collecting_garbage_leaves_measurements_alone(tmp_path):
    from storage.archive import Archive

    run = tmp_path / "run"
    with Archive.create(run, "name: empty\n", {"name": "empty", "env": "kuhn_poker", "seed": 0}):
        path = add(run, FOUND)  # beside its writer
    assert path not in [found for found, _, _ in collect(run, delete=True).files]
    assert read(run) == [FOUND]
