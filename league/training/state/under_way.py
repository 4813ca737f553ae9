"""Matches under way that are played in fragments: which runner has them, and who sits in them.

A match that ends is recorded once, as a whole. One whose live players are reset or removed meanwhile is
dropped, and so are those of a runner that died.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from league.training.state.members import Member
from storage.records import MatchBatch, Purpose, ResultBatch

_Bools = npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Drawn:
    """Matches that one request brought to a runner."""

    request_id: int
    matches: MatchBatch
    generations: Mapping[str, int]  # of the live players seated in it, when it was drawn
    left: _Bools  # [M], not over and not dropped

    def seating(self, competitors: Iterable[str]) -> _Bools:
        """Return which matches [M] seat one of `competitors`."""
        names = set(competitors)
        who = [i for i, name in enumerate(self.matches.competitors) if name in names]
        return np.logical_or.reduce(np.isin(self.matches.seat, who), axis=1)

    def players(self, seats: _Bools) -> list[str]:
        """Return the live players in these seats [M, S] of the matches that are left."""
        who = np.unique(self.matches.seat[seats & self.left[:, None]]).tolist()
        return [name for name in (self.matches.competitors[i] for i in who) if name in self.generations]


class UnderWay:
    """Matches under way on all runners. Runners have numbers."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        """`members`: the players of the league, as they are at any time."""
        self.dropped = 0  # matches so far
        self._members = members
        self._drawn: dict[int, list[_Drawn]] = {}  # by runner
        self._ended: dict[int, int] = {}  # matches that ended in the last request, by runner
        self._steps: dict[int, int] = {}  # decisions in unfinished matches, by runner

    @property
    def steps(self) -> int:
        """Decisions taken so far in matches that are not over."""
        return sum(self._steps.values())

    def add(self, runner: int, request_id: int, matches: MatchBatch, live: Iterable[str]) -> None:
        """Add matches that were drawn for a request to `runner`; `live`: the live players among them."""
        if len(matches):
            generations = {name: self._members[name].generation for name in live}
            left = np.ones(len(matches), dtype=np.bool_)
            self._drawn.setdefault(runner, []).append(_Drawn(request_id, matches, generations, left))

    def wanted(self, runner: int, slots: int, most: int, depth: int, players: int) -> int:
        """Return the number of matches, at most `most`, that the next request to `runner` is to bring.

        All `slots` are filled, by all players alike at first. Beyond them so many matches wait as ended in
        the last of `depth` requests in flight, so that a slot that becomes free is filled at once.
        """
        ended = self._ended.get(runner, 0)
        room = slots + min(most, depth * ended) - len(self.going_on(runner))
        return max(0, min(most, room, max(-(-slots // players), ended)))

    def going_on(self, runner: int) -> npt.NDArray[np.int64]:
        """Return the ids of the matches that go on there, without those whose players have changed."""
        self._drop_changed(runner)
        ids = [drawn.matches.match_id[drawn.left] for drawn in self._drawn.get(runner, ())]
        return np.concatenate([np.zeros(0, dtype=np.int64), *ids])

    def players(self, runner: int, *, learning: bool = False) -> list[str]:
        """Return the live players of the matches that go on; `learning`: those in seats that learn."""
        found: dict[str, None] = {}
        for drawn in self._drawn.get(runner, ()):
            every = np.ones_like(drawn.matches.learning)
            found |= dict.fromkeys(drawn.players(drawn.matches.learning if learning else every))
        return list(found)

    def none_new(self, runner: int) -> MatchBatch:
        """Return a batch without a match, for a request in which others go on."""
        matches = self._drawn[runner][-1].matches
        return replace(matches.take(np.zeros(0, dtype=np.int64)), competitors=())

    def settle(
        self, runner: int, request_id: int, results: ResultBatch, unfinished: Iterable[int], steps: int
    ) -> list[ResultBatch]:
        """Return the results that are to be recorded: of matches that were still under way, by purpose.

        `unfinished`: the ids of the matches that the runner has left after this request, and `steps` the
        decisions taken in them. Matches that it has lost are dropped.
        """
        self._drop_changed(runner)
        self._ended[runner], self._steps[runner] = len(results), steps
        ids, kept = results.matches.match_id, np.array(list(unfinished), dtype=np.int64)
        rows: dict[Purpose, list[npt.NDArray[np.int64]]] = {}
        for drawn in self._drawn.get(runner, ()):
            mine = drawn.matches.match_id
            ended = np.flatnonzero(np.isin(ids, mine[drawn.left]))
            rows.setdefault(drawn.matches.purpose, []).append(ended)
            drawn.left &= ~np.isin(mine, ids[ended])
            if drawn.request_id <= request_id:
                self._drop(drawn, ~np.isin(mine, kept))
        self._forget_empty(runner)
        found = []
        for purpose, parts in rows.items():
            batch = results.take(np.sort(np.concatenate(parts)))
            if len(batch):
                found.append(replace(batch, matches=replace(batch.matches, purpose=purpose)))
        return found

    def lost(self, runner: int, request_id: int) -> None:
        """Drop the matches of a request that died with its runner, and those that went on in it."""
        self._steps.pop(runner, None)
        for drawn in self._drawn.get(runner, ()):
            if drawn.request_id <= request_id:
                self._drop(drawn, drawn.left.copy())
        self._forget_empty(runner)

    def _drop_changed(self, runner: int) -> None:
        """Drop the matches in which a live player was reset or removed since they were drawn."""
        for drawn in self._drawn.get(runner, ()):
            changed = [
                name
                for name, generation in drawn.generations.items()
                if name not in self._members or self._members[name].generation != generation
            ]
            if changed:
                self._drop(drawn, drawn.seating(changed))

    def _drop(self, drawn: _Drawn, rows: _Bools) -> None:
        self.dropped += int((drawn.left & rows).sum())
        drawn.left &= ~rows

    def _forget_empty(self, runner: int) -> None:
        self._drawn[runner] = [drawn for drawn in self._drawn.get(runner, ()) if drawn.left.any()]
