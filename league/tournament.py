"""Play stored competitors against each other. Builds no learner, writes nothing.

The unit is the pair: one seed, played with every rotation of the seats, so that neither the luck
of the deal nor the first move favours anybody.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from league.envs import registry
from league.envs.base import BatchedGame
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.models.bots.settings import BotSettings
from league.models.policy import Policy
from league.models.scripted import Bots, bots_for
from league.models.spec import PolicySpec
from league.rollout.env_runner import BotSource, EnvRunner, PlayRequest, RolloutSettings
from league.rollout.snapshots import SnapshotSource, load_tensors
from storage.archive import ArchiveReader, open_reader
from storage.errors import Mistake, UnknownSnapshot
from storage.node_cache import CacheSettings
from storage.records import MatchBatch, Outcome, Purpose, ResultBatch, Snapshot

MODES = ("sample", "greedy")


class UnknownCompetitor(Mistake):
    """No snapshot, player or bot goes by that name."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of `a` against `b`, seats swapped within each pair."""

    a: str
    b: str
    results: ResultBatch  # matches 2 i and 2 i + 1 are pair i; in the first, a sits in seat 0

    @property
    def outcome_of_a(self) -> np.ndarray:
        """Outcomes of a, one per game [2 * pairs]."""
        games = np.arange(len(self.results))
        return self.results.outcome[games, games % 2]

    @property
    def pair_scores(self) -> np.ndarray:
        """Mean points of a per pair [pairs]: a win is 1, a draw one half."""
        outcome = self.outcome_of_a
        points = np.where(outcome == Outcome.WIN, 1.0, np.where(outcome == Outcome.DRAW, 0.5, 0.0))
        return points.reshape(-1, 2).mean(axis=1)


def compare(run: Path, a: str, b: str, *, pairs: int, seed: int = 0) -> Comparison:
    """Play `pairs` pairs of `a` against `b`, as the run's snapshots, players and bots name them.

    Raises UnknownCompetitor when a name fits nothing, CorruptBlob when its weights are damaged,
    Mistake for a game without two seats.
    """
    reader = open_reader(run)
    config = reader.config()
    env: Mapping[str, Any] = config["env"]
    game = registry.make(env["id"], 1, **env["options"])
    if game.num_seats != 2:
        raise Mistake(f"compare: '{env['id']}' has {game.num_seats} seats, expected 2")
    sources = tuple(resolve(reader, name, env["id"]) for name in (a, b))
    for name, source in zip((a, b), sources, strict=True):
        _expect_fit(name, source, game)
    names = tuple(_label(source) for source in sources)
    games = np.arange(2 * pairs)
    rng = np.random.default_rng(seed)
    batch = MatchBatch(
        env=env["id"],
        purpose=Purpose.TOURNAMENT,
        match_types=("compare",),
        competitors=names,
        match_id=games,
        seed=np.repeat(rng.integers(2**63, size=pairs), 2),
        match_type=np.zeros(len(games), dtype=np.int16),
        seat=np.where(games[:, None] % 2 == 0, [[0, 1]], [[1, 0]]).astype(np.int32),
        learning=np.zeros((len(games), 2), dtype=np.bool_),
    )
    settings = RolloutSettings(slots=min(len(games), 1024), step_limit=config["rollout"]["step_limit"])
    cache = CacheSettings(verify="always")
    runner = EnvRunner(env["id"], env["options"], settings, cache=cache, bots=bot_settings(config))
    request = PlayRequest(batch, sources, learners=(), seed=int(rng.integers(2**63)))
    results, _, _ = runner.play(request, {})
    return Comparison(names[0], names[1], results)


def resolve(reader: ArchiveReader, text: str, env_id: str) -> SnapshotSource | BotSource:
    """A snapshot by id or unique prefix, a player (its newest snapshot) or a bot; `:greedy` behind it."""
    config = reader.config()
    bots = [*bots_for(env_id), *config.get("bots", {}), *_bots_played(config)]
    if text in bots:
        return BotSource(text)
    name, _, mode = text.partition(":")
    mode = mode or "sample"
    if mode not in MODES:
        raise UnknownCompetitor(f"'{text}': mode '{mode}', expected one of: {', '.join(MODES)}")
    snapshots = reader.snapshots()
    newest = {snapshot.player: snapshot for snapshot in snapshots}
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    if name in by_id:
        return _source(reader, by_id[name], mode)
    if name in newest:
        return _source(reader, newest[name], mode)
    if name in bots:
        return BotSource(name)
    try:
        return _source(reader, reader.resolve(name), mode)
    except UnknownSnapshot:
        known = [*newest, *by_id, *bots]
        fitting = [known_id for known_id in by_id if known_id.startswith(name)]
        near = fitting[:5] or difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        problem = "fits several snapshots" if fitting else "is no snapshot, player or bot of this run"
        raise UnknownCompetitor(
            f"'{name}' {problem}; nearest: {', '.join(near) or 'none'} (see: league ratings)"
        ) from None


def load_actor(run: Path, name: str) -> Actor:
    """The policy or bot that `name` stands for in `run`, its blob verified.

    Raises UnknownCompetitor, also for a name with a mode: that is chosen at each call of `act`.
    """
    if ":" in name:
        raise UnknownCompetitor(f"'{name}': found a mode, expected a name alone; call act(..., greedy=True)")
    reader = open_reader(run)
    config = reader.config()
    env: Mapping[str, Any] = config["env"]
    source = resolve(reader, name, env["id"])
    if isinstance(source, BotSource):
        game = registry.make(env["id"], 1, **env["options"])
        return seated_bot(source.name, env["id"], game, bot_settings(config)).actor
    return Policy(source.spec, load_tensors(source), source.snapshot_id)


def bot_settings(config: Mapping[str, Any]) -> dict[str, BotSettings]:
    """The table `bots` of a run's config."""
    return TypeAdapter(Bots).validate_python(config.get("bots", {}))


def _bots_played(config: Mapping[str, Any]) -> list[str]:
    """The bots that the run's roles play, such as "module:Class"."""
    roles = config.get("league", {}).get("roles", {}).values()
    return [bot for role in roles for bot in role.get("opponents", {}).get("bots", {})]


def _expect_fit(name: str, source: SnapshotSource | BotSource, game: BatchedGame) -> None:
    """Raise Mistake for a snapshot that cannot take every seat, as seats are swapped."""
    if isinstance(source, BotSource):
        return
    for seat, spaces in enumerate(zip(game.observation_specs, game.action_specs, strict=True)):
        if spaces != (source.spec.observation, source.spec.action):
            raise Mistake(
                f"compare: '{name}' cannot take seat {seat} of '{game.id}', where other things are seen or "
                "done than it knows; compare competitors of a game whose seats are alike"
            )


def _source(reader: ArchiveReader, snapshot: Snapshot, mode: str) -> SnapshotSource:
    return SnapshotSource(
        snapshot_id=snapshot.snapshot_id,
        blob_hash=snapshot.blob_hash,
        path=str(reader.blob_path(snapshot)),
        spec=PolicySpec.from_json(reader.manifest(snapshot.snapshot_id)["spec"]),
        greedy=mode == "greedy",
        remote=reader.remote(),
    )


def _label(source: SnapshotSource | BotSource) -> str:
    if isinstance(source, SnapshotSource):
        return source.snapshot_id + (":greedy" if source.greedy else "")
    return source.name
