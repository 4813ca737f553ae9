"""What storage makes of damaged files, mutant by mutant; run by `limited`. All return counts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import torch

from storage.disk import using
from storage.errors import CorruptBlob, CorruptLedger
from storage.ledger.frames import decode
from storage.ledger.ledger import Follower, Frame, Ledger, read_frames, read_tables
from storage.snapshots import blobs, manifests
from tests.bench.storage_results import Unsynced
from tests.storage.hostile.mutations import mutant


def take(size: int) -> int:
    """Bytes of memory, to see whether there is a limit."""
    return len(bytearray(size))


def blob_mutants(folder: str, first_seed: int, count: int) -> dict[str, int]:
    """Both ways to read a blob with verification, and the one without."""
    torch.set_num_threads(1)
    tensors = {
        "torso.weight": torch.randn(64, 16, generator=torch.Generator().manual_seed(0)),
        "torso.bias": torch.zeros(64, dtype=torch.float64),
        "mask": torch.ones(7, dtype=torch.bool),
        "steps": torch.tensor(3),
    }
    blob_hash, _ = blobs.publish(Path(folder), tensors)
    path = blobs.blob_path(Path(folder), blob_hash)
    data, found = path.read_bytes(), Counter[str]()
    for seed in range(first_seed, first_seed + count):
        _replace(path, mutant(data, seed))
        try:
            blobs.verify(path)
            found["verified"] += 1
        except CorruptBlob:
            found["refused by verify"] += 1
        try:
            blobs.map_tensors(path, verify=True)
            found["mapped"] += 1
        except CorruptBlob:
            found["refused by map_tensors"] += 1
        try:
            mapped = blobs.map_tensors(path, verify=False)
            assert sum(t.numel() * t.element_size() for t in mapped.values()) < path.stat().st_size, seed
            for tensor in mapped.values():
                tensor.clone()  # every byte is read: outside the file this would be a SIGBUS
            found["mapped unverified"] += 1
        except CorruptBlob:
            found["refused unverified"] += 1
    return dict(found)


def manifest_mutants(folder: str, first_seed: int, count: int) -> dict[str, int]:
    """Reading a manifest."""
    path = Path(folder) / "manifest.json"
    fields = {
        "snapshot_id": "main-0@120000",
        "blob_hash": "5f" * 32,
        "env_steps": 120_000,
        "created_at": 1.7e9 + 1e-6,
        "spec": {"settings": {"architecture": "mlp", "hidden": [64, 64]}},
        "tensors": {f"torso.{i}.weight": {"dtype": "float32", "shape": [64, 64]} for i in range(8)},
    }
    data, found = manifests.seal(fields), Counter[str]()
    for seed in range(first_seed, first_seed + count):
        _replace(path, mutant(data, seed))
        try:
            manifests.read(path)
            found["accepted"] += 1
        except manifests.CorruptManifest as error:
            found["refused" if "\n" not in str(error) else "refused in several lines"] += 1
    return dict(found)


def journal_mutants(folder: str, first_seed: int, count: int) -> dict[str, int]:
    """Opening and reading a ledger of several journals, one of which is a mutant.

    All that may be served is a beginning of what was appended, and only when a crash can have left it
    so: the damage is in the last journal, and no whole frame lies behind it.
    """
    ledger = Path(folder)
    with using(Unsynced()):
        frames = _append(ledger, 11)
        originals = {path: path.read_bytes() for path in sorted(ledger.glob("*.journal"))}
        *earlier, last = originals
        in_earlier = sum(path != last for path, _, _ in frames)
        found = Counter[str]()
        for seed in range(first_seed, first_seed + count):
            path = last if seed % 2 else earlier[seed // 2 % len(earlier)]
            changed = mutant(originals[path], seed)
            _restore(ledger, originals | {path: changed})
            try:
                read = _numbers(read_frames(ledger))
                with Ledger(ledger, "reader of mutants") as opened:
                    assert _numbers(opened.frames()) == read, seed
                assert _numbers(read_frames(ledger)) == read, seed
            except CorruptLedger:
                found["refused"] += 1
                continue
            pairs = zip(changed, originals[path], strict=False)
            whole = next((at for at, (one, other) in enumerate(pairs) if one != other), len(changed))
            kept = in_earlier + sum(where == last and end <= whole for where, _, end in frames)
            lost = [originals[last][start:end] for _, start, end in frames[kept:]]
            torn = path == last and read == list(range(1, kept + 1)) and not any(f in changed for f in lost)
            found[("cut as torn" if lost else "nothing lost") if torn else "accepted"] += 1
    return dict(found)


def segment_mutants(folder: str, first_seed: int, count: int) -> dict[str, int]:
    """Opening and reading a ledger of compacted segments, one of whose files is a mutant: no reader may
    take it, and no writer."""
    ledger = Path(folder)
    with using(Unsynced()):
        _append(ledger, 11)
        with Ledger(ledger, "compacts") as opened:
            assert opened.compact() > 1
        originals = {path: path.read_bytes() for path in sorted(ledger.iterdir()) if path.suffix}
        mutable = [path for path in originals if path.suffix != ".journal"]
        found = Counter[str]()
        for seed in range(first_seed, first_seed + count):
            path = mutable[seed % len(mutable)]
            _restore(ledger, originals | {path: mutant(originals[path], seed)})
            for reads in (_opened, _followed, _listed, _rows):
                try:
                    reads(ledger)
                    found[f"accepted by {reads.__name__}"] += 1
                except CorruptLedger:
                    found["refused"] += 1
    return dict(found)


def _opened(folder: Path) -> None:
    with Ledger(folder, "reader of mutants") as opened:
        _numbers(opened.frames())


def _followed(folder: Path) -> None:
    segments, payloads = Follower(folder).look()
    for segment in segments:
        segment.verify()
    for place, payload in payloads:
        decode(place, payload)


def _listed(folder: Path) -> None:
    _numbers(read_frames(folder))


def _rows(folder: Path) -> None:
    read_tables(folder, ["rows"])


def _append(folder: Path, count: int) -> list[tuple[Path, int, int]]:
    """Frame after frame, in several journals; returns where each lies, from byte to byte."""
    places, end = [], 0
    with Ledger(folder, "writer", segment_frames=4) as ledger:
        for number in range(1, count + 1):
            names = pa.array([f"name {number % 3}", None] * number).dictionary_encode()
            ledger.append({"rows": pa.table({"n": [number] * 2 * number, "who": names})})
            path = max(folder.glob("*.journal"))
            start = end if places and places[-1][0] == path else 0
            end = path.stat().st_size
            places.append((path, start, end))
    return places


def _numbers(frames: Iterable[Frame]) -> list[int]:
    """The frames' numbers, each frame checked to be what was appended as such."""
    found = []
    for frame in frames:
        number, rows = frame.sequence, frame.tables["rows"]
        assert rows["n"].to_pylist() == [number] * 2 * number
        assert rows["who"].to_pylist() == [f"name {number % 3}", None] * number
        found.append(number)
    return found


def _restore(folder: Path, contents: Mapping[Path, bytes]) -> None:
    """`folder` with these files and none beside them."""
    for path in folder.iterdir():
        path.unlink()
    for path, data in contents.items():
        _replace(path, data)


def _replace(path: Path, data: bytes) -> None:
    """A new file under that name: maps of the old one stay what they were."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(data)
