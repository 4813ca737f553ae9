"""The fold of results as arrays and JSON: what a run resumes from, however long it has been.

Roster, members and what decisions have done are folded from their own facts, which are kept. What a state has
from results alone is here: ratings, payoffs, form, counters. A state that was folded from all facts and one
that was restored are equal to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from league.moved_keys import ratings_of
from league.training.state.state import LeagueState
from storage.archive import Archive
from storage.errors import CorruptLedger, Mistake

_PAYOFF, _RATINGS = "payoff", "ratings"
VERSION = 1  # of what `folded` returns: another one is not restored


def folded(state: LeagueState) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return (arrays, JSON fields) with everything that `state` has from results."""
    standings, tally, placed = state.standings, state.tally, state.placed
    arrays, ratings = standings.ratings.folded()
    named = {f"{_RATINGS}.{name}": array for name, array in arrays.items()}
    payoff = standings.payoff.folded(len(standings.ratings))
    named |= {f"{_PAYOFF}.{name}": array for name, array in payoff.items()}
    fields = {
        "version": VERSION,
        "rules": state.rules(),
        "ratings": ratings,
        "form": standings.form.folded(),
        "env_steps": state.totals.env_steps,
        "matches": state.totals.matches,
        "match_mix": dict(state.match_mix),
        "types": [[*pair, n] for pair, n in tally.types.items()],
        "opponents": [[*pair, n] for pair, n in tally.opponents.items()],
        "placed": [placed.env_steps, placed.matches, placed.next_id],
        "placed_games": [[*pair, n] for pair, n in placed.games.items()],
    }
    return named, fields


def restore(state: LeagueState, arrays: Mapping[str, npt.NDArray[Any]], fields: Mapping[str, Any]) -> None:
    """Give `state`, which has all other facts up to then, what `folded` returned."""
    own: dict[str, dict[str, npt.NDArray[Any]]] = {_RATINGS: {}, _PAYOFF: {}}
    for name, array in arrays.items():
        part, _, short = name.partition(".")
        own[part][short] = array
    state.standings.ratings.restore(own[_RATINGS], fields["ratings"])
    state.standings.payoff.restore(own[_PAYOFF])
    state.standings.form.restore(fields["form"])
    state.totals.env_steps, state.totals.matches = int(fields["env_steps"]), int(fields["matches"])
    state.match_mix = Counter(fields["match_mix"])
    state.tally.types = _counter(fields["types"])
    state.tally.opponents = _counter(fields["opponents"])
    state.placed.env_steps, state.placed.matches, state.placed.next_id = map(int, fields["placed"])
    state.placed.games = _counter(fields["placed_games"])


def recall(state: LeagueState, archive: Archive) -> None:
    """Apply all facts of the run: its newest fold, and the results behind it.

    With other rules than those of the fold all results are applied. Where that is impossible, windows of
    recent form that have grown fill from then on; raise Mistake for other ratings or payoffs.
    """
    fold = archive.newest_fold()
    if archive.summed_until and (fold is None or fold[0] <= archive.summed_until):
        raise CorruptLedger(
            f"{archive.run}: matches up to frame {archive.summed_until} of the ledger were summed up, and "
            "what they led to is not recorded behind it: restore the ledger from a backup"
        )
    if fold is not None and fold[2].get("version", 1) != VERSION:
        if archive.summed_until:
            raise Mistake(
                f"{archive.run}: its old matches were summed up by another version of the league, which it "
                "has to be resumed with; install that one, or begin a new run"
            )
        fold = None
    if fold is not None and (changed := _changed(state.rules(), _rules_of(fold[2]))):
        if not archive.summed_until:
            fold = None
        elif changed.keys() & {"ratings", "payoff"}:
            raise Mistake(
                f"{archive.run}: found other settings of ratings or payoffs ({_listed(changed)}) than its "
                "old matches were rated by, which were summed up since; give the settings of then, or begin "
                "a new run"
            )
    sequence = 0
    if fold is not None:
        sequence, arrays, fields = fold
        for event in archive.history(after=sequence, before=sequence):
            state.apply(event)
        restore(state, arrays, fields)
    folded_matches = state.totals.matches
    for event in archive.history(after=sequence, since=sequence):
        state.apply(event)
    archive.rely_on_fold(sequence, state.totals.matches - folded_matches)


def _rules_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules of what `folded` returned, as they are written today."""
    return {**fields["rules"], "ratings": ratings_of(fields["rules"].get("ratings", {}))}


def _changed(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rules of each part that differ: what they were."""
    return {
        part: found
        for part, rules in now.items()
        if (
            found := {
                k: before.get(part, {}).get(k) for k in rules if before.get(part, {}).get(k) != rules[k]
            }
        )
    }


def _listed(changed: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{name} was {was}" for part in changed.values() for name, was in part.items())


def _counter(rows: list[list[Any]]) -> Counter[tuple[str, str]]:
    return Counter({(str(a), str(b)): int(n) for a, b, n in rows})
