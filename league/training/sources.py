"""Where the competitors of a run come from: what they play with, where it lies, which seats they may take."""

from __future__ import annotations

from league.config.settings import Settings
from league.models.bots.seated import seated_bot
from league.models.spec import PolicySpec
from league.rollout.requests import BotSource, LiveSource, Source
from league.rollout.snapshots import SnapshotSource
from storage.archive import Archive
from storage.records import IMPORTED, Bot, Competitor, LivePlayer, Role, Snapshot


class Sources:
    """Of one run in training."""

    def __init__(self, settings: Settings, archive: Archive) -> None:
        self._settings = settings
        self._archive = archive
        self._game = settings.game
        self._seats_of = settings.seats_of()
        self._own: dict[str, PolicySpec] = {}  # by player
        self._imported: dict[str, PolicySpec] = {}  # by snapshot

    def of(self, competitor: Competitor, version: int = 0) -> Source:
        """`version`: of the weights, if it is a player as it plays now."""
        if isinstance(competitor, LivePlayer):
            return LiveSource(competitor.player, version, self.spec_of(competitor))
        if isinstance(competitor, Snapshot):
            return SnapshotSource(
                competitor.snapshot_id,
                competitor.blob_hash,
                str(self._archive.blob_path(competitor)),
                self.spec_of(competitor),
                remote=self._settings.storage.remote,
            )
        assert isinstance(competitor, Bot)  # entrants take part in tournaments, not in leagues
        return BotSource(competitor.name)

    def spec_of(self, competitor: LivePlayer | Snapshot) -> PolicySpec:
        """This league's own snapshots have their players' policies; imported ones bring theirs."""
        if competitor.role == IMPORTED and isinstance(competitor, Snapshot):
            return self._spec_of_imported(competitor)
        return self.spec_of_player(competitor.player, competitor.role)

    def spec_of_player(self, player: str, role: Role) -> PolicySpec:
        if player not in self._own:
            self._own[player] = self._settings.policy_spec(player, role)
        return self._own[player]

    def _spec_of_imported(self, snapshot: Snapshot) -> PolicySpec:
        if snapshot.snapshot_id not in self._imported:
            manifest = self._archive.manifest(snapshot.snapshot_id)
            self._imported[snapshot.snapshot_id] = PolicySpec.from_json(manifest["spec"])
        return self._imported[snapshot.snapshot_id]

    def seats_of(self, competitor: Competitor) -> tuple[int, ...] | None:
        """The seats that it may take; none: all. What was imported may sit wherever its spaces are."""
        if self._seats_of is None:
            return None
        if isinstance(competitor, Bot):
            settings = self._settings
            return seated_bot(competitor.name, settings.env.id, self._game, settings.bots).seats
        if isinstance(competitor, Snapshot) and competitor.role == IMPORTED:
            spec = self.spec_of(competitor)
            spaces = zip(self._game.observation_specs, self._game.action_specs, strict=True)
            own = (spec.observation, spec.action)
            return tuple(seat for seat, space in enumerate(spaces) if space == own)
        return self._seats_of(competitor)
