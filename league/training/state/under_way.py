"""Matches under way: which runner has them, and who sits in them; and those that were lost with their runner.

A match that ends is recorded once, as a whole. One whose live players are reset or removed meanwhile is
dropped, and so is one of which a fragment was played when its runner died: players have learned from it.
What else was lost is played again. What was being played when a runner died, or was given up, is divided:

    several matches    they are played again in PARTS, before anything else, and each part that ends its
                       runner, too, is divided in the same way
    a single match     it is played again, until DEATHS runners have died while they played it, ALONE of them
                       while they played it alone: then it is set aside

So of a request with 4,096 matches one that kills is found with 6 deaths, which are cheap where the runner is
caged (`league.rollout.cage`). A death by chance costs a division, which changes nothing; no match that was
only beside another is set aside. A runner plays its requests in order: only the one that it was playing is
suspected. Matches that were lost without a death are never blamed.

Where all matches kill, nothing is played between those that are set aside: HOPELESS of them in a row end the
run, or FIRST_HOPELESS if no request was ever played.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from league.training.requests import Owner
from league.training.state.state import TrainingPlayer
from storage.arrays import Bools, Indices
from storage.records import MatchBatch, Purpose, ResultBatch

DEATHS, ALONE = 3, 2  # of runners at the same match, and those of them that played it alone
PARTS = 8
HOPELESS, FIRST_HOPELESS = 8, 2  # matches that are set aside in a row


@dataclass(frozen=True, slots=True)
class Part:
    """Matches of one request, or a part of them, and how many runners have died while they played them."""

    matches: MatchBatch
    env_options: Mapping[str, Any] | None  # of the game of the matches, if it is not the runner's
    owner: Owner
    deaths: int = 0
    alone: int = 0  # deaths of runners that played one match alone

    def died(self) -> Part:
        """Return the same part after one more death."""
        return replace(self, deaths=self.deaths + 1, alone=self.alone + (len(self.matches) == 1))


class ReplayedMatches:
    """Matches that wait to be played again."""

    def __init__(self) -> None:
        self._waiting: deque[Part] = deque()
        self._set_aside = 0  # matches in a row, without a result in between
        self._any = False  # request was played

    def __len__(self) -> int:
        return sum(len(part.matches) for part in self._waiting)

    def lost(self, part: Part, *, blamed: bool) -> Part | None:
        """Queue matches that were lost; return them, with their deaths, if they are to be set aside instead.

        `blamed`: their runner died while it played them.
        """
        if not blamed:
            self._waiting.append(part)
            return None
        part = part.died()
        if part.deaths >= DEATHS and part.alone >= ALONE:
            self._set_aside += 1
            return part
        self._waiting.extendleft(reversed(_parts(part)))
        return None

    def next(self, owner: Owner, *, suspected: bool) -> Part | None:
        """Remove and return the next part of `owner`; `suspected`: one at which a runner has died."""
        for part in self._waiting:
            if part.owner == owner and bool(part.deaths) == suspected:
                self._waiting = deque(other for other in self._waiting if other is not part)
                return part
        return None

    def played(self) -> None:
        """Note that some request was played."""
        self._set_aside = 0
        self._any = True

    @property
    def hopeless(self) -> bool:
        """Whether nothing can be played: all matches were set aside that were asked for lately."""
        return self._set_aside >= (HOPELESS if self._any else FIRST_HOPELESS)


def _parts(part: Part) -> list[Part]:
    rows = np.array_split(np.arange(len(part.matches)), PARTS)
    return [replace(part, matches=part.matches.take(own)) for own in rows if len(own)]


@dataclass(slots=True)
class _Drawn:
    """Matches that one request brought to a runner."""

    request_id: int
    part: Part
    generations: Mapping[str, int]  # of the live players seated in it, when it was drawn
    cut: bool  # whether they are played in fragments
    left: Bools  # [M], not over and not dropped

    @property
    def matches(self) -> MatchBatch:
        return self.part.matches

    def seating(self, competitors: Iterable[str]) -> Bools:
        """Return which matches [M] seat one of `competitors`."""
        names = set(competitors)
        who = [i for i, name in enumerate(self.matches.competitors) if name in names]
        return np.logical_or.reduce(np.isin(self.matches.seat, who), axis=1)

    def players(self, seats: Bools) -> list[str]:
        """Return the live players in these seats [M, S] of the matches that are left."""
        who = np.unique(self.matches.seat[seats & self.left[:, None]]).tolist()
        return [name for name in (self.matches.competitors[i] for i in who) if name in self.generations]


class UnderWay:
    """Matches under way on all runners, each of which has a number or any other key."""

    def __init__(self, members: Mapping[str, TrainingPlayer]) -> None:
        """`members`: the players of the league, as they are at any time."""
        self.dropped = 0  # matches so far
        self._members = members
        self._drawn: defaultdict[Hashable, list[_Drawn]] = defaultdict(list)  # by runner
        self._ended: dict[Hashable, int] = {}  # matches that ended in the last request, by runner
        self._steps: dict[Hashable, int] = {}  # decisions in unfinished matches, by runner

    @property
    def steps(self) -> int:
        """Decisions taken so far in matches that are not over."""
        return sum(self._steps.values())

    def add(
        self, runner: Hashable, request_id: int, part: Part, live: Iterable[str], *, cut: bool = False
    ) -> None:
        """Add matches that were drawn for a request to `runner`; `live`: the live players among them.

        `cut`: whether they are played in fragments, so that they may go on in a later request.
        """
        if len(part.matches):
            generations = {name: self._members[name].generation for name in live}
            left = np.ones(len(part.matches), dtype=np.bool_)
            self._drawn[runner].append(_Drawn(request_id, part, generations, cut, left))

    def wanted(self, runner: Hashable, slots: int, most: int, depth: int, players: int) -> int:
        """Return the number of matches, at most `most`, that the next request to `runner` is to bring.

        All `slots` are filled, by all players alike at first. Beyond them so many matches wait as ended in
        the last of `depth` requests in flight, so that a slot that becomes free is filled at once.
        """
        ended = self._ended.get(runner, 0)
        room = slots + min(most, depth * ended) - len(self.going_on(runner))
        return max(0, min(most, room, max(-(-slots // players), ended)))

    def going_on(self, runner: Hashable) -> Indices:
        """Return the ids of the matches that go on there, without those whose players have changed."""
        self._drop_changed(runner)
        ids = [drawn.matches.match_id[drawn.left] for drawn in self._drawn[runner] if drawn.cut]
        return np.concatenate([np.zeros(0, dtype=np.int64), *ids])

    def players(self, runner: Hashable, *, learning: bool = False) -> list[str]:
        """Return the live players of the matches that go on; `learning`: those in seats that learn."""
        found: dict[str, None] = {}
        for drawn in self._drawn[runner]:
            if drawn.cut:
                seats = drawn.matches.learning if learning else np.ones_like(drawn.matches.learning)
                found |= dict.fromkeys(drawn.players(seats))
        return list(found)

    def none_new(self, runner: Hashable) -> MatchBatch:
        """Return a batch without a match, for a request in which others go on."""
        matches = self._drawn[runner][-1].matches
        return replace(matches.take(np.zeros(0, dtype=np.int64)), competitors=())

    def settle(
        self, runner: Hashable, request_id: int, results: ResultBatch, unfinished: Iterable[int], steps: int
    ) -> list[ResultBatch]:
        """Return the results that are to be recorded: of matches that were still under way, by purpose.

        `unfinished`: the ids of the matches that the runner has left after this request, and `steps` the
        decisions taken in them. Matches that it has lost are dropped.
        """
        self._drop_changed(runner)
        self._ended[runner], self._steps[runner] = len(results), steps
        ids, kept = results.matches.match_id, np.array(list(unfinished), dtype=np.int64)
        rows: dict[Purpose, list[Indices]] = {}
        for drawn in self._drawn[runner]:
            if not drawn.cut and drawn.request_id != request_id:
                continue
            mine = drawn.matches.match_id
            if not drawn.cut and drawn.left.all() and np.array_equal(ids, mine):  # as nearly always
                rows.setdefault(drawn.matches.purpose, []).append(np.arange(len(ids)))
                drawn.left[:] = False
                continue
            ended = np.flatnonzero(np.isin(ids, mine[drawn.left]))
            rows.setdefault(drawn.matches.purpose, []).append(ended)
            drawn.left &= ~np.isin(mine, ids[ended])
            if drawn.request_id <= request_id:
                self._drop(drawn, ~np.isin(mine, kept))
        self._forget_empty(runner)
        found = []
        for purpose, parts in rows.items():
            own = np.sort(np.concatenate(parts))
            batch = results if len(own) == len(results) else results.take(own)
            if len(batch):
                found.append(replace(batch, matches=replace(batch.matches, purpose=purpose)))
        return found

    def lost(self, runner: Hashable, request_id: int, *, others_go_on: bool = False) -> Part | None:
        """Return the matches that a lost request brought, or `None`; drop those that went on in it.

        `others_go_on`: the runner still has those.
        """
        self._drop_changed(runner)
        if not others_go_on:
            self._steps.pop(runner, None)
        new = None
        for drawn in self._drawn[runner]:
            if drawn.request_id == request_id and drawn.left.any():
                new = replace(drawn.part, matches=drawn.matches.take(np.flatnonzero(drawn.left)))
                drawn.left[:] = False
            elif drawn.cut and drawn.request_id < request_id and not others_go_on:
                self._drop(drawn, drawn.left.copy())
        self._forget_empty(runner)
        return new

    def _drop_changed(self, runner: Hashable) -> None:
        """Drop the matches in which a live player was reset or removed since they were drawn."""
        for drawn in self._drawn[runner]:
            changed = [
                name
                for name, generation in drawn.generations.items()
                if name not in self._members or self._members[name].generation != generation
            ]
            if changed:
                self._drop(drawn, drawn.seating(changed))

    def _drop(self, drawn: _Drawn, rows: Bools) -> None:
        self.dropped += int((drawn.left & rows).sum())
        drawn.left &= ~rows

    def _forget_empty(self, runner: Hashable) -> None:
        self._drawn[runner] = [drawn for drawn in self._drawn[runner] if drawn.left.any()]
