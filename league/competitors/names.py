"""Names of competitors in a run, such as `main-0:greedy`, and the policies they refer to.

main-0@120000           a snapshot, by its id or a unique prefix of it
main-0                  the newest snapshot of a player
best                    the snapshot that leads the order by strength
main-0:greedy           in a mode (league.competitors.modes)
main-0:average, :nash   a mixture of snapshots (league.competitors.mixtures)
random                  a bot
mybots:choose           a function or class of the user's own; also function:mybots:choose
onnx:agent.onnx         an agent in a file, of any origin (league.models.bots.settings)
program:./bot --level 3, uci:stockfish?depth=3, xboard:fairymax, gtp:gnugo --mode gtp   programs, engines
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from analysis.statistics.strength.order import Order
from analysis.statistics.strength.recorded_order import recorded_order
from analysis.statistics.strength.wording import of_best
from league.competitors.mixtures import (
    AVERAGE,
    NASH,
    BadMixture,
    NamedMixture,
    average,
    listed,
    nash,
    of_player,
    split,
    until,
)
from league.competitors.modes import SAMPLE, BadMode, in_mode, is_mode, temperature_of
from league.envs import registry
from league.envs.base import BatchedGame
from league.models.actor import Actor
from league.models.bots.scripted import Bots, bots_for, seated_bot
from league.models.bots.settings import BotSettings, nearest_file, settings_in
from league.models.policies.mixture import MixtureActor, MixtureMember
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from league.moved_keys import bots_of
from league.rollout.requests import BotSource, MixtureSource, StoredSource
from league.rollout.snapshots import SnapshotSource, load_tensors
from storage import connect, open_reader
from storage.errors import Mistake, NotARun, UnknownSnapshot
from storage.layout import RATED
from storage.reader import ArchiveReader
from storage.records import MAIN, Bot, Snapshot
from storage.suggestions import near_or_some, nearest

_OWN_BOT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
BEST = "best"
_MISSPELT = 0.95  # similarity from which a name counts as a misspelling of another


class UnknownCompetitor(Mistake):
    """Name that fits no snapshot, player or bot."""


class Named(NamedTuple):
    """Competitor that a name refers to."""

    who: Snapshot | Bot | NamedMixture
    temperature: float | None  # None: the name has no mode


class Names:
    """Names of all competitors of one run."""

    def __init__(self, reader: ArchiveReader) -> None:
        self._reader = reader
        self._bots = known_bots(reader.config(), reader.env()["id"])
        self._by_id = {snapshot.snapshot_id: snapshot for snapshot in reader.snapshots()}
        self._newest = {snapshot.player: snapshot for snapshot in reader.snapshots()}

    def find(self, text: str) -> Named:
        """Return the snapshot, bot or mixture that `text` names, and its mode if `text` ends with one.

        A snapshot goes by its id or a unique prefix, by its player, whose newest snapshot is meant, or by
        `best`. A bot goes by its name, an import path ("module:Class") or a file ("onnx:FILE"). A mixture's
        mode is already that of its members. Raise UnknownCompetitor.
        """
        bot = text if settings_in(text) is not None else named_bot(text, self._bots)
        if bot is not None:
            return Named(Bot(bot), None)
        mixture = self.mixture(text)
        if mixture is not None:
            return Named(mixture, None)
        name, colon, mode = text.rpartition(":")
        if not colon:
            return Named(self.snapshot(text), None)
        try:
            temperature = temperature_of(mode)
        except BadMode as error:
            own = _OWN_BOT.fullmatch(text) is not None and not self._has(name)
            known = [bot for bot in self._bots if ":" in bot]
            near = nearest(text, known, cutoff=_MISSPELT if own else 0.6)
            if not near and not own:
                near = [file] if (file := nearest_file(text)) else []
            if own and not near:
                return Named(Bot(text), None)  # if it is no bot, an error follows when it is built
            remedy = f"; did you mean '{near[0]}'?" if near else ""
            raise UnknownCompetitor(f"'{text}': {error}{remedy}") from None
        return Named(self.snapshot(name), temperature)

    def source(self, text: str) -> StoredSource:
        """Return the source of the competitor that `text` names (see `find`). Raise UnknownCompetitor."""
        return self.source_of(*self.find(text))

    def source_of(self, who: Snapshot | Bot | NamedMixture, temperature: float | None = None) -> StoredSource:
        """Return the source of a competitor that was found; `None`: it plays in mode sample."""
        if isinstance(who, Bot):
            return BotSource(who.name)
        if isinstance(who, NamedMixture):
            return mixture_source(self._reader, who, self._reader.remote())
        mode = SAMPLE if temperature is None else temperature
        return source_of(self._reader, who, mode, self._reader.remote())

    def mixture(self, text: str) -> NamedMixture | None:
        """Return the mixture that `text` names; `None` for another form of name. Raise UnknownCompetitor."""
        if text in self._by_id:
            return None
        try:
            return self._mixture(text)
        except BadMixture as error:
            raise UnknownCompetitor(str(error)) from None

    def _mixture(self, text: str) -> NamedMixture | None:
        parts = split(text)
        if parts is not None and (not parts[0] or self._has(parts[0])):
            name, kind, temperature = parts
            snapshots = self._reader.snapshots()
            if kind == NASH:
                pool = self._pool(text, name, snapshots)
                found = nash(text, self._reader.run, pool)
            elif name:
                found = average(text, snapshots, self.snapshot(name))
            else:
                raise BadMixture(f"'{text}': found no player, expected one, such as main-0:{AVERAGE}")
            return found if temperature is None else found.at(temperature)
        return listed(text, self._member) if "+" in text or "*" in text else None

    def _pool(self, text: str, name: str, snapshots: Sequence[Snapshot]) -> Sequence[Snapshot]:
        """Return all `snapshots`, those of a player, or those up to a snapshot. Raise BadMixture."""
        if any(one.startswith(name) for one in self._by_id) and name and name not in self._newest:
            return until(snapshots, self.snapshot(name))
        return of_player(text, name, snapshots)

    def _member(self, text: str) -> tuple[Snapshot, float]:
        """Return a snapshot of a mixture, and its temperature. Raise UnknownCompetitor for anything else."""
        who, temperature = self.find(text)
        if not isinstance(who, Snapshot):
            kind = "bot" if isinstance(who, Bot) else "mixture"
            raise UnknownCompetitor(f"'{text}' is a {kind}, expected a snapshot: a mixture is made of those")
        return who, SAMPLE if temperature is None else temperature

    def _has(self, name: str) -> bool:
        """Return whether the run has something that `name` may refer to."""
        return (
            name == BEST
            or name in self._bots
            or name in self._newest
            or any(i.startswith(name) for i in self._by_id)
        )

    def snapshot(self, name: str) -> Snapshot:
        """Return the snapshot of an id or unique prefix, a player's newest, or `best`.

        Raise UnknownCompetitor.
        """
        if name not in self._by_id and name in self._newest:
            return self._newest[name]
        if name == BEST and name not in self._by_id:
            return self._best
        try:
            return self._reader.resolve(name)
        except UnknownSnapshot:
            known = [*self._newest, *self._bots, *self._by_id]
            fitting = [known_id for known_id in self._by_id if known_id.startswith(name)]
            near = f"nearest: {', '.join(fitting[:5])}" if fitting else near_or_some(name, known)
            problem = "fits several snapshots" if fitting else "is no snapshot, player or bot of this run"
            raise UnknownCompetitor(f"'{name}' {problem}; {near} (see: league ratings)") from None

    @functools.cached_property
    def _best(self) -> Snapshot:
        """The best snapshot of the run. Raise UnknownCompetitor before one was trained."""
        found = best_of(self._reader)
        if found is None:
            raise UnknownCompetitor(
                f"'{BEST}': none of {len(self._by_id)} snapshots was trained yet; name one by its id"
            )
        return found


def named_bot(text: str, bots: Collection[str]) -> str | None:
    """Return which of `bots` is meant by `text`, or `None`. Names of bots may contain colons.

    Bots have no modes: only `:sample` is allowed after a name. Raise UnknownCompetitor for another.
    """
    if text in bots:
        return text
    name, _, mode = text.rpartition(":")
    if name not in bots or not is_mode(mode):
        return None
    if mode != "sample":
        raise UnknownCompetitor(
            f"'{text}': found mode '{mode}' behind a bot, which plays as it always does; give its name alone"
        )
    return name


def name_of(source: StoredSource) -> str:
    """Return the name under which a stored competitor plays, mode included."""
    if isinstance(source, SnapshotSource):
        return in_mode(source.snapshot_id, source.temperature)
    return source.name


def role_of(reader: ArchiveReader, source: StoredSource) -> str | None:
    """Return the role of a stored competitor; `None` for a bot, and for a mixture of several roles."""
    found = {reader.find(snapshot.snapshot_id) for snapshot in snapshots_of(source)}
    roles = {str(one.role) if isinstance(one, Snapshot) else None for one in found}
    return roles.pop() if len(roles) == 1 else None


def mixture_source(reader: ArchiveReader, mixture: NamedMixture, remote: str | None) -> MixtureSource:
    """Return the source of a mixture. Raise as `source_of`."""
    return MixtureSource(
        mixture.name,
        tuple(source_of(reader, part.snapshot, part.temperature, remote) for part in mixture.parts),
        tuple(part.weight for part in mixture.parts),
    )


def source_of(
    reader: ArchiveReader, snapshot: Snapshot, temperature: float, remote: str | None
) -> SnapshotSource:
    """Return the source of a snapshot's policy at `temperature`.

    `remote`: the reader's remote, passed in so that it is looked up only once for many snapshots.
    Raise CorruptManifest, WeightsMismatch, RemoteFailed.
    """
    return SnapshotSource(
        snapshot_id=snapshot.snapshot_id,
        blob_hash=snapshot.blob_hash,
        path=str(reader.blob_path(snapshot)),
        spec=PolicySpec.from_json(reader.manifest(snapshot.snapshot_id)["spec"]),
        temperature=temperature,
        remote=remote,
        bytes=snapshot.bytes,
    )


def load_actor(run: Path, name: str) -> Actor:
    """Return the policy or bot that `name` refers to in `run`, after verifying its blob.

    Raise UnknownCompetitor, also for a name with a mode: callers choose the mode at each call of `act`.
    """
    reader = open_reader(run)
    config = reader.config()
    env: Mapping[str, Any] = config["env"]
    known = Names(reader)
    if known.find(name).temperature is not None:
        raise UnknownCompetitor(
            f"'{name}': found a mode, expected a name alone; call act(..., greedy=True) or "
            "act(..., temperature=0.5)"
        )
    return actor_of(known.source(name), env["id"], env["options"], bot_settings(config))


def actor_of(
    source: StoredSource, env_id: str, options: Mapping[str, Any], bots: Mapping[str, BotSettings]
) -> Actor:
    """Return the policy or bot of `source`, after verifying its blobs. Raise UnknownBot."""
    if isinstance(source, BotSource):  # the game is made for bots alone: others are loaded without it
        return seated_bot(source.name, env_id, registry.make(env_id, 1, **options), bots).actor
    return trained_actor(source)


def trained_actor(source: SnapshotSource | MixtureSource) -> Policy | MixtureActor:
    """Return the policy or mixture of `source`, after verifying its blobs."""
    if isinstance(source, SnapshotSource):
        return load_snapshot(source)
    weighted = zip(source.members, source.weights, strict=True)
    return MixtureActor([MixtureMember(load_snapshot(m), w, m.temperature) for m, w in weighted], source.name)


def load_snapshot(source: SnapshotSource) -> Policy:
    """Return the policy of `source`, after verifying its blob."""
    return Policy(source.spec, load_tensors(source), source.snapshot_id)


def snapshots_of(source: StoredSource) -> tuple[SnapshotSource, ...]:
    """Return the snapshots of a stored competitor: itself, or a mixture's members; none of a bot."""
    if isinstance(source, BotSource):
        return ()
    return source.members if isinstance(source, MixtureSource) else (source,)


def seats_for(source: SnapshotSource | MixtureSource, game: BatchedGame) -> list[int]:
    """Return the seats of `game` that a snapshot, or each member of a mixture, can take."""
    specs = [snapshot.spec for snapshot in snapshots_of(source)]
    return [
        seat
        for seat, own in enumerate(zip(game.observation_specs, game.action_specs, strict=True))
        if all(spec.plays(*own) for spec in specs)
    ]


def config_of_league(reader: ArchiveReader, run: str | Path | None = None) -> dict[str, Any]:
    """Return the settings of a run that trained its competitors; messages call it `run`. Raise NotARun."""
    config = reader.config() or {}
    if "competitors" in config or RATED in config:
        raise NotARun(
            f"{run or reader.run}: found the run of a tournament, expected that of a league; name the runs "
            "that its entrants come from"
        )
    return config


def bot_settings(config: Mapping[str, Any]) -> dict[str, BotSettings]:
    """Return the settings of bots in a run's config, by name."""
    return TypeAdapter(Bots).validate_python(bots_of(config.get("bots") or {}))


def known_bots(config: Mapping[str, Any], env_id: str) -> list[str]:
    """Return the bots of the game, of a run's config, and that its roles play against: "module:Class"."""
    roles = config.get("league", {}).get("roles", {}).values()
    played = [bot for role in roles for bot in role.get("opponents", {}).get("bots", {})]
    return [*bots_for(env_id), *config.get("bots", {}), *played]


def wanted(
    reader: ArchiveReader, command: str, names: Sequence[str], player: str | None, every: int | None
) -> Sequence[str]:
    """Return `names`, or without any the ids of every `every`-th snapshot of `player` (`None`: of all mains).

    These are counted back from the newest, and in order of freezing, player by player. Raise Mistake, in the
    name of `command`, for names beside `player` or `every`, for none of the three, and if there are none.
    """
    if player is None and every is None:
        if names:
            return names
        raise Mistake(
            f"{command}: found no ID, expected a competitor of the run; or --every K, --player P, for a "
            "curve over snapshots"
        )
    if names:
        given = "--player" if player is not None else "--every"
        raise Mistake(f"{command}: found {given} beside '{names[0]}', expected one of the two")
    found = [s for s in reader.snapshots() if (s.role == MAIN if player is None else s.player == player)]
    if not found:
        players = sorted({snapshot.player for snapshot in reader.snapshots()})
        near = nearest(player or MAIN, players, n=3, cutoff=0.3) or players[:3]
        problem = "no main has a snapshot" if player is None else f"'{player}' has no snapshots"
        raise Mistake(f"{reader.run}: {problem}; nearest players: {', '.join(near) or 'none'}")
    by_player = [[s for s in found if s.player == name] for name in dict.fromkeys(s.player for s in found)]
    return [snapshot.snapshot_id for own in by_player for snapshot in own[::-1][:: every or 1][::-1]]


def best_of(reader: ArchiveReader) -> Snapshot | None:
    """Return the snapshot that is likely the best, and print how likely; `None` before one was trained."""
    order = order_of_run(reader.run)
    if order.best is None:
        return None
    print(f"{BEST}: {of_best(order)}", file=sys.stderr)
    found = reader.find(order.best.competitor)
    return found if isinstance(found, Snapshot) else None


def order_of_run(run: Path) -> Order:
    """Return the order of a run's competitors by strength, from all that it has recorded."""
    with connect(run) as live, live.at_one_moment():
        return recorded_order(live)
