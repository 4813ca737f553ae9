"""First weights from elsewhere: taken over to the bit, or refused before anything begins."""

import shutil

import pytest

import league
from league.config.file import ConfigError
from league.config.loading import load
from storage.archive import open_reader
from storage.errors import CorruptBlob, Mistake, WeightsMismatch
from storage.upkeep.exports import export_snapshot
from tests.steps import flip_bit

pytestmark = pytest.mark.slow

BASE = {
    "name": "second",
    "env": {"id": "tic_tac_toe"},
    "policy": {"hidden": [16]},
    "league": {"freeze_every": 600, "players": {"main": 1, "main_exploiter": 1}},
    "rollout": {"slots": 64, "matches_per_request": 64},
    "learner": {"batch_steps": 256},
    "stop": {"env_steps": 1500},
}


def config(*entries, **changes):
    return {**BASE, **changes, "init_from": list(entries)}


def newest(run, player="main-0"):
    return [s for s in open_reader(run).snapshots() if s.player == player][-1]


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "best"
    reader = open_reader(trained)
    export_snapshot(reader, newest(trained), folder)
    return folder


def test_first_weights_are_those_of_the_snapshot_and_of_the_exported_folder(trained, exported, tmp_path):
    run = league.train(
        config(
            {"player": "main-0", "run": str(trained), "snapshot": "main-0"},
            {"player": "main_exploiter-0", "folder": str(exported)},
        ),
        tmp_path / "run",
    )
    source = newest(trained)
    reader = open_reader(run)
    for player in ("main-0", "main_exploiter-0"):
        first = reader.resolve(f"{player}@0")
        assert first.blob_hash == source.blob_hash
        assert source.snapshot_id in first.reason
    last = newest(run)
    assert last.env_steps > 0
    assert last.blob_hash != source.blob_hash  # and it goes on learning


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"player": "nobody", "folder": "x"}], ["'nobody' is no player of this league", "main_exploiter-0"]),
        (
            [{"player": "main-0", "folder": "x"}, {"player": "main-0", "folder": "y"}],
            ["'main-0' is named twice"],
        ),
        ([{"player": "main-0"}], ["found nothing", "expected run and snapshot, or folder alone"]),
        ([{"player": "main-0", "run": "x"}], ["found run x", "expected run and snapshot"]),
        ([{"player": "main-0", "run": "x", "snapshot": "y", "folder": "z"}], ["expected run and snapshot"]),
    ],
)
def test_a_source_that_is_unclear_is_refused_by_name(entries, said):
    with pytest.raises(ConfigError) as caught:
        load(config(*entries))
    assert all(part in str(caught.value) for part in said), caught.value


def test_what_does_not_fit_is_refused_before_anything_is_written(trained, exported, tmp_path):
    entry = {"player": "main-0", "run": str(trained), "snapshot": "main-0"}
    run = tmp_path / "run"
    for changes, said in [
        ({"policy": {"hidden": [8]}}, r"policy.hidden is \[16\], expected \[8\]"),
        ({"policy": {"hidden": [16], "activation": "tanh"}}, "policy.activation is 'relu', expected 'tanh'"),
        ({"env": {"id": "connect_four"}}, r"observation shape is \(.*\), expected \(2, 7, 6\)"),
    ]:
        with pytest.raises(WeightsMismatch, match=said):
            league.train(config(entry, **changes), run)
        assert not run.exists()
    with pytest.raises(Mistake, match="'random' is a bot"):
        league.train(config({**entry, "snapshot": "random"}), run)
    with pytest.raises(Mistake, match="nearest"):
        league.train(config({**entry, "snapshot": "main-7"}), run)
    with pytest.raises(Mistake, match="expected a folder made by"):
        league.train(config({"player": "main-0", "folder": str(tmp_path / "none")}), run)
    assert not run.exists()


def test_damaged_weights_are_never_begun_from(exported, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(exported, copied)
    weights = copied / "weights.safetensors"
    flip_bit(weights)
    with pytest.raises(CorruptBlob):
        league.train(config({"player": "main-0", "folder": str(copied)}), tmp_path / "run")
