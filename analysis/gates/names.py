"""Names of the entrants of a tournament: as they are shown, and as users write them.

Wherever more than one run takes part, names have their runs in front.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from storage.errors import Mistake
from storage.records import Entrant
from storage.suggestions import near_or_some

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


SHOWN = 5  # names that a message lists


def find(name: str, entrants: Sequence[Entrant]) -> Entrant:
    """Return the competitor that `name` means.

    A name is a competitor's id, a snapshot's id, a player (its newest snapshot), or a unique prefix. A
    mixture goes by its whole name. `:greedy` or another mode may follow. Without a mode, the sampling entry
    of a competitor in several modes is meant. Raise Mistake if the name fits none or several.
    """
    for entrant in entrants:
        if entrant.competitor == name:
            return entrant
    base, _, mode = name.partition(":")
    in_mode = [entrant for entrant in entrants if _plays(entrant, mode)]
    fitting = (
        [entrant for entrant in in_mode if entrant.snapshot_id == base]
        or newest([entrant for entrant in in_mode if entrant.player == base])
        or [entrant for entrant in in_mode if entrant.competitor.startswith(base)]
        or [entrant for entrant in in_mode if (entrant.snapshot_id or "").startswith(base)]
    )
    chosen = as_it_samples(fitting)
    if len(chosen) == 1:
        return chosen[0]
    known = [entrant.competitor for entrant in entrants]
    if chosen:
        some = ", ".join(entrant.competitor for entrant in chosen[:SHOWN])
        raise Mistake(f"'{name}' fits {len(chosen)} competitors: {some}; give more of its id")
    raise Mistake(f"'{name}' takes no part in this tournament; {near_or_some(name, known)}")


def find_recorded(name: str, entrants: Sequence[Entrant]) -> Entrant:
    """Return the entrant that `name` means, as it was recorded: its own name, or any that `find` takes.

    Where runs are shown in front of names, `name` may be what is shown. Raise Mistake as `find` does.
    """
    for entrant in entrants:
        if entrant.competitor == name:
            return entrant
    shown = with_runs(entrants, labels_of(entrants))
    return entrants[shown.index(find(name, shown))]


def newest(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Return the snapshot that was frozen last, in each of its modes; bots have no age."""
    dated = [entrant for entrant in entrants if entrant.created_at is not None]
    last = max((_frozen(entrant) for entrant in dated), default=None)
    return [entrant for entrant in dated if _frozen(entrant) == last]


def as_it_samples(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Return the sampling entry if all are one snapshot in several modes; else all entries."""
    if len({(entrant.run, entrant.snapshot_id) for entrant in entrants}) == 1:
        return [entrant for entrant in entrants if entrant.temperature == 1.0] or list(entrants)
    return list(entrants)


def _frozen(entrant: Entrant) -> tuple[float, int, str, str]:
    """Return a key that sorts by age, then by steps, then by origin."""
    run, snapshot_id = entrant.run or "", entrant.snapshot_id or ""
    return entrant.created_at or 0.0, entrant.env_steps or 0, run, snapshot_id


def _plays(entrant: Entrant, mode: str) -> bool:
    if mode == "sample":
        return entrant.temperature == 1.0
    return not mode or entrant.competitor.endswith(f":{mode}")
