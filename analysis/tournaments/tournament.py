"""The verdict of a tournament: which competitor is best, and how sure that is.

    found = verdict("runs/tournament")
    found.table                              one row per competitor, best first
    wording.headline(found)                  the same in one sentence

It is a pure function of the run folder: it gives the same while the tournament runs, for what is recorded by
then, and years later. Ratings, intervals, ranks and probabilities come from one posterior of all strengths
(analysis/statistics/hierarchy/posterior.py), which holds under any schedule; TrueSkill's are added.

Parts of the field that never met cannot be compared: then nothing has a rank or a probability of being best,
and Elo is relative to the mean of the part.

A draw is half a win and half a loss. So Elo is 400 log10 of the odds of a score, in the table as in pairings,
gates and `league compare`: for two competitors ratings and scores agree. Strengths with draws put aside are
another scale. Among snapshots that drew over half of their games they were five times as far apart, and
predicted scores no better.

Ratings do put aside the advantage of places. The larger it is, the further ratings are apart than scores over
all places, and their intervals with them (where the first mover is 200 Elo ahead, 150 Elo of rating score
like 119).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.gates.names import find_recorded, shown_names
from analysis.statistics.cyclic import CyclicShare, cyclic_share
from analysis.statistics.elo import EloEstimate
from analysis.statistics.forfeits import most_failures, withdrawn
from analysis.statistics.games import DEFAULT_RULE, Games, Rule, of_those_who_played, tally
from analysis.statistics.given import results_of_frame
from analysis.statistics.hierarchy.anchors import Agreement, Anchor, agreement, anchors_of, zero_of
from analysis.statistics.hierarchy.design import Width, width_of
from analysis.statistics.hierarchy.posterior import Posterior, posterior
from analysis.statistics.meetings import Direct, meetings_of
from analysis.tournaments.tables import pairings_table, places_table, standings_table, trueskill_table
from storage import open_reader, run_folder
from storage.errors import Mistake
from storage.layout import LEDGER
from storage.ledger.ledger import read_frames
from storage.records import GIVEN, EndReason, Entrant, Purpose, ResultBatch
from storage.tables.columns import results_of

_DRAWS_FOR_GATES = 2_000


@dataclass(frozen=True)
class Verdict:
    """The result of a tournament so far.

    Elo is on the scale of `anchors`, or relative to the mean of those who have played.

    `table`, best first: rank (1 is best; NA: has not played, or the field falls into parts), rank_low,
    rank_high (95 %), part (of the field, 0 is the largest; parts never met; -1: has not played), competitor,
    elo, elo_low, elo_high (95 %), games (matches), pairs, wins, draws, losses (of comparisons: in a match of
    T teams each is compared with T - 1 others), score (points per comparison, in [0, 1]), score_place_0 ...
    (the same of each place), worst_opponent, worst_score, worst_games (the opponent of the lowest score, see
    `Meetings.worst`), mu, sigma (TrueSkill), p_best (probability of being the best of the field; NA as
    `rank`).

    `pairings`, in the order of the table: home, away (the better one is home), pairs, games, wins, draws,
    losses, score, elo, elo_low, elo_high, los of home over away from these games alone, by pairs; repeats
    (pairs not counted, as they were the same games again).

    `place_advantage`: place, elo, elo_low, elo_high, relative to the mean of all places.
    """

    entrants: tuple[Entrant, ...]
    anchors: Mapping[str, Anchor]  # whose ratings are given
    agreement: Agreement | None  # of several anchors
    games: Games
    ratings: Posterior
    cyclic: CyclicShare | None  # None: fewer than three have played
    width: Width | None  # of the design's intervals; None: as for `width_of`
    table: pd.DataFrame
    pairings: pd.DataFrame
    place_advantage: pd.DataFrame
    unfinished_pairs: int  # some seating is not played; not counted
    ruled_out_pairs: int  # left out by the tournament's rules
    repeated_pairs: int
    ends: tuple[int, ...]  # matches by EndReason, of all that were played
    withdrawn: dict[str, int]  # competitors that play no more, with the number of their forfeits

    @property
    def anchor(self) -> str | None:
        """The only anchor, if its Elo is 0; else `None`."""
        return next(iter(self.anchors)) if list(self.anchors.values()) == [Anchor()] else None

    @property
    def scale(self) -> str:
        """What Elo is relative to, in words."""
        if not self.anchors:
            return "over the mean of the field"
        return f"over {zero_of(self.anchors)}"

    @property
    def played(self) -> pd.DataFrame:
        """Rows of `table` that have played."""
        return self.table[self.table["games"] > 0]

    @cached_property
    def unshrunk(self) -> Posterior:
        """What games alone say of those who have played, without a prior that draws them together."""
        rated = {name: given for name, given in self.anchors.items() if name in self.games.competitors}
        return posterior(self.games, anchors=rated, lines=None, flat=True, samples=_DRAWS_FOR_GATES)

    def value(self, competitor: str, column: str) -> float:
        """Return an entry of `table`; nan where it is empty."""
        found = self.table.loc[self.table["competitor"] == competitor, column]
        return float(found.to_numpy(dtype=np.float64, na_value=np.nan)[0])

    def difference(self, a: str, b: str) -> EloEstimate:
        """Return how far `a` is rated above `b`; both have played. It is infinitely unsure across parts."""
        names = self.ratings.competitors
        return self.ratings.difference(names.index(a), names.index(b))

    def direct(self, a: str, b: str) -> Direct | None:
        """Return the row of `pairings` from the side of `a`; `None` where the two have not met."""
        for home, away, sign in ((a, b, 1.0), (b, a, -1.0)):
            met = self.pairings[(self.pairings["home"] == home) & (self.pairings["away"] == away)]
            for row in met.to_dict("records"):
                low, high = sorted((sign * row["elo_low"], sign * row["elo_high"]))
                score, los = (row[key] if sign > 0.0 else 1.0 - row[key] for key in ("score", "los"))
                return Direct(
                    row["pairs"], row["games"], score, EloEstimate(sign * row["elo"], low, high, los)
                )
        return None


def verdict(
    run: str | Path | pd.DataFrame,
    *,
    anchor: str | Mapping[str, Any] | None = None,
    seed: int = 0,
    lines: Literal["auto"] | None = "auto",
) -> Verdict:
    """Return the verdict on the tournament in `run`, a folder or the address of its remote.

    A frame has games that were played elsewhere (`analysis.statistics.given`). `anchor` is the competitor
    whose Elo is 0, or several with their Elo (a number, an `Anchor`, or `elo` and `error`); `None`: those of
    the tournament's settings. `seed` is that of simulations. Without `lines`, long chains in which only
    neighbours met are rated like any field. Raise NotARun, CorruptLedger, and Mistake for a run without
    competitors of a tournament, and for a frame as `Games.from_frame`.
    """
    if isinstance(run, pd.DataFrame):
        results = results_of_frame(run)
        return judged([results], external(results.matches.competitors), anchor=anchor, seed=seed, lines=lines)
    folder = run_folder(run)
    reader = open_reader(folder)
    recorded = tuple(reader.entrants())
    if not recorded:
        raise Mistake(f"{run}: no tournament was played there, expected a run made by: league tournament")
    config = reader.config()
    return judged(
        list(tournament_results(folder)),
        recorded,
        rule=Rule(**config.get("rules", {})),
        anchor=anchor or config.get("anchors") or config.get("anchor"),
        trueskill=trueskill_table(folder),
        failures=most_failures(config, [entrant.competitor for entrant in recorded]),
        seed=seed,
        lines=lines,
    )


def external(names: Sequence[str]) -> tuple[Entrant, ...]:
    """Return competitors whose games were played elsewhere."""
    return tuple(Entrant(name, "external") for name in names)


def judged(
    results: Sequence[ResultBatch],
    recorded: Sequence[Entrant],
    *,
    rule: Rule = DEFAULT_RULE,
    anchor: str | Mapping[str, Any] | None = None,
    trueskill: pd.DataFrame | None = None,
    failures: Mapping[str, int] = {},
    seed: int = 0,
    lines: Literal["auto"] | None = "auto",
) -> Verdict:
    """Return the verdict on all `results` among the `recorded` entrants; other arguments as in `verdict`.

    `trueskill` has competitor, mu and sigma; `failures`: forfeits after which each is withdrawn.
    Raise Mistake for an anchor that is no entrant.
    """
    shown = shown_names(recorded)
    anchors = {
        shown[find_recorded(name, recorded).competitor]: given for name, given in anchors_of(anchor).items()
    }
    entrants = tuple(replace(entrant, competitor=shown[entrant.competitor]) for entrant in recorded)
    names = [entrant.competitor for entrant in entrants]
    counted = tally(results, list(shown), rule)
    repeated = [(tuple(shown[name] for name in who), count) for who, count in counted.repeated_pairs]
    games = of_those_who_played(replace(counted.games, competitors=tuple(names)))
    rated = {name: given for name, given in anchors.items() if name in games.competitors}
    ratings = posterior(games, anchors=rated, lines=lines, seed=seed)
    alone = posterior(games, lines=lines, seed=seed) if len(rated) > 1 else ratings
    joined = {name: given for name, given in rated.items() if alone.part[games.competitors.index(name)] == 0}
    met, rng = meetings_of(games), np.random.default_rng(seed)
    table = standings_table(games, met, ratings, names)
    if trueskill is None:
        table = table.assign(mu=np.nan, sigma=np.nan)
    else:
        trueskill["competitor"] = trueskill["competitor"].map(shown)
        table = table.merge(trueskill, on="competitor", how="left")
    ends = sum(np.bincount(batch.reason, minlength=len(EndReason)) for batch in results)
    return Verdict(
        entrants=entrants,
        anchors=anchors,
        agreement=agreement(joined, games.competitors, alone.draws),
        games=games,
        ratings=ratings,
        cyclic=cyclic_share(games, rng) if len(games) and len(games.competitors) > 2 else None,
        width=width_of(games, ratings),
        table=table,
        pairings=pairings_table(games, met, ratings, repeated),
        place_advantage=places_table(ratings),
        unfinished_pairs=counted.unfinished_pairs,
        ruled_out_pairs=counted.ruled_out_pairs,
        repeated_pairs=sum(count for _, count in repeated),
        ends=tuple((ends + np.zeros(len(EndReason), dtype=np.int64)).tolist()),
        withdrawn={shown[name]: n for name, n in withdrawn(results, failures).items()},
    )


def games_to_join(run: Path, first: int) -> tuple[list[ResultBatch], tuple[Entrant, ...]]:
    """Return the games that count of the tournament in `run`, as given ones, and its entrants.

    They are numbered from `first` on; the games of a pair stay one unit. Raise as `verdict` does.
    """
    reader = open_reader(run)
    recorded = reader.entrants()
    if not recorded:
        raise Mistake(f"{run}: found the run of a league, expected files of games or tournaments")
    shown = shown_names(recorded)
    results = list(tournament_results(run))
    games = tally(results, list(shown), Rule(**reader.config().get("rules", {}))).games
    match, at = np.unique(games.match, return_index=True)
    pair = games.pair[at]
    rows = [np.flatnonzero(np.isin(batch.matches.match_id, match)) for batch in results]
    units = [
        pair[np.searchsorted(match, batch.matches.match_id[kept])]
        for batch, kept in zip(results, rows, strict=True)
    ]
    _, begins, unit = np.unique(np.concatenate([pair[:0], *units]), return_index=True, return_inverse=True)
    seed, joined, start = first + begins[unit], [], 0
    for batch, kept in zip(results, rows, strict=True):
        end = start + len(kept)
        own = batch.take(kept)
        matches = replace(
            own.matches,
            competitors=tuple(shown[name] for name in own.matches.competitors),
            match_types=(GIVEN,),
            match_type=np.zeros(len(kept), dtype=np.int16),
            match_id=first + np.arange(start, end),
            seed=seed[start:end],
        )
        joined.append(replace(own, matches=matches, digest=None))
        start = end
    entrants = (replace(entrant, competitor=shown[entrant.competitor]) for entrant in recorded)
    return [batch for batch in joined if len(batch)], tuple(entrants)


def tournament_results(folder: Path, moves: bool = False) -> Iterator[ResultBatch]:
    """Yield the recorded matches of the tournament in the run `folder`, batch by batch, with their teams.

    Where no teams are stored, the seats of one competitor in a match are one team, numbered by its first
    seat. With `moves`, recorded actions are included.
    """
    tables = ("matches", "seats", "recordings") if moves else ("matches", "seats")
    for frame in read_frames(folder / LEDGER, tables=tables):
        results = results_of(frame.tables)
        if results.matches.purpose is Purpose.TOURNAMENT:
            seat = results.matches.seat
            if results.matches.team_of_seat is not None:
                yield results
                continue
            _, first, team = np.unique(seat[0], return_index=True, return_inverse=True)
            if len(first) < seat.shape[1]:
                teams = tuple(np.argsort(np.argsort(first))[team].tolist())
                results = replace(results, matches=replace(results.matches, team_of_seat=teams))
            yield results
