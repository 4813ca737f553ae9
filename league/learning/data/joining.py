"""Joining: fragments of matches under way, put together before they are learned from.

The target of a step depends on the steps that follow it. So steps of a match that goes on wait until enough
of what follows is known, or until the match ends, and each is learned from once. Which steps are learned
from together, and with which targets, is then the same as for matches that were played whole.

    unit     steps that are learned from as one sequence: each waits until it is full. It is
             `learner.sequence_length` where a loss or a memory goes along sequences, else 1
    ahead    steps that are to be known behind those: the horizon of GAE (`horizon`), else 0

A fragment is the next one of its match if it begins at the observation that the last one ended before. If it
does not, fragments in between were lost, and what waits is learned from as far as it goes. The same is done
if no fragment comes for a long time, as the match was dropped, and with the oldest steps where more than
`MOST_BYTES` would wait.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.episode import Episodes, ranges

MOST_BYTES = 2**29  # of steps of one player that wait
SMALLEST_WEIGHT = 1e-3  # of an error behind the horizon
LEAST_AGE = 16  # blocks of experience without a fragment of a match, before it counts as dropped
MOST_GONE = 2**16  # dropped matches that are remembered, to learn how long fragments may take

Key = tuple[int, int]  # match and seat


def horizon(decay: float) -> float:
    """Return after how many steps an error counts for less than SMALLEST_WEIGHT, if each step decays it.

    `decay` in [0, 1]: gamma times lambda. Infinite at 1.
    """
    if decay in (0.0, 1.0):
        return 0.0 if decay == 0.0 else math.inf
    return math.ceil(math.log(SMALLEST_WEIGHT) / math.log(decay))


class _Segment(NamedTuple):
    """Steps of one fragment, one behind the other: rows `first` to `last` of the block that it came with."""

    block: Episodes
    episode: int
    first: int
    last: int

    @property
    def steps(self) -> int:
        """Number of the steps."""
        return self.last - self.first


@dataclass(slots=True, eq=False)
class _Chain:
    """Steps of one seat in one match, in order of time, that are not learned from yet."""

    segments: deque[_Segment] = field(default_factory=deque)
    steps: int = 0
    touched: int = 0  # number of the block that brought the last fragment
    expected: npt.NDArray | None = None  # the first observation of the next fragment; None: not known

    def first(self, steps: int, *, remove: bool) -> list[_Segment]:
        """Return the first steps; the last of their fragments may be split."""
        found, left = [], steps
        for segment in list(self.segments):
            if not left:
                break
            taken = min(left, segment.steps)
            found.append(segment._replace(last=segment.first + taken))
            left -= taken
            if remove:
                self.segments.popleft()
                if taken < segment.steps:
                    self.segments.appendleft(segment._replace(first=segment.first + taken))
        self.steps -= steps if remove else 0
        return found


class Joiner:
    """Steps of one player's matches under way. The same episodes in the same order give the same result."""

    def __init__(self, unit: int = 1, ahead: float = 0.0, *, splits: bool = True) -> None:
        """Begin with no match; `splits`: whether fragments may be split, as there are no memories."""
        self.cut_early = 0  # matches of which steps had to be learned from too early, as more did not fit
        self._unit, self._ahead, self._splits = unit, ahead, splits
        self._chains: OrderedDict[Key, _Chain] = OrderedDict()  # those extended last are last
        self._gone: OrderedDict[Key, int] = OrderedDict()  # dropped matches, with their last block
        self._blocks = 0  # of experience so far
        self._gap = 0  # most blocks between two fragments of a match
        self._steps = 0
        self._step_bytes = 0

    def join(self, episodes: Episodes) -> Episodes | None:
        """Take in episodes, and return those that can be learned from now; `None` if there are none."""
        if episodes.goes_on is None and not self._chains:
            return episodes
        self._blocks += 1
        keys = _keys(episodes)
        going = set() if episodes.goes_on is None else {keys[e] for e in np.flatnonzero(episodes.goes_on)}
        mine = np.array([key in going or key in self._chains for key in keys], dtype=np.bool_)
        if not mine.any():
            return self._with(episodes, [])
        block = episodes.take(np.flatnonzero(mine))  # copies, which keep no more in memory than they are
        pieces: list[_Piece] = []
        for key, segment, following in _fragments(block):
            self._extend(key, segment, following, pieces)
        return self._with(None if mine.all() else episodes.take(np.flatnonzero(~mine)), pieces)

    def _with(self, whole: Episodes | None, pieces: list[_Piece]) -> Episodes | None:
        """Return `whole` and the pieces, with those of matches that no longer wait."""
        self._drop_old(pieces)
        self._make_room(pieces)
        found = [] if whole is None else [whole]
        found += [gathered(pieces)] if pieces else []
        return Episodes.concatenate(found) if found else None

    def _extend(
        self, key: Key, segment: _Segment, following: npt.NDArray | None, pieces: list[_Piece]
    ) -> None:
        """Add a fragment to its match; `following`: the first observation of the next one, or `None`."""
        chain = self._chains.get(key)
        last = self._gone.pop(key, None) if chain is None else chain.touched
        if last is not None:
            self._gap = max(self._gap, self._blocks - last)
        begins = segment.block.observation[segment.first]
        if chain is not None and chain.expected is not None and not np.array_equal(chain.expected, begins):
            self._close(key, pieces)
            chain = None
        if chain is None:
            chain = self._chains[key] = _Chain()
        self._add(chain, segment, following)
        self._chains.move_to_end(key)
        chain.touched = self._blocks
        if following is None:
            self._close(key, pieces)
        elif due := self._due(chain):
            self._steps -= due
            pieces.append(_Piece(chain.first(due, remove=True), True))

    def _add(self, chain: _Chain, segment: _Segment, following: npt.NDArray | None) -> None:
        chain.segments.append(segment)
        chain.steps += segment.steps
        chain.expected = following
        self._steps += segment.steps
        self._step_bytes = max(self._step_bytes, _step_bytes(segment.block))

    def _due(self, chain: _Chain) -> int:
        """Return how many of the first steps can be learned from."""
        free = chain.steps - self._ahead
        if free < self._unit:
            return 0
        if self._splits:
            return int(free) // self._unit * self._unit
        ends = np.cumsum([segment.steps for segment in chain.segments])
        fitting = ends[(ends >= self._unit) & (ends <= free)]
        return int(fitting[-1]) if len(fitting) else 0

    def _close(self, key: Key, pieces: list[_Piece]) -> None:
        """Return all steps of a match as a piece: it is over, or nothing that follows will come."""
        chain = self._chains.pop(key)
        self._steps -= chain.steps
        if chain.segments:
            pieces.append(_Piece(list(chain.segments), False))

    def _drop_old(self, pieces: list[_Piece]) -> None:
        """Close matches of which no fragment has come for twice as long as one took so far."""
        limit = 2 * self._gap + LEAST_AGE
        while self._chains:
            key, chain = next(iter(self._chains.items()))
            if self._blocks - chain.touched <= limit:
                break
            self._gone[key] = chain.touched
            self._close(key, pieces)
        while len(self._gone) > MOST_GONE:
            self._gone.popitem(last=False)

    def _make_room(self, pieces: list[_Piece]) -> None:
        """Close the matches that were extended longest ago, until the rest is not more than MOST_BYTES."""
        while self._steps * self._step_bytes > MOST_BYTES:
            key, chain = next(iter(self._chains.items()))
            self.cut_early += chain.steps > 0
            self._close(key, pieces)

    def beyond(self, episodes: Episodes) -> Episodes | None:
        """Return the steps that wait and follow these episodes, as far ahead as their targets look."""
        if not self._ahead or not self._chains or episodes.goes_on is None:
            return None
        keys = _keys(episodes)
        chains = (self._chains.get(keys[e]) for e in np.flatnonzero(episodes.goes_on).tolist())
        pieces = [
            _Piece(chain.first(int(min(self._ahead, chain.steps)), remove=False), False)
            for chain in dict.fromkeys(chain for chain in chains if chain is not None)
            if chain.steps
        ]
        return gathered(pieces) if pieces else None

    # ------------------------------------------------------------------ state

    @property
    def nbytes(self) -> int:
        """Bytes of the steps that wait, about."""
        return self._steps * self._step_bytes

    def state(self) -> dict[str, npt.NDArray]:
        """Return all that waits as arrays by name; {} if nothing does."""
        held = [(chain, segment) for chain in self._chains.values() for segment in chain.segments]
        if not held:
            return {}
        touched = np.array([chain.touched for chain, _ in held])
        counts = {"touched": touched, "counts": np.array([self._blocks, self._gap])}
        return counts | gathered([_Piece([segment], True) for _, segment in held]).arrays()

    def load(self, player: str, state: Mapping[str, npt.NDArray]) -> None:
        """Let what waited in `state`, which `state` returned, wait here alone."""
        self._chains.clear()
        self._gone.clear()
        self._steps = self.cut_early = 0
        if not state:
            return
        self._blocks, self._gap = (int(n) for n in state["counts"])
        columns = {name: array for name, array in state.items() if name not in ("touched", "counts")}
        held = Episodes(player, **columns)
        for (key, segment, following), touched in zip(_fragments(held), state["touched"], strict=True):
            chain = self._chains.setdefault(key, _Chain(touched=int(touched)))
            self._add(chain, segment, following)


class _Piece(NamedTuple):
    """Steps of a match, in order of time, that become one episode."""

    segments: Sequence[_Segment]
    goes_on: bool  # whether a later episode goes on with them


def _keys(episodes: Episodes) -> list[Key]:
    return list(zip(episodes.match_id.tolist(), episodes.seat.tolist(), strict=True))


def _fragments(block: Episodes) -> Iterator[tuple[Key, _Segment, npt.NDArray | None]]:
    """Yield each episode, with the first observation of its next fragment, if it goes on."""
    goes_on = np.zeros(len(block), np.bool_) if block.goes_on is None else block.goes_on
    place = np.cumsum(~block.terminated) - 1
    offset = block.offset.tolist()
    for e, key in enumerate(_keys(block)):
        following = block.bootstrap[place[e]] if goes_on[e] else None
        yield key, _Segment(block, e, offset[e], offset[e + 1]), following


def _step_bytes(block: Episodes) -> int:
    return sum(array[:1].nbytes for array in (block.observation, block.mask, block.action)) + 8


def gathered(pieces: Sequence[_Piece]) -> Episodes:
    """Return an episode of each piece, one or more: with the version and memory of its first fragment."""
    segments = [segment for piece in pieces for segment in piece.segments]
    blocks = list({id(segment.block): segment.block for segment in segments}.values())
    number = {id(block): i for i, block in enumerate(blocks)}
    of = np.array([number[id(segment.block)] for segment in segments])
    start = np.array([segment.first for segment in segments])
    length = np.array([segment.steps for segment in segments])
    by_block = np.argsort(of, kind="stable")
    mine = [by_block[of[by_block] == i] for i in range(len(blocks))]
    rows = [ranges(start[own], length[own]) for own in mine]
    place = np.empty(len(segments), np.int64)
    place[by_block] = np.cumsum(length[by_block]) - length[by_block]
    order = ranges(place, length)

    def column(name: str) -> npt.NDArray:
        return np.concatenate([getattr(b, name)[r] for b, r in zip(blocks, rows, strict=True)])[order]

    first = [piece.segments[0] for piece in pieces]
    last = [piece.segments[-1] for piece in pieces]
    ends = [segment.last == segment.block.offset[segment.episode + 1] for segment in last]
    terminated = np.array([e and s.block.terminated[s.episode] for e, s in zip(ends, last, strict=True)])
    cut = [(e, s) for e, s, over in zip(ends, last, terminated, strict=True) if not over]
    sizes = np.add.reduceat(length, np.cumsum([0, *(len(piece.segments) for piece in pieces[:-1])]))
    memory = None
    if any(block.memory is not None for block in blocks):
        size = next(block.memory.shape[1] for block in blocks if block.memory is not None)
        empty = np.zeros(size, np.float32)
        memory = np.stack([empty if s.block.memory is None else s.block.memory[s.episode] for s in first])
    return Episodes(
        player=blocks[0].player,
        offset=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        match_id=np.array([s.block.match_id[s.episode] for s in first]),
        seat=np.array([s.block.seat[s.episode] for s in first]),
        version=np.array([s.block.version[s.episode] for s in first]),
        terminated=terminated,
        observation=column("observation"),
        mask=column("mask"),
        action=column("action"),
        log_prob=column("log_prob"),
        reward=column("reward"),
        bootstrap=_following(cut, blocks[0]),
        memory=memory,
        goes_on=np.array([piece.goes_on for piece in pieces]) & ~terminated,
        unbroken=np.array([all(map(_unbroken, piece.segments)) for piece in pieces]),
    )


def _unbroken(segment: _Segment) -> bool:
    known = segment.block.unbroken
    return known is not None and bool(known[segment.episode])


def _following(cut: Sequence[tuple[bool, _Segment]], block: Episodes) -> npt.NDArray:
    """Return the observations behind segments [K, *shape]; `True`: it is the end of its fragment."""
    found = []
    for end, segment in cut:
        own = segment.block
        k = int(np.count_nonzero(~own.terminated[: segment.episode]))
        found.append(own.bootstrap[k] if end else own.observation[segment.last])
    return np.stack(found) if found else block.observation[:0]
