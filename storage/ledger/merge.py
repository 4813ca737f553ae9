"""Results of several requests as one batch, so that one frame of the ledger holds them all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from storage.records import OF_MATCHES, OF_RESULTS, Recordings, ResultBatch

MOST_MATCHES = 32_768  # in one batch: few enough for its arrays to fit the cache


def together(batches: Iterable[ResultBatch]) -> list[ResultBatch]:
    """Return the results of `batches`, in order, in as few batches as hold them.

    Neighbours that are of one env, purpose, match types and seats become one batch; its matches are theirs,
    in their order. A batch without a neighbour of its kind is returned as it is.
    """
    groups: list[list[ResultBatch]] = []
    kind, room = None, 0
    for batch in batches:
        if kind != (kind := _kind(batch)) or len(batch) > room:
            groups.append([])
            room = MOST_MATCHES
        groups[-1].append(batch)
        room -= len(batch)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups]


def _kind(results: ResultBatch) -> Hashable:
    """Return what is one value for a whole batch."""
    of = results.matches
    digested = results.digest is not None
    return of.env, of.purpose, of.match_types, of.num_seats, of.team_of_seat, digested


def _joined(group: Sequence[ResultBatch]) -> ResultBatch:
    """Return batches of one kind as one, whose competitors are theirs in order of appearance."""
    matches = [results.matches for results in group]
    number: dict[str, int] = {}
    for each in matches:
        for name in each.competitors:
            number.setdefault(name, len(number))
    seats = [np.array([number[n] for n in each.competitors], np.int32)[each.seat] for each in matches]
    digests = [results.digest for results in group if results.digest is not None]
    return ResultBatch(
        matches=replace(
            matches[0],
            competitors=tuple(number),
            **_concatenated(matches, OF_MATCHES) | {"seat": np.concatenate(seats)},
        ),
        recordings=_recordings(group),
        digest=np.concatenate(digests) if digests else None,
        **_concatenated(group, OF_RESULTS),
    )


def _concatenated(batches: Sequence[object], names: Sequence[str]) -> dict[str, Any]:
    return {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names}


def _recordings(group: Sequence[ResultBatch]) -> Recordings | None:
    """Return all recordings, with the rows and actions that they have in the joined batch."""
    first_row = accumulate(map(len, group), initial=0)
    found = [(row, own.recordings) for row, own in zip(first_row, group, strict=False) if own.recordings]
    if not found:
        return None
    first_action = accumulate((len(own.action) for _, own in found), initial=0)
    offsets = [own.offset[:-1] + at for (_, own), at in zip(found, first_action, strict=False)]
    actions = np.concatenate([own.action for _, own in found])
    return Recordings(
        row=np.concatenate([own.row + row for row, own in found]),
        offset=np.append(np.concatenate(offsets), len(actions)),
        action=actions,
    )
