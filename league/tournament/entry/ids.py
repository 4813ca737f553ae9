"""Ids: what the entrants of a tournament go by, each by another."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from storage.records import Entrant

_ODD = re.compile(r"[^\w./@+-]")


def with_ids(entrants: Sequence[Entrant]) -> tuple[Entrant, ...]:
    """The same, by ids that are nobody else's: those they have, if these are; else all snapshots get the name
    of where they come from in front, as in `connect_four/main-0@120000`. The order makes no difference."""
    if len({entrant.competitor for entrant in entrants}) == len(entrants):
        return tuple(entrants)
    labels = _labels({entrant.run for entrant in entrants if entrant.run is not None})
    return tuple(
        entrant
        if entrant.run is None
        else replace(entrant, competitor=f"{labels[entrant.run]}/{entrant.competitor}")
        for entrant in entrants
    )


def _labels(addresses: Collection[str]) -> dict[str, str]:
    """The last parts of each address, as few as tell all of them apart; in characters that a gate, a list of
    seeds and a shell take as they are, unless only the others tell them apart."""
    most = max((address.count("/") + 1 for address in addresses), default=0)
    for odd in (_ODD, None):
        for count in range(1, most + 1):
            labels = {address: "/".join(address.split("/")[-count:]) for address in addresses}
            if odd is not None:
                labels = {address: odd.sub("-", label) for address, label in labels.items()}
            if len(set(labels.values())) == len(labels):
                return labels
    raise AssertionError("addresses differ")
