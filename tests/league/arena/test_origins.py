"""Snapshots come from runs, their remotes, and exported folders, whose manifests may be a stranger's."""

import os
import shutil

import pytest

from league.arena.origins import (
    ExportOrigin,
    RunOrigin,
    open_origin,
)
from league.rollout.snapshots import load_tensors
from league.tournament.entrants import gather, sources_of
from league.tournament.settings import EntrantSource, TournamentSettings, address_of
from league.tournament.soundness import DAMAGE, DamagedCompetitors
from storage.archive import Archive, open_reader
from storage.remote.mirror import local_mirror
from storage.remote.uploader import Uploader
from storage.snapshots.manifests import CorruptManifest, read, seal
from storage.upkeep.exports import MANIFEST, WEIGHTS, export_snapshot


@pytest.fixture
def folder(snapshots_run, tmp_path):
    """main-0@1, exported."""
    reader = open_reader(snapshots_run)
    export_snapshot(reader, reader.resolve("main-0@1"), tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def url(make_run, tmp_path, monkeypatch):
    """The remote of a run that is nowhere else, seen from a node that knows nothing of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run, url = make_run(tmp_path / "away", snapshots=3), f"file://{tmp_path}/store/away"
    with Archive.open(run) as archive:
        Uploader(archive, url).close()
    shutil.rmtree(run)
    return url


def test_an_address_tells_a_run_from_an_export(snapshots_run, folder):
    assert isinstance(open_origin(str(snapshots_run)), RunOrigin)
    assert isinstance(open_origin(str(folder)), ExportOrigin)


def test_one_folder_has_one_address_however_it_is_written(snapshots_run, tmp_path):
    (tmp_path / "link").symlink_to(snapshots_run)
    written = [f"{snapshots_run}/", f"{snapshots_run}/../{snapshots_run.name}", f"{tmp_path}/link"]
    assert {address_of(text) for text in written} == {str(snapshots_run)}


# ---------------------------------------------------------------- remotes


@pytest.mark.slow
def test_a_run_in_an_object_store_takes_part_and_is_found_again(url):
    entries = gather(
        TournamentSettings(competitors=[EntrantSource(run=url, select="env_steps > 0", modes=("greedy",))])
    )
    assert [entrant.competitor for entrant in entries.entrants] == ["main-0@1:greedy", "main-0@2:greedy"]
    assert {entrant.run for entrant in entries.entrants} == {url}
    assert {source.remote for source in entries.sources} == {url}
    assert load_tensors(entries.sources[0])
    assert sources_of(entries.entrants) == entries.sources


@pytest.mark.slow
def test_the_mirror_of_a_store_is_the_store(url):
    mirrored = EntrantSource(run=str(local_mirror(url)), names=("main-0@0",))
    entries = gather(TournamentSettings(competitors=[mirrored, EntrantSource(run=url)]))
    assert [entrant.competitor for entrant in entries.entrants] == ["main-0@0", "main-0@1", "main-0@2"]
    assert {entrant.run for entrant in entries.entrants} == {url}


def test_what_a_store_has_lost_is_damage(url, tmp_path):
    blobs = sorted((tmp_path / "store" / "away" / "objects").rglob("*.safetensors"))
    blobs[0].unlink()
    with pytest.raises(DamagedCompetitors, match=r"^competitors: 1 missing or damaged: main-0@"):
        gather(TournamentSettings(competitors=[EntrantSource(run=url)]))


# ---------------------------------------------------------------- exports


def change(folder, **fields):
    (folder / MANIFEST).write_bytes(seal(read(folder / MANIFEST) | fields))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"env_steps": "9"}, "env_steps: found '9'"),
        ({"env_steps": -1}, "env_steps: found -1"),
        ({"role": "main\nrole"}, "role: .*expected one line of at most 200 characters"),
        ({"player": None}, "player: found None"),
        ({"env": {"id": "tic_tac_toe"}}, "env.options: missing"),
        ({"env": 3}, "env: found 3, expected a group of settings"),
        ({"spec": []}, "spec: found"),
        ({"blob_hash": "../../x"}, "blob_hash is '../../x', expected 64 hexadecimal digits"),
    ],
)
def test_a_manifest_that_says_something_else_is_damaged(folder, fields, told):
    change(folder, **fields)
    with pytest.raises(CorruptManifest, match=told):
        ExportOrigin(str(folder))


@pytest.mark.parametrize("spec", [{}, {"settings": {"architecture": "mlp", "hidden": [8]}}])
def test_a_policy_that_cannot_be_built_is_damage(folder, spec):
    change(folder, spec=spec)
    export = ExportOrigin(str(folder))
    with pytest.raises(DAMAGE, match="cannot be read"):
        export.source(export.chosen([1.0])[0])


def test_weights_that_are_no_plain_file_are_damage_and_not_waited_for(folder):
    (folder / WEIGHTS).unlink()
    os.mkfifo(folder / WEIGHTS)
    with pytest.raises(DamagedCompetitors, match=r"main-0@1 .*no plain file"):
        gather(
            TournamentSettings(
                competitors=[EntrantSource(folder=str(folder)), EntrantSource(bots=("random", "one_ply"))]
            )
        )
