"""Exported folders as a stranger might make them: each function makes one out of an honest one.

The stranger knows how manifests are sealed and weights are hashed, and wants code to run, files to be
written elsewhere, secrets to be read, or memory to run out. `canary` is a file that code would make.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from storage.snapshots.blobs import MAX_HEADER_BYTES, hash_of
from storage.snapshots.manifests import seal
from storage.upkeep.exports import MANIFEST, WEIGHTS

Attack = Callable[[Path, Path], object]  # of a folder, with a canary


class Bomb:
    """Unpickled, it makes the canary."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self._canary), "w")


def fields(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_bytes())


def say(folder: Path, **changes: Any) -> None:
    """The manifest with other fields, sealed well."""
    (folder / MANIFEST).write_bytes(seal(fields(folder) | changes))


def weigh(folder: Path, data: bytes, **changes: Any) -> None:
    """Other weights, their size and hash in the manifest."""
    replace(folder / WEIGHTS, data)
    say(folder, blob_hash=hash_of(data), bytes=len(data), **changes)


def head(folder: Path, header: str | bytes, data: bytes = bytes(8), size: int | None = None) -> None:
    """Weights with that header, which says it is of `size` bytes."""
    header = header.encode() if isinstance(header, str) else header
    weigh(folder, struct.pack("<Q", len(header) if size is None else size) + header + data)


def tensor(folder: Path, dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> None:
    """One tensor `a`, told in the header and in the manifest."""
    told = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}})
    head(folder, told)
    say(folder, tensors={"a": {"dtype": "float32", "shape": shape}})


def replace(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def link(path: Path, target: str | Path) -> None:
    path.unlink()
    path.symlink_to(target)


def elsewhere(path: Path) -> None:
    """The very file, but beside the folder, and a link to it."""
    path.symlink_to(path.rename(path.parent.with_name(f"{path.parent.name}-{path.name}")))


def torch_save(canary: Path) -> bytes:
    file = io.BytesIO()
    torch.save({"a": torch.ones(2), "b": Bomb(canary)}, file)
    return file.getvalue()


def zip_bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(64 * 2**20))
    return file.getvalue()


def spec(folder: Path, **changes: Any) -> dict[str, Any]:
    found = fields(folder)["spec"]
    return found | changes


def network(folder: Path, path: str) -> None:
    """Built from `module:Class`, in every place that says so."""
    settings = spec(folder)["settings"] | {"architecture": path, "options": {"command": "touch canary"}}
    say(folder, architecture=path, spec=spec(folder, settings=settings))


def module_beside(folder: Path, canary: Path) -> None:
    """Python files where an import would look for them, named by the manifest."""
    for name in ("canary_network.py", "sitecustomize.py", "conftest.py", "__init__.py"):
        (folder / name).write_text(f"open({str(canary)!r}, 'w')\nclass Network: ...\n")
    network(folder, "canary_network:Network")


_OTHER = (
    '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":%s}}'
)

REFUSED: dict[str, Attack] = {
    # weights that are none
    "a pickle for weights": lambda d, c: weigh(d, pickle.dumps(Bomb(c))),
    "a file of torch.save for weights": lambda d, c: weigh(d, torch_save(c)),
    "a zip bomb for weights": lambda d, c: weigh(d, zip_bomb()),
    "no weights": lambda d, c: (d / WEIGHTS).unlink(),
    "empty weights": lambda d, c: weigh(d, b""),
    "weights of another snapshot": lambda d, c: replace(d / WEIGHTS, (d / WEIGHTS).read_bytes()[:-1] + b"\1"),
    "a terabyte of nothing": lambda d, c: (os.chmod(d / WEIGHTS, 0o644), os.truncate(d / WEIGHTS, 2**40)),
    "a terabyte of nothing, as the manifest says": lambda d, c: (
        os.chmod(d / WEIGHTS, 0o644),
        os.truncate(d / WEIGHTS, 2**40),
        say(d, bytes=2**40),
    ),
    # headers that lie
    "a header of 2**63 bytes": lambda d, c: head(d, "{}", size=2**63),
    "a header of 2**64 - 1 bytes": lambda d, c: head(d, "{}", size=2**64 - 1),
    "a header of 20 MB": lambda d, c: head(d, b"{" + b" " * 20_000_000 + b"}"),
    "the longest header, of empty lists": lambda d, c: head(
        d, b'{"a":[' + b"[]," * (MAX_HEADER_BYTES // 3 - 10) + b"[]]}"
    ),
    "a header of nested lists": lambda d, c: head(d, b"[" * 1_000_000),
    "a header of nested tables": lambda d, c: head(d, '{"a":' * 900 + "0" + "}" * 900),
    "a header of UTF-16": lambda d, c: head(d, "{}".encode("utf-16")),
    "a header with names given twice": lambda d, c: head(d, '{"a":1,"a":2}'),
    "a header of a number with a million digits": lambda d, c: head(d, '{"a":' + "9" * 1_000_000 + "}"),
    "a tensor of an unknown kind": lambda d, c: tensor(d, dtype="PY_OBJECT"),
    "a tensor of a kind that is a list": lambda d, c: tensor(d, dtype=["F32"]),
    "a tensor of negative size": lambda d, c: tensor(d, shape=(-1, -2)),
    "a tensor of half a row": lambda d, c: tensor(d, shape=(0.5, 4)),
    "a tensor of True rows": lambda d, c: tensor(d, shape=(True, 2)),
    "a tensor of 2**62 rows": lambda d, c: tensor(d, shape=(2**62,), offsets=(0, 2**64)),
    "a tensor of nothing, 2**62 times": lambda d, c: tensor(d, shape=(2**62, 2**62, 0), offsets=(0, 0)),
    "a tensor of a million axes": lambda d, c: tensor(d, shape=(1,) * 1_000_000, offsets=(0, 4)),
    "a tensor of NaN rows": lambda d, c: head(d, '{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}'),
    "a tensor of 1e999 rows": lambda d, c: head(
        d, '{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,8]}}'
    ),
    "a tensor before the file": lambda d, c: tensor(d, offsets=(-8, 0)),
    "a tensor behind the file": lambda d, c: tensor(d, offsets=(2**40, 2**40 + 8)),
    "a tensor from its end to its beginning": lambda d, c: tensor(d, offsets=(8, 0)),
    "tensors over one another": lambda d, c: head(d, _OTHER % "[0,8]"),
    "tensors with a hole between": lambda d, c: head(d, _OTHER % "[8,16]", bytes(16)),
    "bytes behind the tensors": lambda d, c: head(d, _OTHER % "[4,12]", bytes(100)),
    "tensors that the manifest does not have": lambda d, c: say(d, tensors={}),
    # manifests that are none
    "a pickle for a manifest": lambda d, c: replace(d / MANIFEST, pickle.dumps(Bomb(c))),
    "an empty manifest": lambda d, c: replace(d / MANIFEST, b""),
    "a manifest of nested lists": lambda d, c: replace(d / MANIFEST, b"[" * 1_000_000),
    "a manifest of 20 MB": lambda d, c: replace(d / MANIFEST, b'{"a":"' + b" " * 20_000_000 + b'"}'),
    "a manifest of a terabyte": lambda d, c: (
        (d / MANIFEST).write_bytes(b""),
        os.truncate(d / MANIFEST, 2**40),
    ),
    "a manifest changed by hand": lambda d, c: replace(
        d / MANIFEST, (d / MANIFEST).read_bytes().replace(b'"updates":', b'"updates":1')
    ),
    # ids and hashes that are paths
    "an id with a line break": lambda d, c: say(d, snapshot_id="main-0@1\n[done] all is well"),
    "an id with colours": lambda d, c: say(d, snapshot_id="\x1b[2J\x1b[31mmain-0@1"),
    "an id that turns the line": lambda d, c: say(d, snapshot_id="main-0\u202e1@0-niam"),
    "an id that nobody sees": lambda d, c: say(d, snapshot_id="\u200b\u200b"),
    "an id with a zero": lambda d, c: say(d, snapshot_id="main-0\0"),
    "an id of half a character": lambda d, c: say(d, snapshot_id="\ud800"),
    "an id of a million characters": lambda d, c: say(d, snapshot_id="x" * 1_000_000),
    "an id of ten million characters": lambda d, c: say(d, snapshot_id="x" * 10_000_000),
    "an id that is a path of Windows": lambda d, c: say(d, snapshot_id="C:\\outside"),
    "an empty id": lambda d, c: say(d, snapshot_id=""),
    "an id that is a number": lambda d, c: say(d, snapshot_id=7),
    "an id that is a table": lambda d, c: say(d, snapshot_id={"__class__": "str"}),
    "the id of a player of the run": lambda d, c: say(d, snapshot_id="main-0"),
    "the id of a snapshot of the run": lambda d, c: weigh(
        d, (d / WEIGHTS).read_bytes()[:-1] + b"\1", snapshot_id="main-0@0"
    ),
    "a hash that is a path": lambda d, c: say(d, blob_hash="../../../../etc/passwd"),
    "a hash that is an absolute path": lambda d, c: say(d, blob_hash="/etc/passwd"),
    "a hash in capitals": lambda d, c: say(d, blob_hash=fields(d)["blob_hash"].upper()),
    "a hash with a line break": lambda d, c: say(d, blob_hash=fields(d)["blob_hash"] + "\n"),
    "a hash of other digits": lambda d, c: say(d, blob_hash="\N{FULLWIDTH DIGIT ONE}" * 64),
    "no hash": lambda d, c: say(d, blob_hash=None),
    # fields of the wrong kind
    "a size below zero": lambda d, c: say(d, bytes=-1),
    "a size of 2**70": lambda d, c: say(d, bytes=2**70),
    "a size in words": lambda d, c: say(d, bytes="8"),
    "steps of True": lambda d, c: say(d, env_steps=True),
    "steps of 1e3": lambda d, c: say(d, env_steps=1e3),
    "a licence of many lines": lambda d, c: say(d, license="MIT\n" * 100),
    "a format of tomorrow": lambda d, c: say(d, format=2),
    "a parent that is a list": lambda d, c: say(d, parent_id=["main-0@0"]),
    "tensors that are a list": lambda d, c: say(d, tensors=[["a", "float32"]]),
    "a spec that is a list": lambda d, c: say(d, spec=["settings"]),
    "another network in the spec": lambda d, c: say(
        d, spec=spec(d, settings=spec(d)["settings"] | {"architecture": "os:system"})
    ),
    # code by its name
    "a network named os:system": lambda d, c: network(d, "os:system"),
    "a network named subprocess:Popen": lambda d, c: network(d, "subprocess:Popen"),
    "a network in the folder itself": lambda d, c: module_beside(d, c),
    # another game
    "another game": lambda d, c: say(d, env={"id": "connect_four", "options": {}}),
    "no game": lambda d, c: say(d, env=None),
    "another observation": lambda d, c: say(d, spec=spec(d, observation={"shape": [3], "dtype": "float32"})),
    "another action": lambda d, c: say(d, spec=spec(d, action={"kind": "discrete", "sizes": [2**62]})),
    "no spaces": lambda d, c: say(d, spec={"settings": spec(d)["settings"]}),
    # what is no plain file
    "weights that are a link to them": lambda d, c: elsewhere(d / WEIGHTS),
    "weights that are a link to a secret": lambda d, c: link(d / WEIGHTS, "/etc/passwd"),
    "weights that are a link to themselves": lambda d, c: link(d / WEIGHTS, WEIGHTS),
    "weights that are a link to a device": lambda d, c: link(d / WEIGHTS, "/dev/zero"),
    "weights that are a secret by another name": lambda d, c: (
        (secret := d.with_name(f"secret-{d.name}")).write_text("root:x:0:0"),
        (d / WEIGHTS).unlink(),
        (d / WEIGHTS).hardlink_to(secret),
    ),
    "weights that are a pipe": lambda d, c: ((d / WEIGHTS).unlink(), os.mkfifo(d / WEIGHTS)),
    "weights that are a socket": lambda d, c: (
        (d / WEIGHTS).unlink(),
        os.mknod(d / WEIGHTS, stat.S_IFSOCK | 0o600),
    ),
    "weights that are a folder": lambda d, c: ((d / WEIGHTS).unlink(), (d / WEIGHTS).mkdir()),
    "a manifest that is a link to it": lambda d, c: elsewhere(d / MANIFEST),
    "a manifest that is a link to a secret": lambda d, c: link(d / MANIFEST, "/etc/passwd"),
    "a manifest that is a link to a device": lambda d, c: link(d / MANIFEST, "/dev/zero"),
    "a manifest that is a pipe": lambda d, c: ((d / MANIFEST).unlink(), os.mkfifo(d / MANIFEST)),
    "a manifest that is a folder": lambda d, c: ((d / MANIFEST).unlink(), (d / MANIFEST).mkdir()),
}
"""What must be refused."""

TAKEN: dict[str, Attack] = {
    "an id that is a path upwards": lambda d, c: say(d, snapshot_id="../../../../outside"),
    "an id that is an absolute path": lambda d, c: say(d, snapshot_id="/tmp/outside"),
    "an id of two dots": lambda d, c: say(d, snapshot_id=".."),
    "an id that is a home": lambda d, c: say(d, snapshot_id="~root/a"),
    "an id as long as may be": lambda d, c: say(d, snapshot_id="x" * 200),
    "an id that is SQL": lambda d, c: say(d, snapshot_id="x'; DROP TABLE snapshots; --"),
    "names of Python and JavaScript": lambda d, c: say(
        d,
        **{"snapshot_id": "__class__", "__proto__": {"polluted": True}, "__reduce__": ["os.system", "true"]},
    ),
    "a connector that nobody knows": lambda d, c: say(
        d,
        snapshot_id="connector",
        spec=spec(d, settings=spec(d)["settings"] | {"connectors": [{"kind": "exec", "code": "1/0"}]}),
    ),
}
"""What may be taken in, as nothing but data."""
