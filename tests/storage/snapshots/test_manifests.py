"""A manifest comes back as it was sealed, or not at all."""

import json
import os
import tracemalloc

import pytest

from storage.snapshots.manifests import CHECKSUM, MAX_BYTES, MAX_DEPTH, CorruptManifest, parse, read, seal

FIELDS = {
    "snapshot_id": "main-0@5",
    "parent_id": None,
    "env_steps": 5,
    "created_at": 1.7e9 + 1e-7,
    "evidence": {"win_rate": 0.71, "steps": "inf"},
    "spec": {"hidden": [4, 4], "name": "Gegenüber \u202e \ud800"},
}


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_bytes(seal(FIELDS))
    return path


def test_a_manifest_comes_back_equal_and_is_plain_json_for_others(manifest):
    assert read(manifest) == FIELDS
    assert json.loads(manifest.read_text()).keys() - FIELDS.keys() == {CHECKSUM}


def test_equal_fields_are_equal_bytes_and_sealing_again_changes_nothing(manifest):
    assert seal(dict(reversed(FIELDS.items()))) == seal(FIELDS)
    assert seal(json.loads(manifest.read_bytes())) == manifest.read_bytes()


def test_what_json_lacks_is_not_sealed():
    with pytest.raises(ValueError, match="not JSON compliant"):
        seal({"win_rate": float("nan")})


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"env_steps":5', b'"env_steps":6'),
        lambda data: data.replace(b'"env_steps":5', b'"env_steps":5.0'),
        lambda data: data.replace(b'"env_steps":5', b'"env_steps": 5'),
        lambda data: data.replace(b'"env_steps":5', b'"env_steps":5,"env_steps":5'),
        lambda data: data.replace(CHECKSUM.encode(), b"checkers"),
        lambda data: data.replace(b'"inf"', b"Infinity"),
        lambda data: data.replace(b"null", b"9" * 5000),
        lambda data: data + b"\n",
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.decode().encode("utf-16"),
        lambda data: data[:-1],
        lambda data: json.dumps(json.loads(data), indent=1).encode(),
        lambda data: b"",
        lambda data: b"[]",
        lambda data: b"\xff" * 100,
        lambda data: b"[" * 100_000,
        lambda data: b'{"a":' * 900 + b"0" + b"}" * 900,
    ],
)
def test_any_other_spelling_or_content_is_refused(manifest, change):
    manifest.write_bytes(change(manifest.read_bytes()))
    with pytest.raises(CorruptManifest, match=r"manifest\.json: .*restore it from a copy"):
        read(manifest)


def test_depth_is_bounded(manifest):
    def nested(levels):
        return {"spec": nested(levels - 1)} if levels > 1 else {}

    manifest.write_bytes(seal(nested(MAX_DEPTH)))
    assert read(manifest) == nested(MAX_DEPTH)
    manifest.write_bytes(seal(nested(MAX_DEPTH + 1)))
    with pytest.raises(CorruptManifest, match=f"at most {MAX_DEPTH} levels"):
        read(manifest)


def test_bytes_from_elsewhere_are_held_to_the_same_bounds():
    assert parse(seal(FIELDS), "there") == FIELDS
    with pytest.raises(CorruptManifest, match=f"there: .* expected at most {MAX_BYTES}"):
        parse(b" " * (MAX_BYTES + 1), "there")


def test_only_a_plain_file_of_bounded_size_is_read(manifest, tmp_path):
    os.symlink(manifest, tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2**40)
    tracemalloc.start()
    try:
        for name in ("link", "pipe", "folder", "large", "nowhere"):
            with pytest.raises(CorruptManifest, match=name):
                read(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
