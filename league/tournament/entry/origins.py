"""Origins: where the snapshots of a tournament come from, be it a run or an exported folder.

Each goes by its address: the path of a folder from the root on, or the URL of an object store. A
tournament that goes on finds its entrants again by it.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from league.competitors.modes import in_mode
from league.competitors.names import Names, UnknownCompetitor, bot_settings, source_of
from league.mistakes import explain
from league.models.bots.settings import BotSettings
from league.models.spec import PolicySpec
from league.rollout.snapshots import SnapshotSource
from league.tournament.entry.selection import MAY_BE_ASKED, BadSelection, selected
from storage import open_reader
from storage.disk import Progress
from storage.errors import CorruptBlob, NotARun
from storage.layout import FORMAT, origin
from storage.records import Bot, Entrant, Role, Snapshot
from storage.remote.mirror import run_folder
from storage.remote.remote import is_url
from storage.snapshots import blobs
from storage.snapshots.manifests import CorruptManifest
from storage.upkeep.exports import MANIFEST, MAX_TEXT, WEIGHTS, NotAnExport, is_plain, read_manifest, shown


class Origin(ABC):
    """A place with snapshots."""

    address: str
    env: Mapping[str, Any]  # `id` and `options` of the game that they were trained in

    @abstractmethod
    def source(self, entrant: Entrant) -> SnapshotSource:
        """Where the policy of one of its entrants lies. Raises CorruptBlob, CorruptManifest,
        WeightsMismatch for one that is damaged, missing, or no longer what it was."""

    def _changed(self, entrant: Entrant) -> CorruptBlob:
        return CorruptBlob(
            f"{self.address}: '{entrant.snapshot_id}' is no longer there as it was; restore it from a copy"
        )


class RunOrigin(Origin):
    """A run, also while it trains."""

    def __init__(self, address: str, progress: Progress | None = None) -> None:
        """Raises Mistake for what is no run with snapshots; CorruptLedger, RemoteFailed."""
        folder = run_folder(address, progress)
        self._reader = open_reader(folder)
        self.address = origin(folder) or address
        config = self._reader.config() or {}
        if "competitors" in config:
            raise NotARun(
                f"{address}: found the run of a tournament, expected that of a league; name the runs that "
                "its entrants come from"
            )
        self.env = self._reader.env()
        self._remote = self._reader.remote()
        self.step_limit: int | None = (config.get("rollout") or {}).get("step_limit")
        teams = (config.get("matchmaking") or {}).get("teams")
        self.teams: tuple[int, ...] | None = None if teams is None else tuple(teams)
        self.bots: dict[str, BotSettings] = bot_settings(config)

    def chosen(
        self, select: str | None, names: Sequence[str], temperatures: Sequence[float]
    ) -> list[Entrant]:
        """The snapshots for which the condition `select` holds, or whoever goes by `names`; without both all
        snapshots. In each of the modes, unless a name says which.

        Raises BadSelection, UnknownCompetitor.
        """
        try:
            if names:
                return [entrant for name in names for entrant in self._named(name, temperatures)]
            snapshots = self._reader.snapshots() if select is None else self._selected(select)
        except (BadSelection, UnknownCompetitor) as error:
            raise type(error)(f"{self.address}: {error}") from None
        return [_entrant(snapshot, self.address, t) for snapshot in snapshots for t in temperatures]

    def source(self, entrant: Entrant) -> SnapshotSource:
        found = self._reader.find(entrant.snapshot_id or "")
        if not isinstance(found, Snapshot) or found.blob_hash != entrant.blob_hash:
            raise self._changed(entrant)
        return source_of(self._reader, found, entrant.temperature, self._remote)

    def _selected(self, condition: str) -> list[Snapshot]:
        wanted, snapshots = selected(self._reader.run, condition), self._reader.snapshots()
        found = [snapshot for snapshot in snapshots if snapshot.snapshot_id in wanted]
        if not found:
            asked = " ".join(condition.split())
            raise BadSelection(f"select: none of {len(snapshots):,} snapshots fits {asked}; {MAY_BE_ASKED}")
        return found

    @functools.cached_property
    def _names(self) -> Names:
        return Names(self._reader, self.env["id"])

    def _named(self, name: str, temperatures: Sequence[float]) -> list[Entrant]:
        who, temperature = self._names.find(name)
        if isinstance(who, Bot):
            return [bot_entrant(who.name)]
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
    """What a tournament takes of an exported snapshot's manifest: a stranger's, until it is checked."""

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
    """A folder with one exported snapshot. Nothing in it is executed."""

    def __init__(self, address: str) -> None:
        """Raises NotAnExport when there is none, CorruptManifest when nobody can tell who it is."""
        self.address = address
        path = Path(address) / MANIFEST
        try:
            self._manifest = _Manifest.model_validate(read_manifest(Path(address)), strict=True)
        except NotAnExport as error:
            if not path.exists():
                raise
            raise CorruptManifest(str(error)) from None
        except ValidationError as error:
            raise CorruptManifest(f"{path}: {explain(error, _Manifest)}; was it exported by us?") from None
        self.env = self._manifest.env.model_dump()

    def chosen(self, temperatures: Sequence[float]) -> list[Entrant]:
        """Its snapshot in each of the modes."""
        return [_entrant(self._manifest, self.address, t) for t in temperatures]

    def source(self, entrant: Entrant) -> SnapshotSource:
        if self._manifest.blob_hash != entrant.blob_hash:
            raise self._changed(entrant)
        path = Path(self.address) / WEIGHTS
        blobs.table(path)  # refuses what is no plain file, on which reading might wait
        spec = PolicySpec.from_json(self._manifest.spec)
        return SnapshotSource(
            self._manifest.snapshot_id, self._manifest.blob_hash, str(path), spec, entrant.temperature
        )


def address_of(text: str) -> str:
    """The address of a run or an exported folder, as a user named it."""
    return text.rstrip("/") if is_url(text) else str(Path(text).expanduser().resolve())


def open_origin(address: str, progress: Progress | None = None) -> Origin:
    """What lies at an address of an entrant. Raises as the two kinds do."""
    if is_url(address) or (Path(address) / FORMAT).exists():
        return RunOrigin(address, progress)
    if not Path(address).exists():
        raise NotARun(f"{address}: nothing is there any more, expected the run or exported folder that was")
    return ExportOrigin(address)


def _entrant(its: Snapshot | _Manifest, address: str, temperature: float) -> Entrant:
    """A snapshot that lies at an address."""
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


def bot_entrant(name: str) -> Entrant:
    """A bot: it comes from nowhere, and plays as it always does."""
    return Entrant(name, "bot", None, None, None, None, None, None, None, None)
