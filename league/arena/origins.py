"""Origins: the runs and exported folders that competitors come from, and the game that each was trained in.

An origin has an address: the absolute path of a folder, or the URL of an object store. A resumed
tournament finds its entrants again by it.
"""

from __future__ import annotations

import functools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from league.arena.selection import MAY_BE_ASKED, BadSelection, selected
from league.competitors.mixtures import NamedMixture, listed
from league.competitors.modes import SAMPLE, in_mode, temperature_of
from league.competitors.names import (
    Names,
    UnknownCompetitor,
    bot_settings,
    config_of_league,
    mixture_source,
    source_of,
)
from league.envs.adapters.gymnasium.seats import following, role_envs
from league.mistakes import explain
from league.models.bots.settings import BotSettings
from league.models.spec import PolicySpec
from league.rollout.requests import MixtureSource
from league.rollout.snapshots import SnapshotSource
from storage import open_reader, run_folder
from storage.disk import Progress, whole_folder
from storage.errors import CorruptBlob, NotARun
from storage.layout import FORMAT, file_name, origin
from storage.records import Bot, Entrant, Role, Snapshot
from storage.remote.mirror import bring_blob
from storage.remote.remote import is_url
from storage.snapshots import blobs
from storage.snapshots.manifests import CorruptManifest
from storage.upkeep.exported_mixtures import is_mixture
from storage.upkeep.exports import (
    MANIFEST,
    MAX_TEXT,
    WEIGHTS,
    NotAnExport,
    export_snapshot,
    is_plain,
    read_manifest,
    shown,
)


class Origin(ABC):
    """Run or folder with snapshots."""

    address: str
    env: Mapping[str, Any]  # `id` and `options` of their game

    @abstractmethod
    def source(self, entrant: Entrant) -> SnapshotSource | MixtureSource:
        """Return the source of the policy of one of its entrants.

        Raise CorruptBlob, CorruptManifest, WeightsMismatch for a policy that is damaged, missing or changed.
        """

    @abstractmethod
    def copy(self, entrant: Entrant, into: Path) -> None:
        """Export the snapshots of an entrant into the folder `into`, unless they are there."""

    def _changed(self, entrant: Entrant) -> CorruptBlob:
        return CorruptBlob(
            f"{self.address}: '{entrant.snapshot_id}' is missing or changed; restore it from a copy"
        )


class RunOrigin(Origin):
    """Run as an origin; it may be in training."""

    def __init__(self, address: str | Path, progress: Progress | None = None) -> None:
        """Raise NotARun for the run of a tournament; CorruptLedger, RemoteFailed."""
        folder = run_folder(address, progress)
        self.reader = open_reader(folder)
        config = config_of_league(self.reader, address)
        self.address = origin(folder) or str(address)
        self.env = self.reader.env()
        self.envs = following(config)  # that its roles bring to their seats
        self.role_envs = role_envs(config)
        self._remote = self.reader.remote()
        self.step_limit: int | None = (config.get("rollout") or {}).get("step_limit")
        teams = (config.get("matchmaking") or {}).get("teams")
        self.teams: tuple[int, ...] | None = None if teams is None else tuple(teams)
        self.bots: dict[str, BotSettings] = bot_settings(config)

    @functools.cached_property
    def names(self) -> Names:
        """The names of its competitors."""
        return Names(self.reader)

    def chosen(
        self, select: str | None, names: Sequence[str], temperatures: Sequence[float]
    ) -> list[Entrant]:
        """Return the snapshots that fulfil the condition `select`, or the competitors with these `names`.

        Without both return all snapshots. Each is returned in all modes (`temperatures`), unless its name has
        one. Raise BadSelection, UnknownCompetitor.
        """
        try:
            if names:
                return [entrant for name in names for entrant in self._named(name, temperatures)]
            snapshots = self.reader.snapshots() if select is None else self._selected(select)
        except (BadSelection, UnknownCompetitor) as error:
            raise type(error)(f"{self.address}: {error}") from None
        return [_entrant(snapshot, self.address, t) for snapshot in snapshots for t in temperatures]

    def source(self, entrant: Entrant) -> SnapshotSource | MixtureSource:
        """Return the source of the policy of an entrant; see `Origin.source`."""
        if entrant.kind == "mixture":
            return self._mixture(entrant)
        return source_of(self.reader, self._snapshot(entrant), entrant.temperature, self._remote)

    def copy(self, entrant: Entrant, into: Path) -> None:
        """Export the snapshots of an entrant; see `Origin.copy`."""
        mixed = entrant.kind == "mixture"
        for one in (
            [part.snapshot for part in self._members(entrant).parts] if mixed else [self._snapshot(entrant)]
        ):
            if not (folder := into / _folder_of(one)).exists():
                bring_blob(self.reader.run, one.blob_hash)
                export_snapshot(self.reader, one, folder)

    def _snapshot(self, entrant: Entrant) -> Snapshot:
        """Return the snapshot of an entrant: by its id, else by the hash of its weights."""
        named = self.reader.find(entrant.snapshot_id or "")
        for found in (named, *self.reader.snapshots()):
            if isinstance(found, Snapshot) and found.blob_hash == entrant.blob_hash:
                return found
        raise self._changed(entrant)

    def _mixture(self, entrant: Entrant) -> MixtureSource:
        """Return the source of a mixture, as it was when it entered."""
        return replace(
            mixture_source(self.reader, self._members(entrant), self._remote), name=entrant.competitor
        )

    def _members(self, entrant: Entrant) -> NamedMixture:
        """Return the mixture of an entrant, as it was when it entered."""
        try:
            who = self.names.find(entrant.snapshot_id or "").who
        except UnknownCompetitor:
            who = None
        if not isinstance(who, NamedMixture) or who.digest != entrant.blob_hash:
            raise self._changed(entrant)
        return who

    def _selected(self, condition: str) -> list[Snapshot]:
        wanted, snapshots = selected(self.reader.run, condition), self.reader.snapshots()
        found = [snapshot for snapshot in snapshots if snapshot.snapshot_id in wanted]
        if not found:
            asked = " ".join(condition.split())
            raise BadSelection(f"select: none of {len(snapshots):,} snapshots fits {asked}; {MAY_BE_ASKED}")
        return found

    def _named(self, name: str, temperatures: Sequence[float]) -> list[Entrant]:
        who, temperature = self.names.find(name)
        if isinstance(who, Bot):
            return [bot_entrant(who.name)]
        if isinstance(who, NamedMixture):
            sampled = [_mixture_entrant(who, self.address)] if SAMPLE in temperatures else []
            others = [(t, who.at(t)) for t in temperatures if t != SAMPLE]
            return sampled + [_mixture_entrant(one, self.address, t) for t, one in others]
        in_modes = temperatures if temperature is None else (temperature,)
        return [_entrant(who, self.address, t) for t in in_modes]


def _plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError(f"{shown(text)}, expected one line of at most {MAX_TEXT} characters")
    return text


_Plain = Annotated[str, AfterValidator(_plain)]


class _Env(BaseModel):
    id: _Plain
    options: dict[str, Any]


class _Manifest(BaseModel):
    """Part of an exported snapshot's manifest that a tournament uses; untrusted until it is checked."""

    snapshot_id: str
    blob_hash: str
    player: _Plain
    role: _Plain
    env_steps: int = Field(ge=0, lt=2**63)
    created_at: float = Field(allow_inf_nan=False)
    architecture: _Plain
    env: _Env
    spec: dict[str, Any]


class ExportOrigin(Origin):
    """Folder with one exported snapshot. No code from it is executed."""

    def __init__(self, address: str) -> None:
        """Raise NotAnExport if there is none, CorruptManifest if its manifest is damaged."""
        self.address = address
        path = Path(address) / MANIFEST
        if is_mixture(Path(address)):
            raise NotAnExport(
                f"{address}: found a mixture, expected one snapshot; let it play as a bot of kind export (in "
                "the table bots), or name one of its members"
            )
        try:
            self._manifest = _Manifest.model_validate(read_manifest(Path(address)), strict=True)
        except NotAnExport as error:
            if not path.exists():
                raise
            raise CorruptManifest(str(error)) from None
        except ValidationError as error:
            raise CorruptManifest(
                f"{path}: {explain(error, _Manifest)}; was it exported by league snapshots?"
            ) from None
        self.env = self._manifest.env.model_dump()

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot, without what only its run knows of it."""
        its = self._manifest
        return Snapshot(
            its.snapshot_id,
            its.player,
            Role(its.role),
            its.env_steps,
            updates=0,
            parent_id=None,
            blob_hash=its.blob_hash,
            bytes=0,
            architecture=its.architecture,
            created_at=its.created_at,
            reason="",
        )

    def copy(self, entrant: Entrant, into: Path) -> None:
        """Copy the folder; see `Origin.copy`."""
        folder = into / _folder_of(self.snapshot)
        if not folder.exists():
            with whole_folder(folder) as fresh:
                for name in (WEIGHTS, MANIFEST):
                    shutil.copyfile(Path(self.address) / name, fresh / name)

    def chosen(self, temperatures: Sequence[float]) -> list[Entrant]:
        """Return its snapshot in each of the modes (`temperatures`)."""
        return [_entrant(self._manifest, self.address, t) for t in temperatures]

    def source(self, entrant: Entrant) -> SnapshotSource:
        """Return the source of the policy of an entrant; see `Origin.source`."""
        if self._manifest.blob_hash != entrant.blob_hash:
            raise self._changed(entrant)
        path = Path(self.address) / WEIGHTS
        blobs.table(path)  # refuses anything but a plain file, where reading might block
        spec = PolicySpec.from_json(self._manifest.spec)
        return SnapshotSource(
            self._manifest.snapshot_id, self._manifest.blob_hash, str(path), spec, entrant.temperature
        )


class PackOrigin(Origin):
    """Folder of exported snapshots of one origin: copies that a tournament has of its entrants."""

    def __init__(self, address: str) -> None:
        """Raise CorruptManifest if a manifest is damaged."""
        self.address = address
        exports = [ExportOrigin(str(path.parent)) for path in sorted(Path(address).glob(f"*/{MANIFEST}"))]
        self._exports = {export.snapshot: export for export in exports}

    def source(self, entrant: Entrant) -> SnapshotSource | MixtureSource:
        """Return the source of the policy of an entrant; see `Origin.source`."""
        if entrant.kind == "mixture":
            return self._mixture(entrant)
        for snapshot, export in self._exports.items():
            if (snapshot.snapshot_id, snapshot.blob_hash) == (entrant.snapshot_id, entrant.blob_hash):
                return export.source(entrant)
        raise self._changed(entrant)

    def copy(self, entrant: Entrant, into: Path) -> None:
        """Do nothing: the copies are there; see `Origin.copy`."""

    def _mixture(self, entrant: Entrant) -> MixtureSource:
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self._exports}

        def member(text: str) -> tuple[Snapshot, float]:
            name, _, mode = text.partition(":")
            if name not in by_id:
                raise self._changed(entrant)
            return by_id[name], temperature_of(mode) if mode else SAMPLE

        who = listed(entrant.snapshot_id or "", member)
        if who.digest != entrant.blob_hash:
            raise self._changed(entrant)
        played = [(self._exports[part.snapshot], part.temperature) for part in who.parts]
        members = tuple(export.source(export.chosen([temperature])[0]) for export, temperature in played)
        return MixtureSource(entrant.competitor, members, tuple(part.weight for part in who.parts))


def open_origin(address: str, progress: Progress | None = None) -> Origin:
    """Return the origin at an address. Raise NotARun if nothing is there, else as the kinds do."""
    if is_url(address) or (Path(address) / FORMAT).exists():
        return RunOrigin(address, progress)
    if not Path(address).exists():
        raise NotARun(f"{address}: nothing is there, expected the run or exported folder of an entrant")
    if (Path(address) / MANIFEST).exists() or not any(Path(address).glob(f"*/{MANIFEST}")):
        return ExportOrigin(address)
    return PackOrigin(address)


def _folder_of(snapshot: Snapshot) -> str:
    """Return the name of the folder of a copy of a snapshot."""
    return f"{file_name(snapshot.snapshot_id)}-{snapshot.blob_hash[:12]}"


def _entrant(its: Snapshot | _Manifest, address: str, temperature: float) -> Entrant:
    """Return the entrant of a snapshot at an address."""
    return Entrant(
        competitor=in_mode(its.snapshot_id, temperature),
        kind="snapshot",
        role=Role(its.role),
        player=its.player,
        run=address,
        snapshot_id=its.snapshot_id,
        blob_hash=its.blob_hash,
        env_steps=its.env_steps,
        created_at=its.created_at,
        architecture=its.architecture,
        temperature=temperature,
    )


def _mixture_entrant(mixture: NamedMixture, address: str, temperature: float = SAMPLE) -> Entrant:
    """Return the entrant of a mixture: its members and their weights stand where a snapshot has its id."""
    newest = mixture.newest
    return Entrant(
        competitor=in_mode(mixture.name, temperature),
        kind="mixture",
        role=None,
        player=None,
        run=address,
        snapshot_id=mixture.listed,
        blob_hash=mixture.digest,
        env_steps=newest.env_steps,
        created_at=newest.created_at,
        architecture=newest.architecture,
        temperature=temperature,
    )


def bot_entrant(name: str) -> Entrant:
    """Return the entrant of a bot, which has neither an origin nor a mode."""
    return Entrant(name, "bot", None, None, None, None, None, None, None, None)
