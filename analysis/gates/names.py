"""Names of entrants: with their runs in front, wherever more than one run takes part."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from storage.records import Entrant

_ODD = re.compile(r"[^\w./@+-]")


def with_runs(entrants: Sequence[Entrant], known: Mapping[str, str] | None = None) -> tuple[Entrant, ...]:
    """Return the entrants with the names of their origins in front: `connect_four/main-0@120000`.

    If all come from one origin and their ids differ, they keep their ids. Names that have an origin in front
    already are kept. `known` has labels by address that are used already; see `labels_of`.
    """
    addresses = {entrant.run for entrant in entrants if entrant.run is not None}
    if len(addresses | set(known or ())) < 2 and len({e.competitor for e in entrants}) == len(entrants):
        return tuple(entrants)
    labels = _labels(addresses | set(known or ())) | dict(known or {})
    return tuple(
        entrant
        if entrant.run is None or has_run(entrant)
        else replace(entrant, competitor=f"{labels[entrant.run]}/{entrant.competitor}")
        for entrant in entrants
    )


def shown_names(entrants: Sequence[Entrant]) -> dict[str, str]:
    """Return the names under which entrants are shown, by the recorded ones, in their order.

    A tournament that began with one run recorded ids without it; once another has joined, all are shown with
    their runs.
    """
    shown = with_runs(entrants, labels_of(entrants))
    return {old.competitor: new.competitor for old, new in zip(entrants, shown, strict=True)}


def has_run(entrant: Entrant) -> bool:
    """Return whether the name of an entrant has its origin in front."""
    own = entrant.snapshot_id or ""
    if entrant.kind == "mixture":  # is named by its recipe
        return "/" in entrant.competitor
    return entrant.competitor != own and not entrant.competitor.startswith(f"{own}:")


def labels_of(entrants: Sequence[Entrant]) -> dict[str, str]:
    """Return the labels that entrants have in front of their names, by the address of their origin."""
    found: dict[str, str] = {}
    for entrant in entrants:
        at = entrant.competitor.rfind(f"/{entrant.snapshot_id}")
        if entrant.run is not None and has_run(entrant) and at > 0:
            found[entrant.run] = entrant.competitor[:at]
    return found


def _labels(addresses: Collection[str]) -> dict[str, str]:
    """Return the last parts of each address, as few as make all labels different.

    Characters that are special in gates, lists of seeds or shells become "-", unless only they differ.
    """
    most = max((address.count("/") + 1 for address in addresses), default=0)
    for odd in (_ODD, None):
        for count in range(1, most + 1):
            labels = {address: "/".join(address.split("/")[-count:]) for address in addresses}
            if odd is not None:
                labels = {address: odd.sub("-", label) for address, label in labels.items()}
            if len(set(labels.values())) == len(labels):
                return labels
    raise AssertionError("addresses differ")
