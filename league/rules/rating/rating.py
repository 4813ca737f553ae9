"""TrueSkill ratings of all competitors in the league, updated match by match in the order of play.

Herbrich, Minka, Graepel: TrueSkill, a Bayesian skill rating system (NIPS 2006). Two sides, of one
seat or of many, are rated in closed form, which is exact because their factor graph has no loop;
more than two by expectation propagation, hundreds of matches at once (`tables`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PlainValidator

from league.rules.rating.anchors import AnchoredSettings
from league.rules.rating.closed_form import RatingTable, Seen
from league.rules.rating.prediction import PRIOR_SHARE, DrawRecord, expected_score
from league.rules.rating.tables import rate_many_teams
from storage.arrays import Bools, Floats, Indices
from storage.records import Outcome

ESTIMATED = "estimated"


def _share(value: Any) -> float | str:
    """Check a number or a word with one message, where a union would give two."""
    if value == ESTIMATED:
        return ESTIMATED
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value < 1.0:
        return float(value)
    raise ValueError(f"found {value!r}, expected a share of at least 0 and below 1, or '{ESTIMATED}'")


_Share = float | Literal["estimated"]


class RatingSettings(AnchoredSettings):
    """Constants of TrueSkill, and the number of games after which a rating stops moving."""

    mu: float = Field(default=25.0, description="Mean of a newcomer without parent", allow_inf_nan=False)
    sigma: float = Field(
        default=25.0 / 3.0, gt=0, allow_inf_nan=False, description="Standard deviation of a newcomer"
    )
    beta: float = Field(
        default=25.0 / 6.0, gt=0, allow_inf_nan=False, description="Standard deviation of one performance"
    )
    tau: float = Field(
        default=25.0 / 300.0, ge=0, allow_inf_nan=False, description="Drift of a learner's skill per game"
    )
    update_drift: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Drift of a learner's skill per update of its weights, added to its sigma whenever a "
        "snapshot of it is taken; 0: by games alone",
    )
    draw_probability: Annotated[_Share, PlainValidator(_share, json_schema_input_type=_Share)] = Field(
        default=0.1,
        description="Share of draws between equals; 0 only where draws cannot happen; estimated: from the "
        "games played, again whenever their number has doubled",
    )
    placement_games: int = Field(
        default=50, ge=1, description="Games after which the rating of a snapshot or bot is fixed"
    )


class RatingBook:
    """Ratings (mu, sigma, games) by index.

    Learners drift by tau with every game. The rating of a competitor that does not learn is fixed once it
    has `placement_games`, that of an anchor without an error from the start.

    `draw_probability` is the current share of draws between equals. A new estimate of it does not change
    the ratings of games already played. Ratings depend on the games and their order alone, and not on the
    batches that they come in; those of more than two teams to within 1e-7.
    """

    def __init__(self, settings: RatingSettings) -> None:
        self.settings = settings
        self.mu: Floats = np.zeros(0)
        self.variance: Floats = np.zeros(0)
        self.games: Indices = np.zeros(0, dtype=np.int64)
        self.fixed: Bools = np.zeros(0, dtype=np.bool_)
        self._learns: Bools = np.zeros(0, dtype=np.bool_)
        share = settings.draw_probability
        self._draws = DrawRecord() if isinstance(share, str) else None
        self._expect_draws(PRIOR_SHARE if isinstance(share, str) else share)

    def __len__(self) -> int:
        return len(self.mu)

    @property
    def sigma(self) -> Floats:
        """Standard deviation of each rating, by index."""
        return np.sqrt(self.variance)

    def folded(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return (arrays by index, other numbers): what `restore` takes."""
        arrays = {"mu": self.mu, "variance": self.variance, "games": self.games, "fixed": self.fixed}
        fields: dict[str, Any] = {"draw_probability": self.draw_probability}
        if self._draws is not None:
            cells, fields["draws"] = self._draws.folded()
            arrays["draw_cells"] = cells
        return arrays, fields

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], fields: Mapping[str, Any]) -> None:
        """Take what `folded` returned of a book with the same competitors and settings."""
        self.mu, self.variance = arrays["mu"], arrays["variance"]
        self.games, self.fixed = arrays["games"], arrays["fixed"]
        if self._draws is not None:
            self._draws.restore(arrays["draw_cells"], fields["draws"])
        self._expect_draws(float(fields["draw_probability"]))

    def admit(
        self, *, mu: float | None = None, sigma: float | None = None, learns: bool, anchor: bool = False
    ) -> int:
        """Rate a newcomer by `sigma` around `mu` (`None` for the default) and return its index."""
        s = self.settings
        sigma = sigma or (s.anchor_sigma if anchor else s.sigma)
        self.mu = np.append(self.mu, s.mu if mu is None else mu)
        self.variance = np.append(self.variance, sigma * sigma)
        self.games = np.append(self.games, 0)
        self.fixed = np.append(self.fixed, anchor)
        self._learns = np.append(self._learns, learns)
        return len(self.mu) - 1

    def restart(self, index: int, mu: float) -> None:
        """Restart a learner: fresh sigma around `mu`, no games."""
        self.mu[index] = mu
        self.variance[index] = self.settings.sigma**2
        self.games[index] = 0

    def widen(self, index: int, updates: int) -> None:
        """Widen a learner's rating after `updates` changes of its weights.

        Its variance grows by `update_drift` squared for each, at most to that of a newcomer. Raise ValueError
        for a negative number.
        """
        if updates < 0:
            raise ValueError(f"ratings: {updates} updates, expected 0 or more")
        before, newcomer = float(self.variance[index]), self.settings.sigma**2
        self.variance[index] = max(before, min(before + updates * self.settings.update_drift**2, newcomer))

    # ------------------------------------------------------------------ predictions

    def draw_margin(self, seats: int = 2) -> float:
        """Return epsilon of the paper, for two sides of `seats` players in all.

        It is sqrt(seats) beta Phi^-1((draw_probability + 1) / 2).
        """
        return math.sqrt(seats) * self.settings.beta * self._margin

    def win_probability(
        self, home: npt.ArrayLike, away: npt.ArrayLike, sizes: tuple[int, int] = (1, 1)
    ) -> Floats:
        """Return the expected score (a draw counts half) of `home` against `away`.

        `home` and `away` are arrays or scalars that broadcast. Each is alone on its side, in as many seats as
        `sizes` gives. P(win) + P(draw) / 2, see `prediction.expected_score`, of the gap H mu_h - A mu_a, with
        c^2 = (H + A) beta^2 + H^2 sigma_h^2 + A^2 sigma_a^2.
        """
        (of_home, of_away), h, a = sizes, np.asarray(home), np.asarray(away)
        c = np.sqrt(
            sum(sizes) * self.settings.beta**2 + of_home**2 * self.variance[h] + of_away**2 * self.variance[a]
        )
        return expected_score(of_home * self.mu[h] - of_away * self.mu[a], c, self.draw_margin(sum(sizes)))

    def match_quality(self, seated: npt.ArrayLike, team_of_seat: npt.ArrayLike) -> Floats:
        """Return how even each of M matches of any teams is: [M] in (0, 1].

        `seated` [M, S] is the competitor in each seat, `team_of_seat` [S] the team of each seat. The quality
        of two teams is the probability of a draw relative to that of known equals, in the limit of a margin
        of 0 (section 4 of the paper); that of more is the same of all their differences at once. Team k has
        n_k seats, and a performance with mean m_k and variance v_k. With M the mean of all m_k, weighted by
        1 / v_k, and q(v) = (prod v_k) (sum 1 / v_k), the quality is
        exp(-1/2 sum (m_k - M)^2 / v_k) sqrt(q(n beta^2) / q(v)). Seats count as those of different
        competitors. Raise ValueError for fewer than two teams, and other shapes.
        """
        who, (teams, team) = np.asarray(seated), np.unique(team_of_seat, return_inverse=True)
        if who.ndim != 2 or team.shape != who.shape[1:] or len(teams) < 2:
            raise ValueError(
                f"match_quality: found seats {who.shape} and teams {np.shape(team_of_seat)}, expected [M, S] "
                "and [S], of two teams or more"
            )
        of_team = (team[:, None] == np.arange(len(teams))).astype(np.float64)
        luck = of_team.sum(axis=0) * self.settings.beta**2
        mean, variance = self.mu[who] @ of_team, self.variance[who] @ of_team + luck
        share = 1.0 / variance
        centre = np.sum(mean * share, axis=1) / share.sum(axis=1)
        apart = np.sum((mean - centre[:, None]) ** 2 * share, axis=1)
        certain = np.prod(luck / variance, axis=1) * np.sum(1.0 / luck) / share.sum(axis=1)
        return np.exp(-0.5 * apart) * np.sqrt(certain)

    # ------------------------------------------------------------------ results

    def rate_pairs(self, home: Indices, away: Indices, outcome: npt.NDArray[np.int8]) -> Indices:
        """Rate G games of two in order: indices [G], [G], home's Outcome [G]. Return the indices that played.

        Raise ValueError for a draw when `draw_probability` is 0.
        """
        self._refuse_draws(bool((outcome == Outcome.DRAW).any()))
        return self._between_estimates(
            len(home), lambda games: self._rate_pairs(home[games], away[games], outcome[games])
        )

    def rate_teams(self, seated: Indices, team_of_seat: Indices, rank: npt.NDArray[np.int8]) -> Indices:
        """Rate M matches of teams in order, and return the indices of the competitors that were rated.

        `seated` [M, S] is the competitor in each seat, `team_of_seat` [S] the team of each seat, `rank`
        [M, S] the rank of each seat (0 is best, ties equal, one rank for all of a team).

        A competitor in several seats of a match has one skill, and has played one game. Between two teams
        its wins against itself cancel; with more, it takes the mean of its results in each. Raise ValueError
        for a tie when `draw_probability` is 0, or for ranks that differ within a team.
        """
        teams, first, team = np.unique(team_of_seat, return_index=True, return_inverse=True)
        ranks = rank[:, first]
        if (rank != ranks[:, team]).any():
            match = int((rank != ranks[:, team]).any(axis=1).argmax())
            raise ValueError(
                f"ratings: seats of one team were ranked {rank[match].tolist()} with teams "
                f"{team.tolist()}, expected one rank for each team"
            )
        ordered = np.sort(ranks, axis=1)
        tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) & (seated != seated[:, :1]).any(axis=1)
        self._refuse_draws(bool(tied.any()))
        if len(teams) < 2:  # all seats are on one side, against the game
            return np.zeros(0, dtype=np.int64)
        return self._between_estimates(
            len(seated), lambda games: self._rate_teams(seated[games], team.astype(np.int64), ranks[games])
        )

    def _rate_pairs(self, home: Indices, away: Indices, outcome: npt.NDArray[np.int8]) -> Indices:
        played, local = np.unique(np.concatenate([home, away]), return_inverse=True)
        first, second = local.reshape(2, -1).tolist()
        table = self._table(played)
        seen = table.rate_pairs(
            first, second, outcome.tolist(), beta=self.settings.beta, margin=self.draw_margin()
        )
        self._store(played, table)
        self._note_draws(seen, seats=2)
        return played

    def _rate_teams(self, seated: Indices, team: Indices, ranks: npt.NDArray[np.int8]) -> Indices:
        everyone, local = np.unique(seated, return_inverse=True)
        table, local = self._table(everyone), local.reshape(seated.shape)
        beta, seats = self.settings.beta, len(team)
        if ranks.shape[1] == 2:
            side, lead = 1 - 2 * team, np.sign(ranks[:, 1].astype(np.int64) - ranks[:, 0])
            rows, margin = [row.tolist() for row in local], self.draw_margin(seats)
            seen = table.rate_two_teams(rows, side.tolist(), lead.tolist(), beta=beta, margin=margin)
            self._note_draws(seen, seats)
        else:
            pairs = rate_many_teams(table, local, team, ranks, beta=beta, margin=self.draw_margin(1))
            if self._draws is not None and pairs is not None:
                self._draws.add(*pairs)
        rated = everyone[np.array(table.games) > self.games[everyone]]
        self._store(everyone, table)
        return rated

    def _table(self, played: Indices) -> RatingTable:
        free = self._learns[played]
        drift = np.where(free & ~self.fixed[played], self.settings.tau**2, 0.0)
        placement = np.where(free, np.iinfo(np.int64).max, self.settings.placement_games)
        columns = (self.mu, self.variance, self.games, self.fixed)
        mu, variance, games, fixed = (column[played].tolist() for column in columns)
        return RatingTable(
            mu, variance, games, fixed, drift.tolist(), placement.tolist(), self._draws is not None
        )

    def _store(self, played: Indices, table: RatingTable) -> None:
        self.mu[played], self.variance[played] = table.mu, table.variance
        self.games[played], self.fixed[played] = table.games, table.fixed

    # ------------------------------------------------------------------ draws

    def _expect_draws(self, share: float) -> None:
        self.draw_probability = share
        self._margin = NormalDist().inv_cdf((share + 1.0) / 2.0)

    def _between_estimates(self, games: int, rate: Callable[[slice], Indices]) -> Indices:
        """Rate `games` games in order, and estimate the draw probability again where it is due."""
        if self._draws is None:
            return rate(slice(0, games))
        played: list[Indices] = [np.zeros(0, dtype=np.int64)]
        start = 0
        while start < games:
            stop = min(games, start + self._draws.room)
            played.append(rate(slice(start, stop)))
            if self._draws.passed(stop - start):
                self._expect_draws(self._draws.estimate())
            start = stop
        return np.unique(np.concatenate(played))

    def _note_draws(self, seen: Seen, seats: int) -> None:
        if self._draws is not None and seen:
            gap, c, result = np.array(seen).T
            self._draws.add(gap, math.sqrt(seats) * self.settings.beta / c, result == Outcome.DRAW)

    def _refuse_draws(self, drawn: bool) -> None:
        if drawn and self.draw_probability == 0.0:
            raise ValueError(
                "ratings: a match was drawn, but ratings.draw_probability is 0, for games in which "
                "draws cannot happen; set it to the share of draws you expect between equals, such as 0.1"
            )
