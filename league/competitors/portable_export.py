"""Exports that play without this library: written, opened again, and checked on fresh decisions.

A snapshot or mixture of a run becomes one file (`league.models.portable`), or a folder with its weights, a
card for model hubs and, where it can be made, such a file. A copy that plays otherwise is not kept.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from league.competitors.decisions import Decided, difference, expected, record
from league.competitors.mixtures import NamedMixture, mixed
from league.competitors.modes import SAMPLE, in_mode
from league.competitors.names import (
    Names,
    config_of_league,
    seats_for,
    trained_actor,
)
from league.envs import registry
from league.envs.adapters.gymnasium.seats import role_envs
from league.envs.base import BatchedGame
from league.models.actor import Look
from league.models.bots.kinds.exported import load_export
from league.models.bots.kinds.onnx_file import open_file
from league.models.policies.mixture import MixtureActor
from league.models.policies.policy import Policy
from league.models.portable.module import Portable, write
from league.rollout.requests import BotSource
from storage.disk import remove_tree
from storage.errors import Failure, Mistake
from storage.reader import ArchiveReader
from storage.records import Bot, Snapshot
from storage.remote.mirror import bring_blob
from storage.upkeep.exported_mixtures import export_mixture
from storage.upkeep.exports import UNSPECIFIED, check_place, export_snapshot

ONNX, FOLDER = "onnx", "folder"  # formats
AGENT = "agent.onnx"  # in an exported folder
FORMAT = 1  # of a card
TOLERANCE = 1e-5  # of outputs, relative to numbers above 1
SLOTS = 64  # matches at a time in which decisions are recorded


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and how far it differs from the competitor."""

    name: str
    path: Path
    decisions: int
    difference: float  # the largest, relative to numbers above 1
    note: str  # empty, or why a folder has no file that plays without this library


def export_to(
    reader: ArchiveReader,
    name: str,
    to: str,
    path: Path,
    *,
    license: str = UNSPECIFIED,
    decisions: int = 1_000,
    seed: int = 0,
) -> Exported:
    """Write the snapshot or mixture `name` to `path`, as a file of ONNX or a FOLDER, and check it.

    Raise UnknownCompetitor, Mistake for a bot, for a `path` that exists or cannot be, NotPortable for what
    cannot be written in this format, Failure if the copy plays otherwise. Nothing is left behind then.
    """
    if os.path.lexists(path):
        raise Mistake(f"{path} exists, expected a new place to export to; choose another")
    check_place(path, license)
    if not path.absolute().parent.is_dir():
        raise Mistake(f"{path}: found no folder {path.parent}, expected one that exists; make it first")
    config_of_league(reader)
    names = Names(reader)
    who, temperature = names.find(name)
    if isinstance(who, Bot):
        raise Mistake(f"'{name}' is a bot, expected a snapshot, a player, best or a mixture")
    mode = SAMPLE if temperature is None else temperature
    newest = who.newest if isinstance(who, NamedMixture) else who
    for snapshot in [part.snapshot for part in who.parts] if isinstance(who, NamedMixture) else [who]:
        bring_blob(reader.run, snapshot.blob_hash)
    source = names.source_of(who)
    assert not isinstance(source, BotSource)
    actor = trained_actor(source)
    game = _game(reader, newest)
    seats = seats_for(source, game)
    if not seats:
        raise Mistake(
            f"{_first(actor).name}: it fits no seat of '{game.id}', so it cannot be checked in play"
        )
    decided = record(actor, game, seats, decisions, np.random.default_rng(seed))
    label = name if isinstance(who, NamedMixture) else in_mode(who.snapshot_id, mode)
    card = {"format": FORMAT, "name": label, "license": license, "env": reader.env(), "seats": seats}
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{path.name[:80]}.", dir=path.absolute().parent))
    except OSError as error:
        raise Mistake(f"{path}: cannot be written: {error.strerror}; choose another folder") from None
    try:
        fresh, note = beside / path.name, ""
        if to == FOLDER:
            worst, note = _write_folder(reader, who, mode, actor, fresh, license, card, decided)
        else:
            worst = _write_file(actor, mode, fresh, card, decided)
        os.rename(fresh, path)
    except OSError as error:
        raise Failure(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        remove_tree(beside)
    return Exported(label, path, len(decided), worst, note)


def _game(reader: ArchiveReader, snapshot: Snapshot) -> BatchedGame:
    """Return the game that a snapshot was trained in: the run's, or that of its role."""
    config = reader.config()
    env = role_envs(config).get(str(snapshot.role), reader.env())
    limit = (config.get("rollout") or {}).get("step_limit")
    return registry.make(env["id"], SLOTS, step_limit=limit, **env["options"])


def _write_file(
    actor: Policy | MixtureActor,
    mode: float,
    path: Path,
    card: Mapping[str, Any],
    decided: Decided,
) -> float:
    """Write and check a file; return its largest difference. Raise Failure if it is too large."""
    module = Portable(actor, mode)
    fields = {
        **card,
        "kind": ONNX,
        "action": module.action.to_json(),
        "temperatures": module.temperatures,
        "observation": asdict(module.observation),
        "inputs": [value._asdict() for value in module.inputs],
        "outputs": [value._asdict() for value in module.outputs],
    }
    write(module, path, fields)
    found = open_file(path)({value.name: decided.given[value.name] for value in module.inputs})
    worst = difference(module.action, decided.found, found)
    if not worst <= TOLERANCE:
        raise Failure(
            f"{card['name']}: the written file differs by {worst:.2g} on {len(decided):,} decisions, "
            f"expected at most {TOLERANCE:g}; nothing was kept"
        )
    return worst


def _write_folder(
    reader: ArchiveReader,
    who: Snapshot | NamedMixture,
    mode: float,
    actor: Policy | MixtureActor,
    folder: Path,
    license: str,
    card: Mapping[str, Any],
    decided: Decided,
) -> tuple[float, str]:
    """Write and check a folder. Return its largest difference, and why it has no AGENT, if so."""
    if mode != SAMPLE:  # a folder of one snapshot has no mode, but one of a mixture has
        assert isinstance(who, Snapshot)
        who = mixed(str(card["name"]), [(who, 1.0, mode)])
    if isinstance(who, NamedMixture):
        members = [(part.snapshot, part.weight, part.temperature) for part in who.parts]
        export_mixture(reader, str(card["name"]), members, folder, license=license)
    else:
        export_snapshot(reader, who, folder, license=license)
    worst = _difference_of_folder(folder, actor, decided)
    try:
        return max(worst, _write_file(actor, mode, folder / AGENT, card, decided)), ""
    except Mistake as error:
        return worst, f"without {AGENT}: {error}"


def _difference_of_folder(folder: Path, actor: Policy | MixtureActor, decided: Decided) -> float:
    """Return by how much the policy or mixture in `folder` differs from `actor`, at most."""
    loaded = load_export(folder)
    if isinstance(loaded, MixtureActor) and isinstance(actor, Policy):
        (member,) = loaded.members
        assert isinstance(member.actor, Policy)
        loaded = member.actor
    given = decided.given
    look = Look(given["observation"], given["mask"], given["state"], given["reward"])
    return difference(_first(actor).spec.action, decided.found, expected(loaded, look, given["draw"]))


def _first(actor: Policy | MixtureActor) -> Policy:
    """Return the policy, or the first member of the mixture: all of them have the same spaces."""
    first = actor.members[0].actor if isinstance(actor, MixtureActor) else actor
    assert isinstance(first, Policy)
    return first
