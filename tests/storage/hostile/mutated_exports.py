"""Exports that were changed by somebody who seals manifests and hashes weights; run by `limited`."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from storage.archive import Archive
from storage.disk import using
from storage.errors import StorageError
from storage.records import Snapshot
from storage.snapshots.blobs import map_tensors
from storage.snapshots.manifests import seal
from storage.upkeep.exports import MANIFEST, WEIGHTS, read_export
from storage.upkeep.imports import import_snapshot
from tests.bench.storage_results import Unsynced
from tests.storage.hostile.malicious_exports import fields, replace, weigh
from tests.storage.hostile.mutations import mutant

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**70, 10**400, 0.5, -0.0, 1e308),
    *("", "0", "mlp", "os:system", "../..", "/etc/passwd", "x" * 10**5),
    *("\0", "\n", "\x1b[2J", "\u202e", "\ud800"),
    *([], {}, [None], [[]], {"": None}, {"a": {"b": {}}}, [0] * 1000, {"dtype": "float32", "shape": [-1]}),
)


def sealed_mutants(home: str, honest: str, first_seed: int, count: int) -> dict[str, int]:
    """Other values in the manifest, or mutated weights: read, imported into `home`/run, and if so played.

    Counts what was done, and what was refused in one printable line; any other error is there with its seed.
    """
    folder, found, taken = Path(honest), Counter[str](), list[Snapshot]()
    manifest, weights = fields(folder), (folder / WEIGHTS).read_bytes()
    with using(Unsynced()), Archive.open(Path(home) / "run") as archive:

        def read() -> None:
            read_export(folder)

        def take() -> None:
            taken.append(import_snapshot(archive, folder))

        def play() -> None:
            snapshot = taken.pop()
            spec = PolicySpec.from_json(archive.manifest(snapshot.snapshot_id)["spec"])
            Policy(spec, map_tensors(archive.blob_path(snapshot), verify=True))

        for seed in range(first_seed, first_seed + count):
            rng, named = Random(seed), manifest | {"snapshot_id": f"mutant {seed}"}
            replace(folder / WEIGHTS, weights)
            if rng.random() < 0.5:
                replace(folder / MANIFEST, seal(named))
                weigh(folder, mutant(weights, seed))
            else:
                replace(folder / MANIFEST, seal(_other_values(named, rng)))
            for work in (read, take, play):
                if work is play and not taken:
                    continue
                try:
                    work()
                    found[work.__name__] += 1
                except StorageError as error:
                    one_line = str(error).isprintable() or work is play
                    found[f"refused to {work.__name__}" if one_line else f"{error!r}, seed {seed}"] += 1
                except Exception as error:
                    found[f"{error!r}, seed {seed}"] += 1
    return dict(found)


def _other_values(value: Any, rng: Random) -> Any:
    """`value` with something else in one to three places."""
    changed = deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = changed
        while True:
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if not (isinstance(at[key], dict | list) and at[key] and rng.random() < 0.8):
                break
            at = at[key]
        at[key] = deepcopy(rng.choice(ODD_VALUES))
        if isinstance(at, dict) and rng.random() < 0.2:
            at[rng.choice(("", "__class__", "a" * 1000, "\u202e", "..", "\0"))] = at.pop(key)
    return changed
