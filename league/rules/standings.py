"""Standings: payoff and ratings of all competitors, folded from results in the order of recording.

Folding the same batches again gives the same bits, so resuming is replaying.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from league.rules.form import Form
from league.rules.payoff import Payoff, pairs_of
from league.rules.rating.rating import RatingBook, RatingSettings
from league.rules.roster import Roster
from storage.arrays import Floats, Indices
from storage.records import (
    Bot,
    Competitor,
    LivePlayer,
    Outcome,
    Purpose,
    RatingChange,
    ResultBatch,
    Role,
    Snapshot,
)


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """Standing of one competitor.

    `games` (one for each opponent in a match), `win_rate` (a draw counts half) and `lead` (per game, in the
    game's own units) are of plain counts since the last reset. The rate is `None` before the first game, the
    lead also where payoffs count games won.
    """

    competitor: str
    role: Role | None  # `None` for a bot
    mu: float
    sigma: float
    games: int
    win_rate: float | None
    lead: float | None
    retired: bool
    apart: bool = False  # a bot, an anchor, or untrained weights: listed behind the others


def prior_strength(where: str = "") -> Any:
    """Return the setting k of `Standings.win_rate`; `where` says in which win rates."""
    description = f"Number of games that the TrueSkill prediction counts as{where}"
    return Field(default=10.0, ge=0, allow_inf_nan=False, description=description)


class Standings:
    """Fold of recorded results. Call `on_admit` for every competitor that the roster admits.

    `teams` is the team of each seat of the game, such as (0, 0, 1, 1); `None` if each seat plays for itself.
    `decay_of_role` is the decay of games of live players of these roles, where it differs from `decay`.
    `scale` is for payoffs that count scores: the lead per game that is as good as a certain win. With `None`
    payoffs count games won. Ratings count games won either way. Games between snapshots and bots never fade.
    `form_games` is the largest window of games that `form` is to compare.
    """

    def __init__(
        self,
        roster: Roster,
        settings: RatingSettings | None = None,
        decay: float = 0.99,
        teams: Sequence[int] | Indices | None = None,
        decay_of_role: Mapping[Role, float] | None = None,
        scale: float | None = None,
        form_games: int = 0,
    ) -> None:
        self._roster = roster
        self.scale = scale
        self.decay_of_role = dict(decay_of_role or {})
        sizes = (
            (1, 1) if teams is None else tuple(np.bincount(np.unique(teams, return_inverse=True)[1]).tolist())
        )
        self._teams = None if max(sizes) == 1 else np.array(teams, dtype=np.int64)
        # (seats of one team, seats of another) with the number of such pairs of teams.
        self._matchups = Counter(itertools.permutations(sizes, 2)) or Counter([(1, 1)])
        self._updates: dict[str, int] = {}  # by player, when its last snapshot was taken
        self.settings = RatingSettings() if settings is None else settings
        self.payoff = Payoff(decay=decay, scores=scale is not None)
        self.ratings = RatingBook(self.settings)
        self.form = Form(form_games)
        self.anchors: list[str] = []  # that were admitted: all ratings are relative to them
        for index in range(len(roster)):
            self.on_admit(roster.at(index))

    def on_admit(self, competitor: Competitor, parent: str | None = None) -> None:
        """Rate a newcomer of the roster with the mu of `parent`, a fresh sigma and no games.

        `parent` is the player that a snapshot was frozen from; `None` gives the default mu. A snapshot also
        counts the updates of its player's weights since the last one: the player's sigma is widened
        (`ratings.update_drift`). Raise ValueError out of the order of admission.
        """
        name, expected = competitor.competitor, len(self.ratings)
        if self._roster.index(name) != expected:
            raise ValueError(
                f"standings: '{name}' has index {self._roster.index(name)}, expected {expected}; "
                "call on_admit once after each Roster.admit"
            )
        learns = isinstance(competitor, LivePlayer)
        anchor = self.settings.anchor_of(name, first=not (self.anchors or learns))
        if anchor is not None and learns:
            raise ValueError(
                f"ratings.anchors: '{name}' is a player that learns, expected a competitor that never "
                "changes; name a snapshot or a bot"
            )
        mu = None if parent is None else float(self.ratings.mu[self._roster.index(parent)])
        sigma, fixed = None, False
        if anchor is not None:
            mu, sigma, fixed = anchor.rating(self.settings.mu, self.settings.beta)
            self.anchors.append(name)
        self.ratings.admit(mu=mu, sigma=sigma, learns=learns, anchor=fixed)
        self.payoff.reserve(expected + 1)
        if not learns:
            self.payoff.keep(expected)
        if isinstance(competitor, Snapshot):
            self._widen(competitor)
            self.form.clear(competitor.player)
        elif isinstance(competitor, LivePlayer) and competitor.role in self.decay_of_role:
            self.payoff.fade(expected, self.decay_of_role[competitor.role])

    def on_reset(self, player: str, target: str) -> None:
        """Forget the games of a player that took the weights of snapshot `target`.

        Its mu becomes the target's, its sigma that of a newcomer. Raise ValueError for a snapshot or bot.
        """
        index = self._roster.index(player)
        if not isinstance(self._roster.at(index), LivePlayer):
            raise ValueError(f"standings: '{player}' does not learn, expected a live player to reset")
        self.payoff.clear(index)
        self.form.clear(player)
        self.ratings.restart(index, float(self.ratings.mu[self._roster.index(target)]))

    def _widen(self, snapshot: Snapshot) -> None:
        """Widen the sigma of a snapshot's player by the updates since its last snapshot.

        `updates` of a player only grow; a snapshot of weights from elsewhere has none of its own. An imported
        snapshot is its own player, and never drifts.
        """
        player = snapshot.player
        updates = snapshot.updates - self._updates.get(player, 0)
        self._updates[player] = max(snapshot.updates, self._updates.get(player, 0))
        learns = player in self._roster and isinstance(self._roster[player], LivePlayer)
        if updates > 0 and learns and self._roster.index(player) < len(self.ratings):
            self.ratings.widen(self._roster.index(player), updates)

    def record(self, results: ResultBatch) -> list[RatingChange]:
        """Fold in M results of any purpose, in order, and return the new ratings by index.

        Only competitors that were rated are returned. Seats of one and the same competitor (self-play),
        games for one, and matches that all seats forfeited change no rating.

        Raise KeyError for a competitor that was never admitted, and ValueError for a draw that
        `draw_probability` rules out or for seats that do not fit the teams; nothing is recorded then.
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
        home, away, outcome, lead = pairs_of(results, seated, self._teams)
        if matches.num_seats == 2:
            played = self.ratings.rate_pairs(home, away, outcome)
        else:
            rated = ~(results.outcome == Outcome.FORFEIT).all(axis=1)
            teams = np.arange(matches.num_seats) if self._teams is None else self._teams
            played = self.ratings.rate_teams(seated[rated], teams, results.rank[rated])
        self.payoff.record(home, away, outcome, lead)
        if self.form.games and matches.purpose is Purpose.TRAINING:
            self._note_form(home, away, _won(outcome) if self.scale is None else lead)
        mu, sigma = self.ratings.mu[played].tolist(), np.sqrt(self.ratings.variance[played]).tolist()
        games = self.ratings.games[played].tolist()
        return [
            RatingChange(self._roster.id(i), m, s, g)
            for i, m, s, g in zip(played.tolist(), mu, sigma, games, strict=True)
        ]

    def _note_form(self, home: Indices, away: Indices, lead: Floats) -> None:
        """Add to `form` the leads of live players over competitors that never change: home's leads [G]."""
        live = self._roster.indices(player.player for player in self._roster.players)
        home_stays, away_stays = ~np.isin(home, live), ~np.isin(away, live)
        for index in live.tolist():
            at_home, visiting = (home == index) & away_stays, (away == index) & home_stays
            self.form.add(self._roster.id(index), np.concatenate([lead[at_home], -lead[visiting]]))

    def rating(self, competitor: str) -> RatingChange:
        """Return the current rating of a competitor. Raise KeyError for one that was never admitted."""
        index = self._roster.index(competitor)
        ratings = self.ratings
        return RatingChange(
            competitor, float(ratings.mu[index]), float(ratings.sigma[index]), int(ratings.games[index])
        )

    def win_rate(self, home: int, away: Indices, prior_strength: float) -> Floats:
        """Return the win rate p of `home` against each of `away`: [n].

        p = (wins + draws/2 + k p_trueskill) / (games + k), where k is `prior_strength` and counts are
        faded. Without games, p is p_trueskill, also at k = 0. In a game of teams, p_trueskill is that of
        teams which either competitor fills alone, the mean over the ways to take the teams.

        Where payoffs count scores, p = 1/2 + lead / (2 scale), within [0, 1] (`lead`).
        """
        if self.scale is not None:
            return np.clip(0.5 + 0.5 * self.lead(home, away, prior_strength) / self.scale, 0.0, 1.0)
        prior = self._prediction(home, away)
        games = self.payoff.games(home, away)
        score = self.payoff.wins(home, away) + 0.5 * self.payoff.draws(home, away)
        weight = games + prior_strength
        known = weight > 0.0
        return np.where(known, (score + prior_strength * prior) / np.where(known, weight, 1.0), prior)

    def lead(self, home: int, away: Indices, prior_strength: float = 0.0) -> Floats:
        """Return what `home` wins per game against each of `away`: [n], in units of the payoffs.

        Where payoffs count scores, that is the mean lead in the game's own units, with `prior_strength` even
        games added: ratings count games won, so they predict no scores. Otherwise it is 2 p - 1, p the win
        rate. Without games it is 0, or what the ratings predict.
        """
        if self.scale is None:
            return 2.0 * self.win_rate(home, away, prior_strength) - 1.0
        weight = self.payoff.games(home, away) + prior_strength
        return self.payoff.lead(home, away) / np.where(weight > 0.0, weight, 1.0)

    def lead_error(self, home: int, away: Indices) -> Floats:
        """Return the standard errors of the leads that the games alone show: [n], infinite without games.

        One further game, even in the mean but a certain win or loss, counts as in the variance: equal results
        of a few games are not certain. Games are counted as faded, so an error never falls below that of
        1 / (1 - decay) games.
        """
        games = self.payoff.games(home, away)
        if self.scale is None:
            total = self.payoff.wins(home, away) - self.payoff.losses(home, away)
            squares = games - self.payoff.draws(home, away) + 1.0
        else:
            total = self.payoff.lead(home, away)
            squares = self.payoff.squares(home, away) + self.scale**2
        variance = squares / (games + 1.0) - (total / (games + 1.0)) ** 2
        return np.sqrt(np.divide(variance, games, out=np.full(len(games), np.inf), where=games > 0.0))

    def _prediction(self, home: int, away: Indices) -> Floats:
        if len(self._matchups) == 1:
            return self.ratings.win_probability(home, away, next(iter(self._matchups)))
        of_size = [n * self.ratings.win_probability(home, away, pair) for pair, n in self._matchups.items()]
        return np.sum(of_size, axis=0) / self._matchups.total()

    def leaderboard(self) -> list[LeaderboardRow]:
        """Return all competitors, retired snapshots too, best first by mu - 3 sigma.

        Bots, anchors and untrained weights are last, so they never lead. A snapshot without a rated game
        is placed by the sigma of its player, which it is a copy of.
        """
        sigmas = self.ratings.sigma
        rows = []
        key: dict[str, float] = {}
        for index, name in enumerate(self._roster.ids):
            member = self._roster.at(index)
            games, wins, draws = self.payoff.totals(index)
            apart = isinstance(member, Bot) or name in self.anchors
            sigma = float(sigmas[index])
            if isinstance(member, Snapshot):
                own = member.player in self._roster
                first = own and member.env_steps == member.updates == 0 and member.parent_id is None
                apart = apart or (first and ", from " not in member.reason)
                if own and not self.ratings.games[index]:
                    sigma = float(sigmas[self._roster.index(member.player)])
            key[name] = float(self.ratings.mu[index]) - 3.0 * sigma
            rows.append(
                LeaderboardRow(
                    competitor=name,
                    role=None if isinstance(member, Bot) else member.role,
                    mu=float(self.ratings.mu[index]),
                    sigma=float(sigmas[index]),
                    games=games,
                    win_rate=(wins + 0.5 * draws) / games if games else None,
                    lead=self.payoff.total_lead(index) / games if games and self.payoff.scores else None,
                    retired=self._roster.is_retired(name),
                    apart=apart,
                )
            )
        return sorted(rows, key=lambda row: (row.apart, -key[row.competitor]))


def _won(outcome: npt.NDArray[np.int8]) -> Floats:
    """Return the leads of games that count as won, drawn or lost: 1, 0 or -1 for each of `outcome` [G]."""
    return (outcome == Outcome.WIN).astype(np.float64) - (
        (outcome != Outcome.WIN) & (outcome != Outcome.DRAW)
    )
