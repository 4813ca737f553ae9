"""The field whose strengths are estimated: competitors, the stages of those that learn, and their lines.

A player that learns is one node for each stage of its training. The snapshot that ends a stage descends from
the stage by half a generation, and the stage from the snapshot that it began with by the other half. What
descends from untrained weights begins a line of its own: the first steps of training are larger than others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.hierarchy.prior import Lines
from storage.arrays import Floats, Indices

MOST = 75  # snapshots whose strengths are estimated; others are placed among them by their ratings
_NEWEST = MOST // 3
_HALF = 0.5  # generation

Node = tuple[str, str | None]  # a competitor; of a player that learns, the snapshot that ends its stage


@dataclass(frozen=True, slots=True)
class RunMember:
    """A competitor of a run."""

    competitor: str
    kind: str  # player, snapshot, bot
    role: str | None = None  # `None`: a bot
    player: str | None = None  # whose policy it is; `None`: a bot
    parent: str | None = None  # the snapshot that its weights were trained on from
    env_steps: int = 0  # of its player, when it was frozen
    untrained: bool = False  # first weights that no training has changed
    mu: float | None = None  # TrueSkill's


@dataclass(frozen=True, slots=True)
class Meeting:
    """All games of two competitors, a player that learns in one stage of its training."""

    home: str
    away: str
    games: float
    points: float  # of home; a draw is half a win
    home_until: str | None = None  # the snapshot that ended home's stage; `None`: no stage, or the last one
    away_until: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of a competitor in a game with one seat, a player that learns in one stage."""

    competitor: str
    games: int
    mean: float
    variance: float  # of one game
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """N nodes, their lines, and the m pairings in which they met."""

    nodes: tuple[Node, ...]
    lines: Lines
    home: Indices  # [m]
    away: Indices  # [m]
    games: Floats  # [m]
    points: Floats  # [m] of home
    moving: np.ndarray  # [m] bool: a player that learns was in the pairing

    def of(self, member: RunMember) -> int | None:
        """Return the node of a member as it is now; `None` if it is left out."""
        node = (member.competitor, None)
        return self.nodes.index(node) if node in self.nodes else None


def field_of(
    members: Sequence[RunMember], meetings: Iterable[Meeting], teams: int = 2, always: Collection[str] = ()
) -> Field:
    """Return the field of a run in which `teams` teams play a match; `always` are never left out."""
    kept = _kept(members) | set(always)
    known = {member.competitor: member for member in members if member.competitor in kept}
    met = []
    for each in meetings:
        if each.home in known and each.away in known:
            home, away = _node(known, each.home, each.home_until), _node(known, each.away, each.away_until)
            if home is not None and away is not None and home != away and each.games > 0:
                met.append((home, away, each))
    stages = {node for home, away, _ in met for node in (home, away) if known[node[0]].kind == "player"}
    nodes: list[Node] = [(member.competitor, None) for member in known.values()]
    nodes += sorted(node for node in stages if node[1] is not None)
    index = {node: number for number, node in enumerate(nodes)}
    every = {member.competitor: member for member in members}
    parent, generations = np.full(len(nodes), -1, dtype=np.int64), np.ones(len(nodes))
    for number, node in enumerate(nodes):
        found = _origin(node, every, index)
        if found is not None:
            parent[number], generations[number] = found
    row = {pair: i for i, pair in enumerate(dict.fromkeys((index[a], index[b]) for a, b, _ in met))}
    games, points = np.zeros(len(row)), np.zeros(len(row))
    for a, b, each in met:
        at = row[index[a], index[b]]
        # a match of T teams is T (T - 1) / 2 comparisons, of which (T + 1) / 3 are as good as one game
        games[at] += each.games * 3.0 / (max(teams, 2) + 1.0)
        points[at] += each.points * 3.0 / (max(teams, 2) + 1.0)
    pairs = np.array(list(row), dtype=np.int64).reshape(-1, 2)
    learns = np.array([known[name].kind == "player" for name, _ in nodes], dtype=np.bool_)
    first, second = pairs[:, 0], pairs[:, 1]
    moving = np.asarray(learns[first] | learns[second])
    return Field(tuple(nodes), Lines(parent, generations), first, second, games, points, moving)


def _kept(members: Sequence[RunMember]) -> set[str]:
    """Return the competitors that are estimated: all, or of many snapshots the newest, best and some."""
    snapshots = [member for member in members if member.kind == "snapshot"]
    kept = {member.competitor for member in members if member.kind != "snapshot"}
    if len(snapshots) <= MOST:
        return kept | {member.competitor for member in snapshots}
    kept |= {member.competitor for member in snapshots if member.untrained}
    kept |= {member.competitor for member in snapshots[-_NEWEST:]}
    rated = sorted((member for member in snapshots if member.mu is not None), key=lambda m: m.mu or 0.0)
    kept |= {member.competitor for member in rated[-_NEWEST:]}
    rest = [member for member in snapshots if member.competitor not in kept]
    some = np.linspace(0, len(rest) - 1, min(len(rest), _NEWEST)).round().astype(int)
    return kept | {rest[i].competitor for i in some.tolist()}


def _node(known: dict[str, RunMember], competitor: str, until: str | None) -> Node | None:
    """Return the node that played; `None` if the snapshot that ended its stage is left out."""
    if known[competitor].kind != "player" or until is None:
        return competitor, None
    return (competitor, until) if until in known else None


def _origin(node: Node, every: dict[str, RunMember], index: dict[Node, int]) -> tuple[int, float] | None:
    """Return the node that a node descends from, and the generations between; `None`: from none."""
    name, until = node
    member = every[name]
    if member.kind == "bot":
        return None
    apart = 0.0
    if until is not None:  # a stage that has ended
        name, apart = str(every[until].parent), _HALF
    elif member.kind == "player":
        name, apart = str(member.parent), _HALF
    while name in every:
        member = every[name]
        if apart and (name, None) in index:
            return None if member.untrained else (index[name, None], apart)
        stage = (member.player or "", name)
        if member.kind == "snapshot" and (name, None) in index and stage in index:
            return index[stage], apart + _HALF
        if member.parent is None:
            return None
        name, apart = member.parent, apart + 1.0
    return None
