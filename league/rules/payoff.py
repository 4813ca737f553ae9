"""Payoff: wins, draws, losses and leads of every pair of competitors, fading with every further game."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from league.section import SettingsGroup
from storage.arrays import Floats, Indices
from storage.records import Outcome, ResultBatch

_VOID = -1  # both seats lost (each forfeited): the game counts for neither


class PayoffSettings(SettingsGroup):
    """Payoff: what a game between two competitors counts."""

    unit: Literal["auto", "outcome", "score"] = Field(
        default="auto",
        description="outcome: games won; score: what the game pays; auto: score where the game declares its "
        "bounds (score_bounds), as games for chips do",
    )
    scale: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="With score: lead per game that counts as a certain win in weightings and thresholds; "
        "none: the game's own (score_unit), or half of what is between its bounds",
    )

    def scale_for(self, bounds: tuple[float, float] | None, unit: float | None) -> float | None:
        """Return the lead that is as good as a certain win; `None` if payoffs count games won.

        `bounds` and `unit` are the game's (`score_bounds`, `score_unit`). Raise ValueError for scores
        without bounds and for a scale that is not used.
        """
        if self.unit == "score" and bounds is None:
            raise ValueError(
                "payoff.unit: found score, but the game does not declare the least and the greatest score of "
                "a seat (score_bounds); declare them, or use outcome"
            )
        if bounds is None or self.unit == "outcome":
            if self.scale is not None:
                raise ValueError(
                    f"payoff.scale: found {self.scale:g}, but payoffs count games won; leave it out, or set "
                    "unit: score for a game that declares score_bounds"
                )
            return None
        return self.scale or unit or (bounds[1] - bounds[0]) / 2.0


class Payoff:
    """Wins, draws and losses by pair of indices.

    A pair's counts are multiplied by `decay` before each of its games is added, so `games` tends to
    1 / (1 - decay). A competitor may have its own decay (`fade`): the smaller of two holds for the pair.
    Games between two that never change (`keep`) do not fade.
    There are plain counts too: games by pair (`recorded`), and games, wins and draws by competitor
    (`totals`).

    With `scores`, sums of leads are kept as well. The lead of a game is half of what home's score is above
    away's: where one pays the other it is what home won.

    The counts are dense, so that a batch of results and a row of rates are a few array operations
    whatever the size of the league: 20 bytes for each pair of places, 16 more with scores, and places grow
    by half. Of competitors that come one by one, 1,000 take 24 MB and 10,000 take 3.1 GB.
    """

    def __init__(self, *, decay: float = 0.99, capacity: int = 64, scores: bool = False) -> None:
        self.decay = _checked(decay)
        self.scores = scores
        capacity = max(capacity, 1)
        size = capacity if scores else 0
        self._leads = np.zeros((size, size), dtype=np.float64)  # sums; away's are the negative
        self._squares = np.zeros((size, size), dtype=np.float64)  # sums of squared leads
        self._of_pairs = ("_wins", "_draws", "_recorded", *(("_leads", "_squares") if scores else ()))
        # A loss is the mirrored win, so two matrices hold all three counts.
        self._wins = np.zeros((capacity, capacity), dtype=np.float64)
        self._draws = np.zeros((capacity, capacity), dtype=np.float64)
        self._recorded = np.zeros((capacity, capacity), dtype=np.int32)
        self._totals = np.zeros((capacity, 3), dtype=np.int64)  # games, wins, draws
        self._total_lead = np.zeros(capacity, dtype=np.float64)
        self._own_decay: dict[int, float] = {}
        self._kept = np.zeros(capacity, dtype=np.bool_)

    def reserve(self, size: int) -> None:
        """Make room for indices below `size`."""
        capacity = len(self._totals)
        if size <= capacity:
            return
        wider = max(size, capacity + capacity // 2)
        for name in self._of_pairs:
            setattr(self, name, _grown(getattr(self, name), (wider, wider)))
        self._totals = _grown(self._totals, (wider, 3))
        self._kept = _grown(self._kept, (wider,))
        self._total_lead = _grown(self._total_lead, (wider,))

    def fade(self, index: int, decay: float) -> None:
        """Fade games of this competitor by `decay` from here on, unless its opponent's fade faster."""
        self._own_decay[index] = _checked(decay)

    def keep(self, index: int) -> None:
        """Mark a competitor that never changes: its games with others of that kind do not fade."""
        self.reserve(index + 1)
        self._kept[index] = True

    def record(
        self, home: Indices, away: Indices, outcome: npt.NDArray[np.int8], lead: Floats | None = None
    ) -> None:
        """Add G games in order: indices [G], [G], home's Outcome [G] (a forfeit is a loss), home's lead [G].

        The result is that of recording them one after the other. Games of a competitor with itself are left
        out. Leads are required with `scores` and not used otherwise.
        """
        other = home != away
        home, away, outcome = home[other], away[other], outcome[other]
        if not len(home):
            return
        self.reserve(int(max(home.max(), away.max())) + 1)
        won, drawn = outcome == Outcome.WIN, outcome == Outcome.DRAW
        swapped = home > away
        low, high = np.where(swapped, away, home), np.where(swapped, home, away)
        low_won = np.where(swapped, ~won & ~drawn, won)
        order = np.lexsort((high, low))  # stable: within a pair, the order of play
        low, high, low_won = low[order], high[order], low_won[order]
        first = np.flatnonzero(np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])])
        games = np.diff(np.r_[first, len(low)])
        games_after = np.repeat(first + games, games) - np.arange(len(low)) - 1
        i, j = low[first], high[first]
        decay = self._decay_of(i, j)
        weight = np.repeat(decay, games) ** games_after.astype(np.float64)
        faded = decay ** games.astype(np.float64)
        drawn_low = drawn[order]
        low_lost = ~low_won & ~drawn_low
        self._wins[i, j] = self._wins[i, j] * faded + np.add.reduceat(weight * low_won, first)
        self._wins[j, i] = self._wins[j, i] * faded + np.add.reduceat(weight * low_lost, first)
        draws = self._draws[i, j] * faded + np.add.reduceat(weight * drawn_low, first)
        self._draws[i, j] = self._draws[j, i] = draws
        if self.scores:
            assert lead is not None, "payoff: leads are required with scores"
            low_lead = np.where(swapped, -lead[other], lead[other])[order]
            sums = self._leads[i, j] * faded + np.add.reduceat(weight * low_lead, first)
            self._leads[i, j], self._leads[j, i] = sums, -sums
            squares = self._squares[i, j] * faded + np.add.reduceat(weight * low_lead**2, first)
            self._squares[i, j] = self._squares[j, i] = squares
            self._total_lead += np.bincount(home, lead[other], minlength=len(self._totals))
            self._total_lead -= np.bincount(away, lead[other], minlength=len(self._totals))
        self._recorded[i, j] += games
        self._recorded[j, i] = self._recorded[i, j]
        size = len(self._totals)
        everyone = np.concatenate([home, away])
        self._totals[:, 0] += np.bincount(everyone, minlength=size)
        self._totals[:, 1] += np.bincount(np.where(won, home, away)[~drawn], minlength=size)
        self._totals[:, 2] += np.bincount(everyone[np.r_[drawn, drawn]], minlength=size)

    def _decay_of(self, i: Indices, j: Indices) -> Floats:
        """Return the decay of each pair [n]."""
        decay = np.full(len(self._totals), np.inf)
        for index, own in self._own_decay.items():
            decay[index] = own
        pair = np.minimum(decay[i], decay[j])
        pair = np.where(np.isinf(pair), self.decay, pair)
        return np.where(self._kept[i] & self._kept[j], 1.0, pair)

    def wins(self, home: int, away: Indices) -> Floats:
        """Return the faded count of home's wins against each of `away` [n]."""
        return self._wins[home, away]

    def draws(self, home: int, away: Indices) -> Floats:
        """Return the faded count of draws with each of `away` [n]."""
        return self._draws[home, away]

    def losses(self, home: int, away: Indices) -> Floats:
        """Return the faded count of home's losses against each of `away` [n]."""
        return self._wins[away, home]

    def games(self, home: int, away: Indices) -> Floats:
        """Return the faded count of games with each of `away` [n]."""
        return self._wins[home, away] + self._draws[home, away] + self._wins[away, home]

    def lead(self, home: int, away: Indices) -> Floats:
        """Return the faded sum of home's leads over each of `away` [n]; only with `scores`."""
        return self._leads[home, away]

    def squares(self, home: int, away: Indices) -> Floats:
        """Return the faded sum of squared leads of games with each of `away` [n]; only with `scores`."""
        return self._squares[home, away]

    def recorded(self, home: int, away: Indices) -> Indices:
        """Return the unfaded number of games with each of `away` [n] since the later `clear` of either."""
        return self._recorded[home, away].astype(np.int64)

    def totals(self, index: int) -> tuple[int, int, int]:
        """Return unfaded (games, wins, draws) since the competitor's last `clear`."""
        games, wins, draws = self._totals[index].tolist()
        return games, wins, draws

    def total_lead(self, index: int) -> float:
        """Return the unfaded sum of leads since the competitor's last `clear`; 0 without `scores`."""
        return float(self._total_lead[index])

    def folded(self, size: int) -> dict[str, npt.NDArray[Any]]:
        """Return all counts of the indices below `size`, by name: what `restore` takes."""
        self.reserve(size)
        found = {name: getattr(self, name)[:size, :size] for name in self._of_pairs}
        return found | {name: getattr(self, name)[:size] for name in ("_totals", "_total_lead")}

    def restore(self, folded: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take the counts that `folded` returned; whose games fade how is not among them."""
        self.reserve(len(folded["_totals"]))
        for name, counts in folded.items():
            getattr(self, name)[tuple(map(slice, counts.shape))] = counts

    def clear(self, index: int) -> None:
        """Forget all games of a competitor that was reset. Its opponents keep their totals."""
        for name in self._of_pairs:
            getattr(self, name)[index, :] = 0
            getattr(self, name)[:, index] = 0
        self._totals[index] = 0
        self._total_lead[index] = 0.0


def _checked(decay: float) -> float:
    if not 0.0 < decay <= 1.0:
        raise ValueError(f"payoff: decay is {decay}, expected above 0 and at most 1")
    return decay


def _grown(counts: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the counts with zeros around, which take no memory until written (those of np.pad do)."""
    grown = np.zeros(shape, dtype=counts.dtype)
    grown[tuple(map(slice, counts.shape))] = counts
    return grown


def pairs_of(
    results: ResultBatch, seated: Indices, team_of_seat: Indices | None = None
) -> tuple[Indices, Indices, npt.NDArray[np.int8], Floats]:
    """Return the games of M matches, pair by pair in order of play.

    They are home [G], away [G], home's Outcome [G] and home's lead [G].

    `seated` [M, S] holds the index of the competitor in each seat. Two seats are compared by outcome, more
    by rank. Left out are pairs of seats of the same competitor, and pairs that both lost (both forfeited):
    that is no draw, and a win of neither.

    With `team_of_seat` [S] only opponents are compared, and two of them once for each match, however
    many seats they fill: all seats of a team share one result.
    """
    outcome, rank = results.outcome, results.rank
    first, second = np.triu_indices(seated.shape[1], k=1)
    if team_of_seat is not None:
        opposed = team_of_seat[first] != team_of_seat[second]
        first, second = first[opposed], second[opposed]
        swapped = team_of_seat[first] > team_of_seat[second]
        first, second = np.where(swapped, second, first), np.where(swapped, first, second)
    home, away = seated[:, first], seated[:, second]
    if seated.shape[1] == 2:
        draws = (outcome[:, first] == Outcome.DRAW) & (outcome[:, second] == Outcome.DRAW)
        home_won, away_won = outcome[:, first] == Outcome.WIN, outcome[:, second] == Outcome.WIN
    else:
        both_forfeit = (outcome[:, first] == Outcome.FORFEIT) & (outcome[:, second] == Outcome.FORFEIT)
        draws = (rank[:, first] == rank[:, second]) & ~both_forfeit
        home_won, away_won = rank[:, first] < rank[:, second], rank[:, first] > rank[:, second]
    result = np.select([home_won, away_won, draws], [Outcome.WIN, Outcome.LOSS, Outcome.DRAW], _VOID)
    counts = (result != _VOID) & (home != away)
    if team_of_seat is not None:
        same = (home[:, :, None] == home[:, None, :]) & (away[:, :, None] == away[:, None, :])
        same &= result[:, :, None] == result[:, None, :]
        counts &= ~np.tril(same, k=-1).any(axis=2)
    lead = (results.score[:, first].astype(np.float64) - results.score[:, second]) / 2.0
    return home[counts], away[counts], result[counts].astype(np.int8), lead[counts]
