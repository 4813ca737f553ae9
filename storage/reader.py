"""Reading a run at any time: its competitors, and the paths of their policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from storage.errors import NotARun, UnknownSnapshot
from storage.layout import CONFIG, LEDGER, OBJECTS, RATED, blob_path, manifest_path, origin, require_run
from storage.ledger.ledger import read_tables
from storage.records import IMPORTED, Bot, Competitor, Entrant, LivePlayer, Snapshot
from storage.snapshots import manifests
from storage.suggestions import near_or_some, nearest
from storage.tables.columns import competitors_of

# sections of the settings that readers look into
SECTIONS = {"bots", "env", "league", "matchmaking", "policy", "rollout", "rules", "storage"}
GAME = {"id": (str, "the game"), "options": (dict, "settings by name")}  # of `env`
LIBRARY, MASK = "gymnasium:", "action_mask"
SEATED = ("players", "competitors", "snapshots", "entrants")
"""The tables that say who is in a run."""


def open_reader(run: str | Path) -> ArchiveReader:
    """Open the run in a folder, whether or not it trains. Raise NotARun, CorruptLedger."""
    run = Path(run)
    require_run(run)
    return ArchiveReader(run, read_competitors(run))


def read_competitors(run: Path) -> list[Competitor]:
    """Return all competitors that the ledger in `run` seats, each kind in the order of joining.

    Raise CorruptLedger.
    """
    return competitors_of(read_tables(run / LEDGER, SEATED))


class ArchiveReader:
    """The competitors of a run and the paths of their policies."""

    def __init__(self, run: Path, competitors: Iterable[Competitor]) -> None:
        self.run = run
        self._competitors = {competitor.competitor: competitor for competitor in competitors}

    def config(self) -> dict[str, Any]:
        """Return the resolved settings that the run was begun with. Raise NotARun.

        An option of its game that came later has the value that leaves the game as it was.
        """
        path = self.run / CONFIG
        try:
            fields = yaml.safe_load(path.read_text())
        except (OSError, ValueError, yaml.YAMLError) as error:
            reason = " ".join(str(error).split())
            raise NotARun(
                f"{path}: the run's settings cannot be read: {reason}; restore it from a copy"
            ) from None
        if wrong := _damage(fields):
            raise NotARun(f"{path}: {wrong}; correct it, or restore the file from a copy")
        env = fields.get("env") or {}
        if "mask" not in (env.get("options") or {}) and self._sees_masks(str(env.get("id"))):
            env["options"] = {**(env.get("options") or {}), "mask": "none"}
        return fields

    def _sees_masks(self, env_id: str) -> bool:
        """Return whether policies see masks of legal actions, as they did before games took them out."""
        own = [one for one in self.snapshots() if one.role != IMPORTED] if env_id.startswith(LIBRARY) else []
        seen = self.manifest(own[0].snapshot_id)["spec"]["observation"] if own else {}
        return any(part["name"] == MASK for part in seen.get("parts") or ())

    def env(self) -> dict[str, Any]:
        """Return the game that the run plays: `id` and `options`. Raise NotARun."""
        env = self.config().get("env") or {}
        return {"id": env.get("id"), "options": env.get("options") or {}}

    def remote(self) -> str | None:
        """Return the address of the object store with a copy of everything; `None` if there is none."""
        came_from = origin(self.run)
        return came_from or (self.config().get("storage") or {}).get("remote")

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots in the order of freezing."""
        return [c for c in self._competitors.values() if isinstance(c, Snapshot)]

    def players(self) -> list[LivePlayer]:
        """Return the players in the order of joining."""
        return [c for c in self._competitors.values() if isinstance(c, LivePlayer)]

    def bots(self) -> list[Bot]:
        """Return the bots in the order of joining."""
        return [c for c in self._competitors.values() if isinstance(c, Bot)]

    def entrants(self) -> list[Entrant]:
        """Return the entrants of a tournament in the order of joining; a league has none."""
        return [c for c in self._competitors.values() if isinstance(c, Entrant)]

    def find(self, competitor: str) -> Competitor | None:
        """Return the competitor of exactly that id; `None` if there is none."""
        return self._competitors.get(competitor)

    def resolve(self, prefix: str) -> Snapshot:
        """Return the snapshot of that id, or the only one whose id begins so. Raise UnknownSnapshot."""
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self.snapshots()}
        if prefix in by_id:
            return by_id[prefix]
        fitting = [snapshot_id for snapshot_id in by_id if snapshot_id.startswith(prefix)]
        if len(fitting) == 1:
            return by_id[fitting[0]]
        if fitting:
            some = ", ".join(fitting[:8]) + (", ..." if len(fitting) > 8 else "")
            raise UnknownSnapshot(f"{self.run}: '{prefix}' fits {len(fitting)} snapshots: {some}")
        raise UnknownSnapshot(f"{self.run}: no snapshot '{prefix}'; {near_or_some(prefix, by_id)}")

    def blob_path(self, snapshot: Snapshot) -> Path:
        """Return the path of the snapshot's weights."""
        return blob_path(self.run / OBJECTS, snapshot.blob_hash)

    def manifest_path(self, snapshot_id: str) -> Path:
        """Return the path of the snapshot's manifest."""
        return manifest_path(self.run, snapshot_id)

    def manifest(self, snapshot_id: str) -> dict[str, Any]:
        """Return what a program needs to use the snapshot: spec, tensors, hashes, parents.

        Raise CorruptManifest.
        """
        return manifests.read(self.manifest_path(snapshot_id))

    def verify_blob(self, snapshot: Snapshot) -> dict[str, dict[str, Any]] | None:
        """Hash the weights and return the table of their tensors; `None` if they are not in this folder.

        Raise CorruptBlob.
        """
        path = self.blob_path(snapshot)
        from storage.snapshots import blobs  # loads torch

        blobs.verify(path)
        return blobs.table(path)


def _damage(config: Any) -> str:
    """Return what is wrong with settings that readers could not make sense of; "" where they can."""
    if not isinstance(config, dict):
        return f"found {type(config).__name__}, expected settings by name"
    for section in SECTIONS & config.keys():
        if not isinstance(config[section], dict):
            return f"{section}: found {config[section]!r}, expected settings by name"
    game = config.get("env", {})
    if RATED in config:
        return ""
    if "env" not in config:
        return f"env: found {_nearly('env', config)}, expected the game"
    for key, (kind, expected) in GAME.items():
        found = repr(game[key]) if key in game else _nearly(key, game)
        left_out = key == "options" and found == "nothing"
        if not left_out and not isinstance(game.get(key), kind):
            return f"env.{key}: found {found}, expected {expected}"
    return ""


def _nearly(key: str, settings: Mapping[str, Any]) -> str:
    """Return the misspelt key that is there in place of `key`, or "nothing"."""
    return next((f"'{near}'" for near in nearest(key, map(str, settings))), "nothing")
