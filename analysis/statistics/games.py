"""Games as statistics need them: competitors, places, points, and which games belong together.

A pair is one seed played by the same T competitors in all seatings (`games_per_pair`). Its games are not
independent, so every statistic here counts pairs. A pair counts whole or not at all. One that is unfinished,
or of which the `Rule` leaves out a match, would favour one place.

Where neither a player nor the game draws anything at random, another seed often is the same game again. Such
a repeat holds no new information and is counted once: it would only shrink the error bars. Deals that come
twice count twice, as often as they are likely.

Games that were played elsewhere (`storage.records.GIVEN`) all count, whatever seatings there are of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from storage.arrays import Indices
from storage.records import GIVEN, EndReason, Outcome, ResultBatch, by_team

if TYPE_CHECKING:
    import pandas as pd

_MOST_TEAMS_PERMUTED = 4
SPAN = 4  # times as many numbers as there are rows: up to here a table is faster than sorting


@dataclass(frozen=True, slots=True)
class Rule:
    """The declared rule for matches that did not end in an ordinary way.

    A forfeit is a loss to all that did not forfeit, as long as forfeits count. If two teams forfeit one
    match, it holds no evidence of which is better: that match is left out.
    """

    forfeit: Literal["loss", "left_out"] = "loss"
    step_limit: Literal["as_scored", "draw", "left_out"] = "as_scored"
    crash: Literal["as_scored", "left_out"] = "left_out"


DEFAULT_RULE = Rule()


@dataclass(frozen=True, slots=True)
class Games:
    """Comparisons of two competitors, g in all, grouped by pairs.

    A match of T teams is T (T - 1) / 2 comparisons.
    """

    competitors: tuple[str, ...]  # N names; indices below point here
    home: Indices  # [g] the competitor in the earlier place
    away: Indices  # [g]
    home_place: Indices  # [g] its team's number, < away_place
    away_place: Indices  # [g]
    points: npt.NDArray[np.float64]  # [g] of home: 1, 1/2, 0
    pair: Indices  # [g] number of the pair; games of one pair are not independent
    match: Indices  # [g] number of the match it comes from (match_id)
    # [g] half of what home's score is above away's, in the game's own units; `None`: not known
    lead: npt.NDArray[np.float64] | None = None

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, columns: Mapping[str, str] | None = None) -> Games:
        """Return the games of a frame with a row for each game, or for each seat of a game.

        `columns` names the columns of the frame by their roles; see `analysis.statistics.given`. Raise
        Mistake for columns that are missing, and for the first row that is not a game.
        """
        from analysis.statistics.given import results_of_frame  # which rules of the league do not need

        results = results_of_frame(frame, columns)
        return games_of([results], results.matches.competitors)

    def __len__(self) -> int:
        return len(self.home)

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return int(self.pair.max(initial=-1)) + 1


@dataclass(frozen=True, slots=True)
class GameTally:
    """The games that count, and the number of pairs that do not."""

    games: Games
    unfinished_pairs: int  # some seating has not been played
    ruled_out_pairs: int  # the rule leaves out one of their matches
    repeated_pairs: tuple[tuple[tuple[str, ...], int], ...]  # pairing, its pairs that were played before


def games_per_pair(num_teams: int) -> int:
    """Return the number of matches of one pair.

    These are all orders of the teams, or, of more than four teams, their rotations. Raise ValueError without
    a team.
    """
    if not 1 <= num_teams < math.inf or num_teams % 1:
        raise ValueError(f"num_teams is {num_teams}, expected a whole number of 1 or more")
    return math.factorial(num_teams) if num_teams <= _MOST_TEAMS_PERMUTED else num_teams


def games_of(results: Iterable[ResultBatch], competitors: Sequence[str], rule: Rule = DEFAULT_RULE) -> Games:
    """Return the games that count of matches among `competitors`; see `tally`."""
    return tally(results, competitors, rule).games


def tally(results: Iterable[ResultBatch], competitors: Sequence[str], rule: Rule = DEFAULT_RULE) -> GameTally:
    """Return the games that count of all `results`, which are of one game, in their order.

    Matches with other competitors, or with one competitor as two teams, are skipped. A second match of the
    same pair and seating is not counted.
    """
    batches = [batch for batch in results if len(batch)]
    if not batches:
        return GameTally(_no_games(competitors), 0, 0, ())
    parts = [_by_team(batch, competitors, rule) for batch in batches]
    seated, place, score, valid, seed, match, digest = (
        part[0] if len(part) == 1 else np.concatenate(part) for part in zip(*parts, strict=True)
    )
    order = np.sort(seated, axis=1)
    apart = (order[:, 0] >= 0) & (order[:, 1:] != order[:, :-1]).all(axis=1)

    names = tuple(competitors)
    if all(batch.matches.match_types == (GIVEN,) for batch in batches):
        del digest, parts
        if not (apart & valid).all():
            rows = np.flatnonzero(apart & valid)
            seated, place, score, seed, match, order = (
                column[rows] for column in (seated, place, score, seed, match, order)
            )
        if np.array_equal(seed, match):  # each game by itself
            pair = np.arange(len(seed))
        else:
            pair = _in_order(numbered(*order.T, np.unique(seed, return_inverse=True)[1]))
        return GameTally(_compared(names, seated, place, score, pair, match), 0, 0, ())
    pairing = numbered(*order.T)
    pair = _in_order(numbered(pairing, np.unique(seed, return_inverse=True)[1]))
    seating = numbered(*np.argsort(seated, axis=1).T)
    first = firsts(pair * (seating.max() + 1) + seating)
    rows = first[apart[first]]  # by pair, then by seating
    counts = np.bincount(pair[rows], minlength=pair.max() + 1)
    played = counts > 0
    whole = counts == games_per_pair(seated.shape[1])
    ruled_out = np.bincount(pair[rows], ~valid[rows], minlength=len(counts)) > 0
    rows = rows[(whole & ~ruled_out)[pair[rows]]]
    repeat = _repeats(pair[rows], pairing[rows], seating[rows], digest[rows])
    again = pairing[rows][repeat & _first_of_each(pair[rows])]
    rows = np.sort(rows[~repeat])

    return GameTally(
        games=_compared(names, seated[rows], place[rows], score[rows], numbered(pair[rows]), match[rows]),
        unfinished_pairs=int((played & ~whole).sum()),
        ruled_out_pairs=int((whole & ruled_out).sum()),
        repeated_pairs=tuple(
            (tuple(competitors[c] for c in order[np.argmax(pairing == number)]), int(count))
            for number, count in zip(*np.unique(again, return_counts=True), strict=True)
        ),
    )


def pair_scores(games: Games, a: int, b: int) -> npt.NDArray[np.float64]:
    """Return the mean points [n] of a in its games against b, by pair in which they met."""
    at_home, abroad = (games.home == a) & (games.away == b), (games.home == b) & (games.away == a)
    met = at_home | abroad
    points = np.where(at_home, games.points, 1.0 - games.points)[met]
    number = np.bincount(games.pair[met], minlength=1)
    total = np.bincount(games.pair[met], points, minlength=1)
    return total[number > 0] / number[number > 0]


def numbered(*columns: Indices) -> Indices:
    """Return equal numbers [M] for equal rows of the columns [M] of small whole numbers, dense from 0."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        value = column - column.min(initial=0)
        number = dense(number * (value.max(initial=0) + 1) + value)
    return number


def dense(number: Indices) -> Indices:
    """Return numbers [M], 0 or more, made dense from 0 in their order: 7 3 7 becomes 1 0 1."""
    span = int(number.max(initial=-1)) + 1
    if span > SPAN * len(number):
        return np.unique(number, return_inverse=True)[1]
    there = np.zeros(span, dtype=np.bool_)
    there[number] = True
    return (np.cumsum(there) - 1)[number]


def firsts(number: Indices) -> Indices:
    """Return the first row of each of the numbers [M], 0 or more, by number."""
    span = int(number.max(initial=-1)) + 1
    if span > SPAN * len(number):
        return np.unique(number, return_index=True)[1]
    at = np.full(span, -1)
    at[number[::-1]] = np.arange(len(number))[::-1]  # of a number in two rows, the last value stays
    return at[at >= 0]


def _by_team(batch: ResultBatch, competitors: Sequence[str], rule: Rule) -> tuple[npt.NDArray, ...]:
    """Return teams, places, scores, validity, seed, match_id and digest of M matches of T teams.

    Teams are [M, T] indices of `competitors`, -1: another. Places [M, T] are those at the end, lower is
    better; scores [M, T] are those of each team's first seat. Validity [M]: the rule lets the match count.
    All others are [M].
    """
    matches = batch.matches
    index = {name: i for i, name in enumerate(competitors)}
    known = np.array([index.get(name, -1) for name in matches.competitors], dtype=np.int64)
    first, outcome, place = by_team(batch)
    forfeited = outcome == Outcome.FORFEIT
    cut, crashed = batch.reason == EndReason.STEP_LIMIT, batch.reason == EndReason.CRASH
    if rule.step_limit == "draw":
        place = np.where(cut[:, None] & ~forfeited, 256, place)
    most_forfeits = 1 if rule.forfeit == "loss" else 0
    valid = forfeited.sum(axis=1) <= most_forfeits
    valid &= ~(cut & (rule.step_limit == "left_out")) & ~(crashed & (rule.crash == "left_out"))
    digest = np.zeros(len(batch), dtype=np.int64) if batch.digest is None else batch.digest
    score = batch.score[:, first].astype(np.float64)
    return known[matches.seat[:, first]], place, score, valid, matches.seed, matches.match_id, digest


def _first_of_each(number: Indices) -> npt.NDArray[np.bool_]:
    """Return the rows [M] that are the first with their number."""
    first = np.zeros(len(number), dtype=np.bool_)
    first[firsts(number)] = True
    return first


def _in_order(number: Indices) -> Indices:
    """Return the numbers [M] made dense, in order of first appearance."""
    first = firsts(number)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[dense(number)]


def _repeats(pair: Indices, pairing: Indices, seating: Indices, digest: Indices) -> npt.NDArray[np.bool_]:
    """Return the matches [M] of pairs that equal an earlier pair of the same competitors in every seating.

    Rows are whole pairs in order, each sorted by seating. Only pairs in which nothing was drawn at random (no
    digest is 0) can be repeats.
    """
    if not len(pair):
        return np.zeros(0, dtype=np.bool_)
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    seen = np.unique(digest, return_inverse=True)[1]
    by_pair = (len(starts), -1)
    columns = (*seen.reshape(by_pair).T, *seating.reshape(by_pair).T)
    alike = numbered(pairing[starts], *columns)
    drawn = (digest == 0).reshape(by_pair).any(axis=1)
    again = ~_first_of_each(np.where(drawn, alike.max() + 1 + np.arange(len(alike)), alike))
    return np.repeat(again, len(pair) // len(starts))


def _compared(
    competitors: tuple[str, ...],
    seated: Indices,
    place: Indices,
    score: npt.NDArray[np.float64],
    pair: Indices,
    match: Indices,
) -> Games:
    """Return the comparisons of M matches.

    Given are team [M, T], place at the end and score [M, T], pair [M] and match [M].
    """
    home, away = np.triu_indices(seated.shape[1], k=1)
    ahead = np.sign(place[:, away] - place[:, home])  # lower is better
    return Games(
        competitors=competitors,
        home=seated[:, home].ravel(),
        away=seated[:, away].ravel(),
        home_place=np.tile(home, len(seated)),
        away_place=np.tile(away, len(seated)),
        points=(0.5 + 0.5 * ahead).ravel(),
        pair=np.repeat(pair, len(home)),
        match=np.repeat(match, len(home)),
        lead=((score[:, home] - score[:, away]) / 2.0).ravel(),
    )


def _no_games(competitors: Sequence[str]) -> Games:
    none = np.zeros(0, dtype=np.int64)
    return Games(tuple(competitors), none, none, none, none, np.zeros(0), none, none, np.zeros(0))


def of_those_who_played(games: Games) -> Games:
    """Return the games without competitors that have none; all of them when there is no game.

    Such a competitor is known by the prior alone, and would make every rating relative to the mean uncertain.
    """
    seen = np.unique(np.concatenate([games.home, games.away]))
    if not len(seen):
        return games
    names = tuple(games.competitors[i] for i in seen)
    home, away = (np.searchsorted(seen, side) for side in (games.home, games.away))
    return replace(games, competitors=names, home=home, away=away)
