"""A reader needs no lock and reads no more than it is asked for."""

import builtins
import os

import pytest

from storage.archive import Archive
from storage.errors import CorruptLedger, NotARun, UnknownSnapshot
from storage.reader import open_reader
from storage.records import MAIN, Bot, LivePlayer

SPEC = {"architecture": "mlp", "hidden": [4]}


def test_a_unique_prefix_names_a_snapshot_and_others_are_explained(run, weights):
    with Archive.open(run) as archive:
        for env_steps in (100, 150, 200):
            archive.add_snapshot("main-0", MAIN, env_steps, 1, "main-0@0", weights, SPEC, "mlp", "due")
    reader = open_reader(run)
    assert reader.resolve("main-0@2").snapshot_id == "main-0@200"
    assert reader.resolve("main-0@0").snapshot_id == "main-0@0"
    with pytest.raises(UnknownSnapshot, match="'main-0@1' fits 2 snapshots: main-0@100, main-0@150"):
        reader.resolve("main-0@1")
    with pytest.raises(UnknownSnapshot, match="no snapshot 'mian-0@200'; nearest: main-0@200"):
        reader.resolve("mian-0@200")


def test_a_reader_works_while_the_run_is_written(run, weights):
    with Archive.open(run) as archive:
        archive.add_snapshot("main-0", MAIN, 5, 1, "main-0@0", weights, SPEC, "mlp", "due")
        reader = open_reader(run)
        assert [s.snapshot_id for s in reader.snapshots()] == ["main-0@0", "main-0@5"]
        assert reader.players() == [LivePlayer("main-0", MAIN)]
        assert reader.bots() == [Bot("random")]
        assert reader.config() == {"env": {"id": "connect_four"}}


def test_settings_that_cannot_be_read_are_one_sentence(run):
    (run / "config.yaml").write_text("a: [")
    with pytest.raises(NotARun, match=r"config\.yaml: the run's settings cannot be read: [^\n]*$"):
        open_reader(run).config()
    (run / "config.yaml").unlink()
    with pytest.raises(NotARun, match="No such file"):
        open_reader(run).config()


def test_the_game_is_told_with_its_options_also_when_there_are_none(run):
    assert open_reader(run).env() == {"id": "connect_four", "options": {}}
    (run / "config.yaml").write_text("env: {id: x, options: {rows: 5}}\n")
    assert open_reader(run).env() == {"id": "x", "options": {"rows": 5}}


def test_whoever_is_in_the_run_is_found_by_id(run):
    reader = open_reader(run)
    assert reader.find("main-0") == LivePlayer("main-0", MAIN)
    assert reader.find("main-0@0") == reader.snapshots()[0]
    assert reader.find("main") is None


def test_opening_reads_neither_manifests_nor_blobs(run, monkeypatch):
    opened = []
    monkeypatch.setattr(
        builtins, "open", lambda path, *rest, real=open: opened.append(path) or real(path, *rest)
    )
    monkeypatch.setattr(
        os, "open", lambda path, *rest, real=os.open: opened.append(path) or real(path, *rest)
    )
    reader = open_reader(run)
    assert len(reader.snapshots()) == 1
    assert opened
    assert not [path for path in opened if "manifests" in str(path) or "objects" in str(path)]
    reader.manifest("main-0@0")
    assert "manifests" in str(opened[-1])


def test_what_is_no_run_or_has_lost_frames_is_refused(run):
    with pytest.raises(NotARun, match="made by: league train"):
        open_reader(run / "ledger")
    (run / "ledger" / "00000001.journal").rename(run / "ledger" / "00000002.journal")
    with pytest.raises(CorruptLedger, match="it is missing"):
        open_reader(run)
    (run / "ledger").rename(run / "lost")
    with pytest.raises(NotARun, match="no folder ledger in it, the run's facts are lost"):
        open_reader(run)
