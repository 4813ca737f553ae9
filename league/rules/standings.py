"""Payoff and ratings: what all recorded results say of everyone, folded in the order of recording.

Folding the same batches again gives the same bits, so resuming is replaying.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from league.rules.payoff import Payoff, pairs_of
from league.rules.rating.rating import RatingBook, RatingSettings
from league.rules.roster import Roster
from storage.arrays import Floats, Indices
from storage.records import Bot, Competitor, LivePlayer, Outcome, RatingChange, ResultBatch, Role, Snapshot


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One competitor's standing. `games` (one for each opponent in a match) and `win_rate` (draws
    count half) are plain counts since its last reset; the rate is None before its first game."""

    competitor: str
    role: Role | None  # None: a bot
    mu: float
    sigma: float
    games: int
    win_rate: float | None
    retired: bool

    @property
    def exposure(self) -> float:
        """Mu - 3 sigma: the skill it has with near certainty; what the leaderboard is ordered by."""
        return self.mu - 3.0 * self.sigma


class Standings:
    """The fold. Whoever is admitted to the roster is announced here too, by `on_admit`.

    `teams` says which team each seat of the game belongs to, such as (0, 0, 1, 1); None: each seat
    plays for itself. `decay_of_role`: how games of live players of these roles fade, where that differs.
    """

    def __init__(
        self,
        roster: Roster,
        settings: RatingSettings | None = None,
        decay: float = 0.99,
        teams: Sequence[int] | Indices | None = None,
        decay_of_role: Mapping[Role, float] | None = None,
    ) -> None:
        self._roster = roster
        self._decay_of_role = dict(decay_of_role or {})
        sizes = (
            (1, 1) if teams is None else tuple(np.bincount(np.unique(teams, return_inverse=True)[1]).tolist())
        )
        self._teams = None if max(sizes) == 1 else np.array(teams, dtype=np.int64)
        # How many seats one team has and how many another: as often as there are such two.
        self._matchups = Counter(itertools.permutations(sizes, 2)) or Counter([(1, 1)])
        self._updates: dict[str, int] = {}  # of each player, when its last snapshot was taken
        self.settings = RatingSettings() if settings is None else settings
        self.payoff = Payoff(decay=decay)
        self.ratings = RatingBook(self.settings)
        self._anchor: str | None = None
        for index in range(len(roster)):
            self.on_admit(roster.at(index))

    @property
    def anchor(self) -> str | None:
        """The competitor all ratings are relative to; None before it is admitted."""
        return self._anchor

    def on_admit(self, competitor: Competitor, parent: str | None = None) -> None:
        """Rate a newcomer of the roster: mu of `parent` (the player a snapshot was frozen from;
        None: the default), fresh sigma, no games. A snapshot also tells how often its player's weights
        have changed since the last: the player's sigma is widened (`ratings.update_drift`).

        Raises ValueError out of the order of admission.
        """
        name, expected = competitor.competitor, len(self.ratings)
        if self._roster.index(name) != expected:
            raise ValueError(
                f"standings: '{name}' has index {self._roster.index(name)}, expected {expected}; "
                "call on_admit once after each Roster.admit"
            )
        learns = isinstance(competitor, LivePlayer)
        wanted = self.settings.anchor
        anchor = self._anchor is None and (name == wanted if wanted is not None else not learns)
        if anchor and learns:
            raise ValueError(
                f"ratings.anchor is '{name}', a player that learns, expected a competitor that never "
                "changes; name a snapshot or a bot"
            )
        mu = None if parent is None else float(self.ratings.mu[self._roster.index(parent)])
        self.ratings.admit(mu=mu, learns=learns, anchor=anchor)
        self.payoff.reserve(expected + 1)
        if anchor:
            self._anchor = name
        if isinstance(competitor, Snapshot):
            self._widen(competitor)
        elif isinstance(competitor, LivePlayer) and competitor.role in self._decay_of_role:
            self.payoff.fade(expected, self._decay_of_role[competitor.role])

    def on_reset(self, player: str, target: str) -> None:
        """The player took the weights of snapshot `target`: its games are forgotten, its mu is the
        target's, its sigma fresh. Raises ValueError for a snapshot or bot."""
        index = self._roster.index(player)
        if not isinstance(self._roster.at(index), LivePlayer):
            raise ValueError(f"standings: '{player}' does not learn, expected a live player to reset")
        self.payoff.clear(index)
        self.ratings.restart(index, float(self.ratings.mu[self._roster.index(target)]))

    def _widen(self, snapshot: Snapshot) -> None:
        """`updates` of a player only ever grow; a snapshot of weights from elsewhere has none of its own.
        An imported snapshot is its own player, and never drifts."""
        player = snapshot.player
        updates = snapshot.updates - self._updates.get(player, 0)
        self._updates[player] = max(snapshot.updates, self._updates.get(player, 0))
        learns = player in self._roster and isinstance(self._roster[player], LivePlayer)
        if updates > 0 and learns and self._roster.index(player) < len(self.ratings):
            self.ratings.widen(self._roster.index(player), updates)

    def record(self, results: ResultBatch) -> list[RatingChange]:
        """Fold in M results of any purpose, in order. Returns the new rating of everyone who was
        rated, by index. Seats of one and the same competitor (self-play), games for one, and matches
        that everyone forfeited say nothing of anyone.

        Raises KeyError for a competitor that was never admitted, ValueError for a draw that
        `draw_probability` rules out and for seats that do not fit the teams; nothing is recorded then.
        """
        if not len(results):
            return []
        matches = results.matches
        seated = self._roster.indices(matches.competitors)[matches.seat]
        if matches.num_seats == 1:
            return []
        if self._teams is not None and len(self._teams) != matches.num_seats:
            raise ValueError(
                f"standings: matches of {matches.num_seats} seats, expected {len(self._teams)} seats, of the "
                f"teams {self._teams.tolist()}"
            )
        home, away, outcome = pairs_of(results, seated, self._teams)
        if matches.num_seats == 2:
            played = self.ratings.rate_pairs(home, away, outcome)
        else:
            told = ~(results.outcome == Outcome.FORFEIT).all(axis=1)
            teams = np.arange(matches.num_seats) if self._teams is None else self._teams
            played = self.ratings.rate_teams(seated[told], teams, results.rank[told])
        self.payoff.record(home, away, outcome)
        mu, sigma = self.ratings.mu[played].tolist(), np.sqrt(self.ratings.variance[played]).tolist()
        games = self.ratings.games[played].tolist()
        return [
            RatingChange(self._roster.id(i), m, s, g)
            for i, m, s, g in zip(played.tolist(), mu, sigma, games, strict=True)
        ]

    def rating(self, competitor: str) -> RatingChange:
        """A competitor's rating as it stands."""
        index = self._roster.index(competitor)
        ratings = self.ratings
        return RatingChange(
            competitor, float(ratings.mu[index]), float(ratings.sigma[index]), int(ratings.games[index])
        )

    def win_rate(self, home: int, away: Indices, prior_strength: float) -> Floats:
        """P = (wins + draws/2 + k p_trueskill) / (games + k) of `home` against each of `away`: [n].

        k is `prior_strength`, counts are the faded ones. Without games, p is p_trueskill, also at k = 0.
        In a game of teams p_trueskill is of teams that either fills alone, the mean over who takes which.
        """
        prior = self._prediction(home, away)
        games = self.payoff.games(home, away)
        score = self.payoff.wins(home, away) + 0.5 * self.payoff.draws(home, away)
        weight = games + prior_strength
        known = weight > 0.0
        return np.where(known, (score + prior_strength * prior) / np.where(known, weight, 1.0), prior)

    def _prediction(self, home: int, away: Indices) -> Floats:
        if len(self._matchups) == 1:
            return self.ratings.win_probability(home, away, next(iter(self._matchups)))
        of_size = [n * self.ratings.win_probability(home, away, pair) for pair, n in self._matchups.items()]
        return np.sum(of_size, axis=0) / self._matchups.total()

    def leaderboard(self) -> list[LeaderboardRow]:
        """Everyone, retired snapshots too, best first by mu - 3 sigma."""
        sigmas = self.ratings.sigma
        rows = []
        for index, name in enumerate(self._roster.ids):
            member = self._roster.at(index)
            games, wins, draws = self.payoff.totals(index)
            rows.append(
                LeaderboardRow(
                    competitor=name,
                    role=None if isinstance(member, Bot) else member.role,
                    mu=float(self.ratings.mu[index]),
                    sigma=float(sigmas[index]),
                    games=games,
                    win_rate=(wins + 0.5 * draws) / games if games else None,
                    retired=self._roster.is_retired(name),
                )
            )
        return sorted(rows, key=lambda row: row.exposure, reverse=True)
