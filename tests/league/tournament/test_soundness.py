"""Policies are looked at before they play: their weights are there, whole, and fit their networks."""

import dataclasses

import pytest

from league.models.networks.networks import BadNetwork
from league.models.spec import PolicySettings
from league.tournament.entrants import gather
from league.tournament.settings import EntrantSource, TournamentSettings
from league.tournament.soundness import find_damaged
from storage.errors import WeightsMismatch
from storage.remote.remote import RemoteFailed


@pytest.fixture(scope="module")
def source(snapshots_run):
    return gather(TournamentSettings(competitors=[EntrantSource(run=str(snapshots_run))])).sources[0]


def with_settings(source, **settings):
    spec = dataclasses.replace(source.spec, settings=PolicySettings(**settings))
    return dataclasses.replace(source, spec=spec)


def test_weights_of_another_network_are_damage(source):
    sources = {"wide": with_settings(source, hidden=(9,)), "own": source}
    damaged = find_damaged(sources)
    assert list(damaged) == ["wide"]
    assert "wants" in damaged["wide"] or "expected" in damaged["wide"]


def test_a_file_is_vouched_for_by_itself_alone(source, tmp_path):
    """Two sources of the same weights are equal, yet one of their files may be damaged."""
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(b"\0" * 100)
    copied = dataclasses.replace(source, path=str(copy))
    assert copied == source
    assert list(find_damaged({"own": source, "copy": copied})) == ["copy"]


def test_code_that_nobody_here_has_named_is_no_damage(source):
    theirs = with_settings(source, torso="their_networks:Net")
    with pytest.raises(WeightsMismatch, match="if you trust it, give --trust their_networks:Net"):
        find_damaged({"a": source, "b": theirs})


def test_code_that_is_not_there_is_no_damage(source, monkeypatch):
    monkeypatch.setattr("league.import_paths._TRUSTED", {"no_such_module:Net"})
    with pytest.raises(BadNetwork, match="module 'no_such_module' cannot be imported"):
        find_damaged({"a": with_settings(source, torso="no_such_module:Net")})


def test_a_store_that_cannot_be_reached_leaves_nobody_out(source, monkeypatch):
    def unreachable(*_):
        raise RemoteFailed("s3://bucket: no answer")

    monkeypatch.setattr("league.competitors.names.load_tensors", unreachable)
    with pytest.raises(RemoteFailed):
        find_damaged({"a": source})
