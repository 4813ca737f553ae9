"""Sources of a run's competitors: their policies, their weights' files, the seats that they may take.

Weights may come from elsewhere: first weights of players, and magnets that never change (teachers). A source
of those is a snapshot of any run, or an exported folder. Everything is checked before a run begins: spaces
and network field by field, tensors one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from torch import Tensor

from league.competitors.names import Names, UnknownCompetitor
from league.config.sections import InitFrom
from league.config.settings import Settings
from league.learning.groups.shard_learners import Recruit
from league.learning.settings import LearnerSettings, SnapshotMagnet
from league.models.bots.scripted import seated_bot
from league.models.policies.policy import check_tensors, initial_weights
from league.models.spec import PolicySpec
from league.rollout.requests import BotSource, LiveSource, MixtureSource, Source
from league.rollout.snapshots import SnapshotSource, load_tensors
from storage.archive import Archive, open_reader
from storage.errors import Mistake, WeightsMismatch
from storage.records import IMPORTED, Bot, Competitor, LivePlayer, Snapshot
from storage.upkeep.exports import read_export


class Sources:
    """Sources of the competitors of one run in training."""

    def __init__(self, settings: Settings, archive: Archive) -> None:
        self._settings = settings
        self._archive = archive
        self._game = settings.game
        self._players_seats = settings.league.seats_by_competitor()
        self._own: dict[str, PolicySpec] = {}  # by player
        self._imported: dict[str, PolicySpec] = {}  # by snapshot
        self._snapshots: dict[str, SnapshotSource] = {}  # by id: they never change, and are in most requests

    def of(self, competitor: Competitor, version: int = 0) -> Source:
        """Return where `competitor` comes from. `version` is that of a live player's weights."""
        if isinstance(competitor, LivePlayer):
            return self.live(competitor, version)
        if isinstance(competitor, Bot):
            return BotSource(competitor.name)
        assert isinstance(competitor, Snapshot)  # entrants take part in tournaments, not in leagues
        name = competitor.snapshot_id
        if name not in self._snapshots:
            self._snapshots[name] = SnapshotSource(
                name,
                competitor.blob_hash,
                str(self._archive.blob_path(competitor).absolute()),  # runners have other working folders
                self.spec_of(competitor),
                remote=self._settings.storage.remote,
                bytes=competitor.bytes,
            )
        return self._snapshots[name]

    def live(self, player: LivePlayer, version: int) -> LiveSource:
        """Return the source of a live player with weights of this version."""
        return LiveSource(player.player, version, self.spec_of(player))

    def spec_of(self, competitor: LivePlayer | Snapshot) -> PolicySpec:
        """Return the policy of a player or snapshot; that of an imported snapshot is in its manifest."""
        if competitor.role == IMPORTED and isinstance(competitor, Snapshot):
            name = competitor.snapshot_id
            if name not in self._imported:
                self._imported[name] = PolicySpec.from_json(self._archive.manifest(name)["spec"])
            return self._imported[name]
        name = competitor.player
        if name not in self._own:
            self._own[name] = self._settings.policy_spec(name, competitor.role)
        return self._own[name]

    def allowed_seats(self, competitor: Competitor) -> tuple[int, ...] | None:
        """Return the seats that `competitor` may take, `None` for all of them.

        An imported snapshot may take every seat whose spaces equal its own.
        """
        if self._players_seats is None:
            return None
        if isinstance(competitor, Bot):
            settings = self._settings
            return seated_bot(competitor.name, settings.env.id, self._game, settings.bots).seats
        if isinstance(competitor, Snapshot) and competitor.role == IMPORTED:
            spec = self.spec_of(competitor)
            spaces = zip(self._game.observation_specs, self._game.action_specs, strict=True)
            return tuple(seat for seat, space in enumerate(spaces) if spec.plays(*space))
        return self._players_seats(competitor)


@dataclass(frozen=True, slots=True)
class Initial:
    """First weights of a player and their origin."""

    tensors: dict[str, Tensor]
    origin: str


def recruit_of(player: str, spec: PolicySpec, settings: LearnerSettings, seed: int) -> Recruit:
    """Return the recruit of `player`, with the weights of its magnet if that is of kind `snapshot`.

    Raise Mistake if their source does not exist, WeightsMismatch if they do not fit.
    """
    magnet, teacher = settings.magnet, None
    if isinstance(magnet, SnapshotMagnet):
        where = f"learner.magnet of {player}"
        teacher = _load(where, magnet.run, magnet.snapshot, magnet.folder, spec).tensors
    return Recruit(player, spec, settings, seed, teacher)


def load_initial(entries: Sequence[InitFrom], specs: Mapping[str, PolicySpec]) -> dict[str, Initial]:
    """Return the first weights of each player named in `entries`, checked against its spec.

    Raise Mistake if a source does not exist, WeightsMismatch if it does not fit.
    """
    return {
        entry.player: _load(
            f"init_from of {entry.player}", entry.run, entry.snapshot, entry.folder, specs[entry.player]
        )
        for entry in entries
    }


def _load(where: str, run: str | None, name: str | None, folder: str | None, spec: PolicySpec) -> Initial:
    """Return weights of the snapshot `name` of `run`, or of the exported `folder`, that fit `spec`."""
    if run is not None:
        reader = open_reader(run)
        try:
            source = Names(reader).source(str(name))
        except UnknownCompetitor as error:
            raise Mistake(f"{where}: {run}: {error}") from None
        if isinstance(source, BotSource):
            raise Mistake(f"{where}: '{name}' is a bot, expected a snapshot of {run}")
        if isinstance(source, MixtureSource):
            raise Mistake(
                f"{where}: '{name}' is a mixture of {len(source.members)} snapshots, expected one: weights "
                f"are those of a network; name a member, such as '{source.members[-1].snapshot_id}', or make "
                f"one network of it and give its folder: league snapshots {run} distil {name} DIR"
            )
        found, origin = source.spec, source.snapshot_id
        tensors = load_tensors(source)
    else:
        manifest, tensors = read_export(Path(str(folder)))
        found, origin = PolicySpec.from_json(manifest.get("spec") or {}), manifest["snapshot_id"]
    origin = f"{origin} of {run or folder}"
    _check_spec(f"{where}, {origin}", found, spec)
    wanted = {name: tuple(tensor.shape) for name, tensor in initial_weights(spec, 0).items()}
    if found.observation != spec.observation:  # a normaliser of boards as rows
        tensors = {
            name: tensor.reshape(wanted[name]) if name.startswith("normaliser.") else tensor
            for name, tensor in tensors.items()
        }
    check_tensors(f"{where}, {origin}", tensors, wanted)
    return Initial(tensors, origin)


def _check_spec(where: str, found: PolicySpec, wanted: PolicySpec) -> None:
    """Raise WeightsMismatch with the first setting or space that differs."""
    if found.observation.fits(wanted.observation):
        found = replace(found, observation=wanted.observation)
    for part in ("observation", "action", "settings"):
        theirs, ours = _fields(getattr(found, part)), _fields(getattr(wanted, part))
        for name in ours.keys() - {"learner_connectors"}:  # weights fit, whatever is made of episodes
            if theirs.get(name) != ours[name]:
                label = f"policy.{name}" if part == "settings" else f"{part} {name}"
                remedy = "give the old settings" if part == "settings" else "is it another game?"
                raise WeightsMismatch(
                    f"{where}: {label} is {theirs.get(name)!r}, expected {ours[name]!r}; {remedy}"
                )


def _fields(part: Any) -> dict[str, Any]:
    return part.model_dump(mode="json") if isinstance(part, BaseModel) else asdict(part)
