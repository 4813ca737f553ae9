"""The sums of a segment: what its matches, seats, meetings and ratings come to; no recorded actions.

    summed_matches      sums by stretch, minute, purpose, match type, game, reason and learning player
    summed_seats        sums by stretch, purpose, reason, competitor, seat, learning and outcome
    summed_opponents    how often each player learned from games with each other competitor
    meetings            one row for each stretch, purpose and ordered pair; games of one batch before
    ratings             the last one of each competitor in each stretch

A run has RESOLUTION stretches by the end of each segment, so that one of any length has some thousands. Those
of competitors are longer where many of these would make too many rows. No stretch of matches spans a
decision, a snapshot or the beginning of a session; none of a competitor spans one of its own player.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.ledger.segments import Segment
from storage.retention.groups import Groups, Ints, Key, coded, pairs
from storage.retention.segment_rows import KINDS, SegmentRows, Stages
from storage.tables import schema
from storage.tables.columns import FOLDED

SUMMED = ("matches", "seats", "meetings", "ratings")
DROPPED = (FOLDED, "recordings")  # tables that a summed segment has no more
MATCHES_PER_ROW = 8  # of sums by competitor, at least, unless one stretch has more of them
_MINUTE = 60.0  # seconds
_MILLION = 1_000_000
_COUNTS = ("games", "wins", "draws", "losses")
_Rows = tuple[Mapping[str, Any] | pa.Table, Ints]
"""Columns of a table, and the frame of each row, 0 for the segment's first."""


@dataclass(frozen=True, slots=True)
class Sums:
    """What a segment comes to: rows of tables, and the frame that each of them comes with."""

    tables: dict[str, tuple[pa.Table, Ints]]  # in order of frames
    first_seq: int  # of the matches; 0: there are none
    last_seq: int


def sum_up(segment: Segment, share: float = 0.0, origin: float | None = None) -> Sums:
    """Return the sums of `segment`; so large a `share` of its matches is no part of them, and stays whole.

    Minutes are counted from `origin`, in seconds since the epoch: the beginning of the run's first match, by
    default that of the segment's. Raise CorruptLedger for a file that is not as it was written.
    """
    part = SegmentRows(segment)
    stages = Stages(part)
    meetings, met_at = part.rows("meetings"), part.frames("meetings")
    texts = [coded(meetings[name]) for name in ("purpose", "home", "away")]
    met = [
        *((codes, len(names)) for codes, names in texts),
        *(stages.of(*text, met_at) for text in texts[1:]),
    ]
    forms = _Forms(part, share, origin)
    seated = _Seated(forms, stages)
    least = len(Groups(met)) + len(Groups(seated.keys))
    stretch = part.stretches(len(part.seq) // MATCHES_PER_ROW // max(1, least))
    made: dict[str, _Rows] = {
        "meetings": _sum_meetings(meetings, [*met, _key(stretch[met_at])], met_at),
        "ratings": _last_ratings(part, stages, stretch),
        "summed_matches": forms.summed_matches(),
        "summed_seats": seated.summed_seats(stretch),
        "summed_opponents": seated.summed_opponents(),
    }
    if forms.kept.any():
        made["matches"] = segment.table("matches").filter(pa.array(forms.kept)), part.at[forms.kept]
        kept = np.repeat(forms.kept, part.sizes)
        made["seats"] = segment.table("seats").filter(pa.array(kept)), np.repeat(part.at, part.sizes)[kept]
    first, last = (int(part.seq[0]), int(part.seq[-1])) if len(part.seq) else (0, 0)
    placed = {name: _placed(name, *rows, segment.first) for name, rows in made.items()}
    return Sums({name: found for name, found in placed.items() if len(found[1])}, first, last)


def _placed(name: str, rows: Mapping[str, Any] | pa.Table, at: Ints, first: int) -> tuple[pa.Table, Ints]:
    """Return rows as facts have them, in order of their frames, and these."""
    order = pa.array(np.argsort(at, kind="stable"))
    table = rows if isinstance(rows, pa.Table) else pa.table(dict(rows))
    columns = {}
    for field in schema.arrow_schema(name):
        if field.name in table.column_names:
            column = table[field.name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            columns[field.name] = column.cast(field.type)
    return pa.table(columns).take(order).combine_chunks(), at[order.to_numpy()] + first


class _Forms:
    """Matches that are alike but for their numbers, times and scores: all sums of matches are made of these.

    One pass over the matches counts the forms, which are far fewer. One match represents its form.
    """

    def __init__(self, part: SegmentRows, share: float, origin: float | None) -> None:
        matches, seats = part.matches, part.rows("seats")
        self.part = part
        self.kept = np.zeros(len(part.seq), np.bool_)
        if share:
            self.kept = _mixed(part.seq) % _MILLION < round(share * _MILLION)
        self.kinds = [coded(matches[name]) for name in KINDS]
        self.competitor, self.outcome = coded(seats["competitor"]), coded(seats["outcome"])
        self.learning, self.seats = seats["learning"].to_numpy(), seats
        self.cell = np.unique(part.stretches() + part.bounds(), return_inverse=True)[1][part.at]
        began = matches["started_at"].to_numpy()
        since = began.min(initial=np.inf) if origin is None else origin
        self.minute = np.maximum(0.0, np.floor((began - since) / _MINUTE)).astype(np.int64)
        steps, seconds, score = (
            column.to_numpy().astype(np.float64)
            for column in (matches["env_steps"], matches["seconds"], seats["score"])
        )
        opens = np.zeros(len(began))  # whether it is the first match of its player in its batch
        opens[_first_of_batches(part.at, self.kinds[-1][0])] = 1
        seat_of = np.cumsum(part.sizes) - part.sizes  # the first seat of each match
        found: list[list[npt.NDArray[Any]]] = []
        seated: list[list[npt.NDArray[Any]]] = []
        for size in np.flatnonzero(np.bincount(part.sizes[~self.kept])).tolist():
            rows = np.flatnonzero((part.sizes == size) & ~self.kept)
            places = [seat_of[rows] + seat for seat in range(size)]
            groups = Groups([*self._keys(rows), *(key for place in places for key in self._seat_keys(place))])
            totals = [groups.total(each[rows]) for each in (steps, steps**2, seconds, opens)]
            found.append([rows[groups.first], rows[groups.last], groups.total(), *totals])
            form = sum(len(each[0]) for each in found[:-1]) + np.arange(len(groups))
            for seat, place in enumerate(places):
                own = score[place]
                scores = groups.total(own), groups.total(own**2)
                seated.append([form, np.full(len(groups), seat), place[groups.first], *scores])
        none = [[np.zeros(0, np.int64)] * 7], [[np.zeros(0, np.int64)] * 5]
        columns = [np.concatenate(each) for each in zip(*(found or none[0]), strict=True)]
        self.match, self.last, self.matches, self.steps, self.squares, self.seconds, self.batches = columns
        columns = [np.concatenate(each) for each in zip(*(seated or none[1]), strict=True)]
        self.form, self.seat, self.place, self.scores, self.score_squares = columns
        self._times = began, began + seconds

    def _keys(self, rows: Ints) -> list[Key]:
        keys = [_key(self.cell[rows]), _key(self.minute[rows])]
        return keys + [(codes[rows], len(names)) for codes, names in self.kinds]

    def _seat_keys(self, place: Ints) -> list[Key]:
        (competitor, names), (outcome, outcomes) = self.competitor, self.outcome
        learning = self.learning[place].astype(np.int64)
        return [(competitor[place], len(names)), (learning, 2), (outcome[place], len(outcomes))]

    def summed_matches(self) -> _Rows:
        """Return the sums of matches."""
        part, match = self.part, self.match
        groups = Groups([*self._keys(match), _key(part.sizes[match])])
        first = match[groups.first]
        end = np.zeros(int(self.cell.max(initial=0)) + 1, np.int64)
        end[self.cell] = np.arange(len(self.cell))  # the last match of each cell
        ends = end[self.cell[first]]
        # Bounds of time are those of all kinds of matches of a cell and minute, which come in few runs.
        turns = np.flatnonzero(
            (np.diff(self.cell, prepend=-1) != 0) | (np.diff(self.minute, prepend=-1) != 0)
        )
        runs = Groups([_key(self.cell[turns]), _key(self.minute[turns])])
        run = runs.of[np.searchsorted(turns, first, side="right") - 1]
        began, ended = np.full(len(runs), np.inf), np.full(len(runs), -np.inf)
        if len(turns):
            np.minimum.at(began, runs.of, np.minimum.reduceat(self._times[0], turns))
            np.maximum.at(ended, runs.of, np.maximum.reduceat(self._times[1], turns))
        rows = {
            "seq": part.seq[ends],
            "batch": part.at[ends] + part.first,
            "num_seats": part.sizes[first],
            "started_at": began[run],
            "ended_at": ended[run],
            "last_match_id": np.full(len(groups), part.last_match_id),
        }
        rows |= {
            name: _taken(codes, names, first) for name, (codes, names) in zip(KINDS, self.kinds, strict=True)
        }
        for name, values in (
            *(("matches", self.matches), ("batches", self.batches), ("env_steps", self.steps)),
            *(("step_squares", self.squares), ("seconds", self.seconds)),
        ):
            rows[name] = groups.total(values)
        return rows, part.at[ends]


class _Seated:
    """The seats of forms."""

    def __init__(self, forms: _Forms, stages: Stages) -> None:
        self._forms, part = forms, forms.part
        self._match = forms.match[forms.form]
        self._last = forms.last[forms.form]
        codes, names = forms.competitor
        own = codes[forms.place]
        self._kinds = [forms.kinds[KINDS.index(name)] for name in ("purpose", "reason")]
        self.keys: list[Key] = [  # of sums over the segment
            *((texts[self._match], len(known)) for texts, known in self._kinds),
            *(_key(part.sizes[self._match]), _key(forms.seat)),
            *(*forms._seat_keys(forms.place), stages.of(own, names, part.at[self._match])),
        ]

    def summed_seats(self, stretch: Ints) -> _Rows:
        """Return the sums of seats; `stretch` is that of each frame."""
        forms, part = self._forms, self._forms.part
        groups = Groups([*self.keys, _key(stretch[part.at[self._match]])])
        first, place = self._match[groups.first], forms.place[groups.first]
        last = groups.highest(self._last)
        (purpose, purposes), (reason, reasons) = self._kinds
        rows = {
            "seq": part.seq[last],
            "purpose": _taken(purpose, purposes, first),
            "reason": _taken(reason, reasons, first),
            "num_seats": part.sizes[first],
            "competitor": _taken(*forms.competitor, place),
            "seat": forms.seat[groups.first],
            "learning": forms.learning[place],
            "outcome": _taken(*forms.outcome, place),
            "seats": groups.total(forms.matches[forms.form]),
            "score": groups.total(forms.scores),
            "squares": groups.total(forms.score_squares),
        }
        return rows, part.at[last]

    def summed_opponents(self) -> _Rows:
        """Return how often each player learned from games with each other competitor."""
        forms, part = self._forms, self._forms.part
        codes, names = forms.competitor
        none = np.zeros(0, np.int64)
        found: list[tuple[npt.NDArray[Any], ...]] = [(none, none, none)]
        sizes = part.sizes[forms.match]
        order = np.argsort(forms.form, kind="stable")  # the seats of each form side by side
        first_seat = np.cumsum(sizes) - sizes
        for size in np.flatnonzero(np.bincount(sizes)).tolist():
            form = np.flatnonzero(sizes == size)
            places = [forms.place[order[first_seat[form] + seat]] for seat in range(size)]
            each = pairs([codes[place] for place in places], [forms.learning[place] for place in places])
            found += [(player, other, forms.matches[form[match]]) for player, other, match in each]
        player, other, games = (np.concatenate(columns) for columns in zip(*found, strict=True))
        groups = Groups([(player, len(names)), (other, len(names))])
        rows = {
            "seq": np.full(len(groups), part.seq[-1] if len(part.seq) else 0),
            "player": _taken(player, names, groups.first),
            "opponent": _taken(other, names, groups.first),
            "games": groups.total(games),
        }
        return rows, np.full(len(groups), part.at[-1] if len(part.at) else 0)


def _sum_meetings(meetings: pa.Table, keys: Sequence[Key], at: Ints) -> _Rows:
    groups = Groups(keys)
    first = pa.array(groups.first)
    rows: dict[str, Any] = {name: meetings[name].take(first) for name in ("purpose", "home", "away")}
    rows["seq"] = meetings["seq"].to_numpy()[groups.last]
    rows |= {name: groups.total(meetings[name].to_numpy()) for name in _COUNTS}
    for name in ("lead", "squares"):
        lacks = groups.total(meetings[name].is_null().to_numpy()) > 0
        rows[name] = pa.array(groups.total(meetings[name].fill_null(0.0).to_numpy()), mask=lacks)
    return rows, at[groups.last]


def _last_ratings(part: SegmentRows, stages: Stages, stretch: Ints) -> _Rows:
    ratings, at = part.rows("ratings"), part.frames("ratings")
    codes, names = coded(ratings["competitor"])
    groups = Groups([(codes, len(names)), stages.of(codes, names, at), _key(stretch[at])])
    last = np.sort(groups.last)
    return ratings.take(pa.array(last)), at[last]


def _first_of_batches(at: Ints, player: npt.NDArray[Any]) -> Ints:
    """Return the matches [n] that are each the first of a player's in a batch."""
    turns = np.flatnonzero((np.diff(at, prepend=-1) != 0) | (np.diff(player, prepend=-1) != 0))
    return turns[Groups([_key(at[turns]), _key(player[turns])]).first]


def _key(values: npt.NDArray[Any]) -> Key:
    """Return whole numbers of 0 or more as a key."""
    return values, int(values.max(initial=0)) + 1


def _taken(codes: npt.NDArray[Any], texts: pa.Array, rows: Ints) -> pa.Array:
    return texts.take(pa.array(codes[rows]))


def _mixed(seq: Ints) -> npt.NDArray[np.uint64]:
    """Return numbers [n] that depend on `seq` [n] alone, in no order (splitmix64)."""
    mixed = seq.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed ^ (mixed >> np.uint64(27))) >> np.uint64(11)
