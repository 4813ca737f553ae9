"""Sources of a run's competitors: their policies, their weights' files, the seats that they may take."""

from __future__ import annotations

from league.config.settings import Settings
from league.models.bots.scripted import seated_bot
from league.models.spec import PolicySpec
from league.rollout.requests import BotSource, LiveSource, Source
from league.rollout.snapshots import SnapshotSource
from storage.archive import Archive
from storage.records import IMPORTED, Bot, Competitor, LivePlayer, Role, Snapshot


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
        if isinstance(competitor, Snapshot):
            if competitor.snapshot_id not in self._snapshots:
                self._snapshots[competitor.snapshot_id] = self._of_snapshot(competitor)
            return self._snapshots[competitor.snapshot_id]
        assert isinstance(competitor, Bot)  # entrants take part in tournaments, not in leagues
        return BotSource(competitor.name)

    def _of_snapshot(self, snapshot: Snapshot) -> SnapshotSource:
        return SnapshotSource(
            snapshot.snapshot_id,
            snapshot.blob_hash,
            str(self._archive.blob_path(snapshot).absolute()),  # runners have other working folders
            self.spec_of(snapshot),
            remote=self._settings.storage.remote,
            bytes=snapshot.bytes,
        )

    def live(self, player: LivePlayer, version: int) -> LiveSource:
        """Return the source of a live player with weights of this version."""
        return LiveSource(player.player, version, self.spec_of(player))

    def spec_of(self, competitor: LivePlayer | Snapshot) -> PolicySpec:
        """Return the policy of a player or snapshot; that of an imported snapshot is in its manifest."""
        if competitor.role == IMPORTED and isinstance(competitor, Snapshot):
            return self._spec_of_imported(competitor)
        return self.spec_of_player(competitor.player, competitor.role)

    def spec_of_player(self, player: str, role: Role) -> PolicySpec:
        """Return the policy of `player`, which has the role `role`."""
        if player not in self._own:
            self._own[player] = self._settings.policy_spec(player, role)
        return self._own[player]

    def _spec_of_imported(self, snapshot: Snapshot) -> PolicySpec:
        if snapshot.snapshot_id not in self._imported:
            manifest = self._archive.manifest(snapshot.snapshot_id)
            self._imported[snapshot.snapshot_id] = PolicySpec.from_json(manifest["spec"])
        return self._imported[snapshot.snapshot_id]

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
            own = (spec.observation, spec.action)
            return tuple(seat for seat, space in enumerate(spaces) if space == own)
        return self._players_seats(competitor)
