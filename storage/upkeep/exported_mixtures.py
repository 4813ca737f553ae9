"""Exported mixtures: a folder with snapshots, each an export of its own, and how often each plays.

    mixture.json   name, game, licence; folder, weight and temperature of each member
    members/0/     the first member, as `storage.upkeep.exports` writes it
    README.md      the same for people

As with a single snapshot nothing in it is ever executed, and one from a stranger can be read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from storage.disk import make_folder, whole_folder, write_whole
from storage.reader import ArchiveReader
from storage.records import Snapshot
from storage.snapshots import blobs, manifests
from storage.snapshots.manifests import CorruptManifest
from storage.upkeep.exports import (
    FORMAT,
    MAX_TEXT,
    MEMBERS,
    MIXTURE,
    README,
    UNSPECIFIED,
    NotAnExport,
    check_place,
    fill,
    front_matter,
    shown,
)

MOST_MEMBERS = 100_000


@dataclass(frozen=True, slots=True)
class ExportedMember:
    """A member of an exported mixture."""

    folder: Path  # of its export
    weight: float  # positive; those of all members sum to 1
    temperature: float  # at which it plays: 1 as it samples, 0 its likeliest action


def is_mixture(folder: Path) -> bool:
    """Return whether the folder holds an exported mixture, to judge by its names alone."""
    return os.path.exists(folder / MIXTURE)


def export_mixture(
    reader: ArchiveReader,
    name: str,
    members: Sequence[tuple[Snapshot, float, float]],
    folder: Path,
    license: str = UNSPECIFIED,
) -> None:
    """Copy (snapshot, weight, temperature) of `reader`'s run to `folder`, which must not exist yet.

    It appears whole or not at all. Raise as `export_snapshot`.
    """
    check_place(folder, license)
    for snapshot, _, _ in members:
        blobs.verify(reader.blob_path(snapshot))
    listed = [
        {"folder": f"{MEMBERS}/{number}", "weight": weight, "temperature": temperature}
        for number, (_, weight, temperature) in enumerate(members)
    ]
    fields = {
        "format": FORMAT,
        "name": name[:MAX_TEXT],
        "license": license,
        "env": reader.env(),
        "members": listed,
    }
    with whole_folder(folder) as fresh:
        for number, (snapshot, _, _) in enumerate(members):
            own = fresh / MEMBERS / str(number)
            make_folder(own)
            fill(reader, snapshot, own, license)
        write_whole(fresh / README, [_readme(fields, members).encode()])
        write_whole(fresh / MIXTURE, [manifests.seal(fields)])


def read_mixture(folder: Path) -> tuple[dict[str, Any], tuple[ExportedMember, ...]]:
    """Return the fields of an exported mixture, and its members. Their own folders are not yet read.

    Raise NotAnExport for a folder that holds none.
    """
    path = folder / MIXTURE
    try:
        fields = manifests.read(path)
        return fields, _members(folder, fields.get("members"))
    except CorruptManifest as error:
        raise NotAnExport(str(error)) from None
    except ValueError as error:
        raise NotAnExport(f"{path}: {error}") from None


def _members(folder: Path, listed: object) -> tuple[ExportedMember, ...]:
    """Return the members. Raise ValueError for anything that `export_mixture` would not write."""
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST_MEMBERS:
        raise ValueError(f"members is {shown(listed)}, expected a list of 1 to {MOST_MEMBERS:,}")
    found = []
    for number, one in enumerate(listed):
        where = f"{MEMBERS}/{number}"
        if not isinstance(one, dict) or one.get("folder") != where:
            raise ValueError(f"member {number} is {shown(one)}, expected one in the folder {where}")
        weight, temperature = one.get("weight"), one.get("temperature")
        if not _is_number(weight) or not 0.0 < weight <= 1.0:
            raise ValueError(f"member {number}: weight is {shown(weight)}, expected more than 0, up to 1")
        if not _is_number(temperature) or not 0.0 <= temperature <= 1e6:
            raise ValueError(f"member {number}: temperature is {shown(temperature)}, expected 0 or more")
        found.append(ExportedMember(folder / MEMBERS / str(number), float(weight), float(temperature)))
    total = math.fsum(member.weight for member in found)
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        raise ValueError(f"weights sum to {total:g}, expected 1")
    return tuple(found)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _readme(fields: dict[str, Any], members: Sequence[tuple[Snapshot, float, float]]) -> str:
    rows = "\n".join(
        f"| {MEMBERS}/{number} | {snapshot.snapshot_id.replace('|', chr(92) + '|')} | {weight:.4g} | "
        f"{temperature:g} |"
        for number, (snapshot, weight, temperature) in enumerate(members)
    )
    head = front_matter(str(fields["env"]["id"]), str(fields["license"]))
    return f"""{head}
# A mixture of {len(members)} snapshots

One of them is drawn for each match and each seat, by its weight, and plays that match to its end. It is a
competitor of its own: what it plays is the average of its members in the sense of game theory, and no member
alone plays so. A file `agent.onnx`, where there is one, plays all of it without any library but onnxruntime.

Game: {fields["env"]["id"]}. Licence: {fields["license"]}.

| folder | snapshot | weight | temperature |
|---|---|---|---|
{rows}

As an opponent in a run of the same game, in its config:

    bots:
      mixture: {{kind: export, folder: FOLDER}}

In Python (keep `memory` from decision to decision of one match: it says who plays):

    import league
    import numpy as np

    mixture = league.load_export("FOLDER")
    memory = np.zeros((n, mixture.memory_size), dtype=np.float32)
    actions, log_probs = mixture.act(observations, masks, np.random.default_rng(0), memory=memory)
"""
