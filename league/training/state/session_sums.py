"""Sums over what was played and learned from in this session, from which trackers and screens take means.

The figures are those of `History.curves`, under names such as `score/main-0`, `length/main-0`,
`win_rate/main-0/one_ply`, `win_rate/main-0/snapshots_of_main-0`, `end/finished` and `seat/0`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

import numpy as np

from league.rules.roster import Roster
from league.training.state.tally import homes_of
from storage.records import EndReason, LivePlayer, Outcome, Purpose, ResultBatch, Snapshot, by_team

MOST_SEATS = 16  # of games with more seats, the first ones are counted


class Played:
    """Counts and totals of each figure; they only grow, so that each reader takes its own differences."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.counts: dict[str, float] = {}
        self.totals: dict[str, float] = {}

    def count(self, results: ResultBatch) -> None:
        """Count the training matches among M results."""
        matches = results.matches
        if matches.purpose is not Purpose.TRAINING or not len(results):
            return
        names = matches.competitors
        rows, home = homes_of(matches)
        own = matches.seat[rows][matches.learning[rows]]
        self._add_each("score", names, own, results.score[rows][matches.learning[rows]])
        self._add_each("length", names, home, results.env_steps[rows])
        ended = np.bincount(results.reason, minlength=len(EndReason)).tolist()
        for reason in EndReason:
            self._add(f"end/{reason.name.lower()}", len(results), ended[reason])
        if matches.num_seats > 1:
            self._count_pairs(results)

    def _count_pairs(self, results: ResultBatch) -> None:
        matches = results.matches
        points = (results.outcome == Outcome.WIN) + 0.5 * (results.outcome == Outcome.DRAW)
        for seat, total in enumerate(points.sum(axis=0).tolist()[:MOST_SEATS]):
            self._add(f"seat/{seat}", len(results), total)
        first, outcome, place = by_team(results)
        names = matches.competitors
        size = len(names)
        live = np.array([isinstance(self._roster[name], LivePlayer) for name in names])
        seated = matches.seat[:, first].astype(np.int64)
        games, won = np.zeros(size * size), np.zeros(size * size)
        for us, them in itertools.permutations(range(len(first)), 2):
            home, away = seated[:, us], seated[:, them]
            even = place[:, us] == place[:, them]
            void = even & (outcome[:, us] == Outcome.FORFEIT)  # two forfeits say nothing
            met = live[home] & (home != away) & ~void
            pair = (home * size + away)[met]
            result = ((place[:, us] < place[:, them]) + 0.5 * even)[met]
            games += np.bincount(pair, minlength=size * size)
            won += np.bincount(pair, result, minlength=size * size)
        for pair in np.flatnonzero(games).tolist():
            us, them = divmod(pair, size)
            self._add(f"win_rate/{names[us]}/{self._opponent(names[them])}", games[pair], won[pair])

    def _opponent(self, name: str) -> str:
        """Return the kind of opponent: the snapshots of one player are one."""
        found = self._roster[name]
        return f"snapshots_of_{found.player}" if isinstance(found, Snapshot) else name

    def _add_each(self, figure: str, names: tuple[str, ...], who: np.ndarray, values: np.ndarray) -> None:
        counts, totals = np.bincount(who), np.bincount(who, values)
        for i in np.flatnonzero(counts).tolist():
            self._add(f"{figure}/{names[i]}", counts[i], totals[i])

    def _add(self, name: str, count: float, total: float) -> None:
        self.counts[name] = self.counts.get(name, 0.0) + float(count)
        self.totals[name] = self.totals.get(name, 0.0) + float(total)


class Means:
    """Means of a reader of `Played` since it was last asked."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._counts, self._totals = dict(played.counts), dict(played.totals)

    def new(self) -> dict[str, float]:
        """Return the mean of each figure over what was counted since the last time, in order of name."""
        played = self._played
        found = {}
        for name in sorted(played.counts):
            count = played.counts[name] - self._counts.get(name, 0.0)
            if count:
                found[name] = (played.totals[name] - self._totals.get(name, 0.0)) / count
        self._counts, self._totals = dict(played.counts), dict(played.totals)
        return found


class Course:
    """First and newest means of each figure, each over an interval of a view."""

    def __init__(self, played: Played) -> None:
        self._means = Means(played)
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def note(self) -> None:
        """Take the means since the last time."""
        new = self._means.new()
        self.first = new | self.first
        self.last |= new

    def figures_of(self, player: str, bots: Collection[str] = ()) -> list[tuple[str, str, str]]:
        """Return the player's score, length of a match and points against `bots`: name, first and newest."""
        rows = [("score", f"score/{player}", ".3g"), ("steps of a match", f"length/{player}", ".4g")]
        rows += [(f"points against {bot}", f"win_rate/{player}/{bot}", ".2f") for bot in bots]
        return [
            (shown, format(self.first[name], form), format(self.last[name], form))
            for shown, name, form in rows
            if name in self.last
        ]

    def sentence(self, player: str, bots: Collection[str] = ()) -> str:
        """Return a line on the player: newest figures, with the first ones; nothing if none is known."""
        said = [
            f"{name} {last}{f' ({first} at first)' if first != last else ''}"
            for name, first, last in self.figures_of(player, bots)
        ]
        return f"{player} at last: {', '.join(said)}" if said else ""
