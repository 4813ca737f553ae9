"""Hand: the matches that a runner plays, where each of them is, and what it must remember of it.

A request that is played in fragments leaves a hand of unfinished matches. The next request goes on with
them, beside its own: some are in the slots of the game, others wait for a slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from league.models.actor import Actor
from league.rollout.openings import Openings
from league.rollout.requests import LiveSource, PlayRequest, Source
from league.rollout.traces.recorder import Held
from league.rollout.traces.transcript import NO_ACTIONS, Actions, moved
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.records import MatchBatch, ResultBatch

WAITS = -1  # in place of a slot
# arrays [M, ...] of one width
_OF_EACH_MATCH = ("slot", "age", "opens", "moves", "started_at", "score", "reward")


@dataclass(frozen=True, slots=True)
class MatchHand:
    """M matches; `matches.competitors` has a name for each of `sources`, a live player's once per version."""

    matches: MatchBatch
    sources: tuple[Source, ...]
    slot: Indices  # [M]; WAITS: not begun
    age: Indices  # [M], number of the request that the match came with
    opens: Bools  # [M], whether it begins as `openings` demands
    moves: Indices  # [M], number of its next decision in the opening
    started_at: Floats  # [M], seconds since the epoch; 0: not begun
    score: Floats  # [M, S]
    memory: Floats32  # [M, S, widest], of the seats' actors
    reward: Floats32  # [M, S], since the seats' last decisions
    openings: Openings | None = None
    actions: Actions = NO_ACTIONS  # of the recorded matches so far, by row
    held: tuple[tuple[int, Held], ...] = ()  # decisions held back, by source, with rows as matches
    began: Mapping[tuple[str, int], Actor] = field(default_factory=dict)  # live players by version

    def __len__(self) -> int:
        return len(self.matches)

    @staticmethod
    def of(request: PlayRequest, age: int = 0) -> MatchHand:
        """Return the matches of a request, none of which has begun.

        Its sources also have the live players of earlier matches, so each learner is among them.
        """
        matches, shape = request.matches, request.matches.seat.shape
        others = request.fragment.players
        if others:
            names = (*matches.competitors, *(source.player for source in others))
            matches = replace(matches, competitors=names)
        return MatchHand(
            matches=matches,
            sources=(*request.sources, *others),
            slot=np.full(shape[0], WAITS, dtype=np.int64),
            age=np.full(shape[0], age, dtype=np.int64),
            opens=np.full(shape[0], request.openings is not None),
            moves=np.zeros(shape[0], dtype=np.int64),
            started_at=np.zeros(shape[0], dtype=np.float64),
            score=np.zeros(shape, dtype=np.float64),
            memory=np.zeros((*shape, 0), dtype=np.float32),
            reward=np.zeros(shape, dtype=np.float32),
            openings=request.openings,
        )

    def take(self, rows: Indices) -> MatchHand:
        """Return the matches in these rows [k], and the sources that sit in them."""
        matches = self.matches.take(rows)
        used = np.unique(matches.seat)
        seated = _place(len(self.sources), used)
        row = _place(len(self), rows)
        names = tuple(matches.competitors[who] for who in used.tolist())
        held = (
            (int(seated[who]), own.take(kept, row[own.match[kept]]))
            for who, own in self.held
            for kept in [np.flatnonzero(row[own.match] >= 0)]
            if len(kept)
        )
        return replace(
            self,
            matches=replace(matches, competitors=names, seat=seated[matches.seat].astype(np.int32)),
            sources=tuple(self.sources[who] for who in used.tolist()),
            actions=moved(self.actions, row),
            held=tuple(held),
            **{name: getattr(self, name)[rows] for name in (*_OF_EACH_MATCH, "memory")},
        )

    def with_newest(self, players: Mapping[str, LiveSource]) -> MatchHand:
        """Return the same matches with other sources for the live players; each must have one."""
        sources = (players[s.player] if isinstance(s, LiveSource) else s for s in self.sources)
        return replace(self, sources=tuple(sources))

    def with_actors(self, actors: Mapping[Source, Actor]) -> MatchHand:
        """Return the same matches with the `actors` of their live players, as they are now."""
        live = (source for source in self.sources if isinstance(source, LiveSource))
        return replace(self, began={(source.player, source.version): actors[source] for source in live})

    def joined(self, other: MatchHand) -> MatchHand:
        """Return the matches of both, these first; `other` is of the newer request."""
        keys = [_key(*each) for each in zip(self.matches.competitors, self.sources, strict=True)]
        place = np.arange(len(other.sources))
        sources, names = list(self.sources), list(self.matches.competitors)
        for i, (name, source) in enumerate(zip(other.matches.competitors, other.sources, strict=True)):
            key = _key(name, source)
            if key not in keys:
                keys.append(key)
                sources.append(source)
                names.append(name)
            place[i] = keys.index(key)
        types = tuple(dict.fromkeys([*self.matches.match_types, *other.matches.match_types]))
        kind = [
            np.array([types.index(name) for name in hand.matches.match_types], dtype=np.int16)
            for hand in (self, other)
        ]
        first, second = self.matches, other.matches
        matches = replace(
            second,
            match_types=types,
            competitors=tuple(names),
            match_id=np.concatenate([first.match_id, second.match_id]),
            seed=np.concatenate([first.seed, second.seed]),
            match_type=np.concatenate([kind[0][first.match_type], kind[1][second.match_type]]),
            seat=np.concatenate([first.seat, place[second.seat].astype(np.int32)]),
            learning=np.concatenate([first.learning, second.learning]),
        )
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _OF_EACH_MATCH
        }
        widest = max(self.memory.shape[2], other.memory.shape[2])
        return replace(
            self,
            matches=matches,
            sources=tuple(sources),
            memory=np.concatenate(
                [
                    np.pad(memory, ((0, 0), (0, 0), (0, widest - memory.shape[2])))
                    for memory in (self.memory, other.memory)
                ]
            ),
            openings=other.openings or self.openings,
            **arrays,
        )


def named(results: ResultBatch) -> ResultBatch:
    """Return the results with each competitor that sits in them named once."""
    matches = results.matches
    used = np.unique(matches.seat)
    names = [matches.competitors[who] for who in used.tolist()]
    once = tuple(dict.fromkeys(names))
    place = np.zeros(len(matches.competitors), dtype=np.int32)
    place[used] = [once.index(name) for name in names]
    return replace(results, matches=replace(matches, competitors=once, seat=place[matches.seat]))


def _key(name: str, source: Source) -> tuple[str, int]:
    return name, source.version if isinstance(source, LiveSource) else 0


def _place(size: int, rows: npt.NDArray) -> Indices:
    """Return [size] the place of each number among `rows`; -1: it is not there."""
    place = np.full(size, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return place
