"""The field of a tournament: finds competitors by the names that users write."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.gates.names import labels_of, with_runs
from storage.errors import Mistake
from storage.records import Entrant
from storage.suggestions import near_or_some

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
