"""Made-up competitors, results and leagues."""

import itertools
import math
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from league.rules.building.builder import Clock, LeagueBuilder, as_recorded
from league.rules.matchmaking.branches import LeagueView, OpponentRules, OpponentSettings, open_branch
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.presets import LeagueSettings
from league.rules.rating.rating import RatingSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import (
    LEAGUE_EXPLOITER,
    MAIN,
    MAIN_EXPLOITER,
    Bot,
    Freeze,
    LivePlayer,
    MatchBatch,
    Outcome,
    Reset,
    ResultBatch,
    Role,
    Snapshot,
)
from tests import made_up

MIRRORED = np.array([Outcome.LOSS, Outcome.DRAW, Outcome.WIN, Outcome.WIN], dtype=np.int8)


def snapshot(name: str, player: str = "main-0", role: str = "main", env_steps: int = 0) -> Snapshot:
    return Snapshot(name, player, Role(role), env_steps, 0, None, "", 0, "mlp", 0.0, "made up")


def results(matches: MatchBatch, outcome: np.ndarray, rank: np.ndarray | None = None) -> ResultBatch:
    return made_up.results(matches, outcome, rank=rank)


def seated(*rows: tuple[str, ...]) -> MatchBatch:
    """A batch with these competitors in these seats."""
    names = sorted({name for row in rows for name in row})
    return made_up.matches(names, [[names.index(name) for name in row] for row in rows], seed=[0] * len(rows))


def games(*rows: tuple[str, str, Outcome]) -> ResultBatch:
    """Matches of two: home, away, home's outcome (a forfeit gives the other the win)."""
    home = np.array([row[2] for row in rows], dtype=np.int8)
    return results(seated(*[row[:2] for row in rows]), np.stack([home, MIRRORED[home]], axis=1))


def random_games(roster: Roster, n: int, rng: np.random.Generator, outcomes: int = 3) -> ResultBatch:
    names = roster.ids
    pairs = rng.integers(len(names), size=(n, 2))
    drawn = rng.integers(outcomes, size=n)
    return games(*[(names[h], names[a], Outcome(o)) for (h, a), o in zip(pairs, drawn, strict=True)])


def crowd(
    home: str, rates: dict[str, float], *, snapshots: dict[str, int], bots: tuple[str, ...] = ()
) -> SimpleNamespace:
    """Live players (`main-1`, `x-0`, `l-0`: the role is in the name, here) with so many snapshots each,
    rated so that without games `home` beats each of `rates` just as often."""
    role_of = {"main": MAIN, "x": MAIN_EXPLOITER, "l": LEAGUE_EXPLOITER}
    roles = {name: role_of[name.split("-")[0]] for name in snapshots}
    roster = Roster([LivePlayer(name, role) for name, role in roles.items()])
    for i in range(max(snapshots.values())):  # in turn, as they would be frozen
        for name, count in snapshots.items():
            if i < count:
                roster.admit(snapshot(f"{name}@{i}", name, roles[name], i))
    for bot in bots:
        roster.admit(Bot(bot))
    standings = Standings(roster, RatingSettings(draw_probability=0.0), decay=1.0)
    ratings, at = standings.ratings, roster.index(home)
    for name, p in rates.items():
        if name == home:
            continue
        i = roster.index(name)
        c2 = 2.0 * standings.settings.beta**2 + ratings.variance[at] + ratings.variance[i]
        ratings.mu[i] = ratings.mu[at] - np.sqrt(c2) * NormalDist().inv_cdf(p)

    def view(branch: str, **fields) -> LeagueView:
        """The league as `branch`, the only one, sees it; `fields` are its settings, or the role's."""
        rules = {key: fields.pop(key) for key in list(fields) if key in OpponentRules.model_fields}
        only = {"branches": {branch: {"share": 1.0, **fields}}, **rules}
        settings = OpponentSettings.model_validate(only)
        opened = {branch: open_branch(settings.branches[branch])}
        return LeagueView(roster[home], roster, standings, settings, opened)

    return SimpleNamespace(roster=roster, standings=standings, player=roster[home], view=view)


# ---------------------------------------------------------------- simulated leagues

BETA = RatingSettings().beta


class SimulatedLeague:
    """The loop of a session without networks: whoever sits in a match has made a known progress, and the
    results are drawn from it. A player's progress, in generations, grows by `speed` of its role with every
    match that it learns from; a snapshot keeps what it was frozen with; a reset goes back to its target's.

    Performances are those of TrueSkill: `lead(home, away)`, two progresses, is the gap of their means in
    mu, the noise has standard deviation BETA for each seat, and equals draw a tenth of their games, but for
    free-for-alls, where `lead` must be a difference and nobody ties. Whoever plays a team plays all of it.
    """

    def __init__(
        self, settings: LeagueSettings, lead, speed, *, matches=4, num_seats=2, teams=None, seed=0
    ) -> None:
        self.settings, self.lead, self.speed, self.matches = settings, lead, speed, matches
        self.roles, self.rng = settings.resolve(), np.random.default_rng(seed)
        seats = MatchmakingSettings(teams=teams)
        self.ratings = RatingSettings(draw_probability=0.0 if num_seats > 2 and teams is None else 0.1)
        self.team_of_seat = seats.team_of_seat(num_seats)
        self.facts, self.state = [], self.fresh_state()
        self.roster, self.standings = self.state.roster, self.state.standings
        self.matchmaker = Matchmaker(self.roles, seats, num_seats=num_seats, env="made-up", seed=seed)
        self.builder = LeagueBuilder(self.roles)
        self.progress: list[float] = []  # by index
        self.expected: dict[tuple[int, int], tuple[float, float]] = {}  # of a pair's faded score, lower first
        self.decisions, self.next_match_id = [], 0
        for role, names in settings.player_names().items():
            for name in names:
                self._admit(LivePlayer(name, role), 0.0)
        for name in list(self.state.members):
            self._freeze(name, "initial weights")

    def fresh_state(self):
        """Nobody yet, under the same rules."""
        from league.training.state.state import (
            LeagueState,  # brings torch along, which the other tests of rules do without
        )

        return LeagueState(self.roles, self.ratings, self.settings.decay, self.team_of_seat)

    def step(self) -> ResultBatch:
        """One turn: matches for whoever is furthest behind its share, their results, what is decided then."""
        behind = min(self.state.members.values(), key=lambda member: member.matches_asked / member.share)
        batch = self.matchmaker.next_matches(
            behind.player, self.matches, self.roster, self.standings, self.rng, self.next_match_id
        )
        self.next_match_id += len(batch)
        behind.matches_asked += len(batch)
        played = self._play(batch)
        self._apply(played)
        if batch.learning.any():
            behind.env_steps += len(batch)
            behind.updates += 1
            index = self.roster.index(behind.player.player)
            self.progress[index] += len(batch) * self.speed[behind.player.role]
        self._decide()
        return played

    def _apply(self, fact) -> None:
        self.facts.append(fact)
        self.state.apply(fact)

    def _admit(self, competitor, progress: float) -> None:
        self.progress.append(progress)
        self._apply(competitor)

    def _freeze(self, name: str, reason: str) -> None:
        member, index = self.state.members[name], self.roster.index(name)
        new = Snapshot(
            f"{name}@{member.env_steps}", name, member.player.role, member.env_steps, member.updates,
            member.parent, "", 0, "none", 0.0, reason,
        )  # fmt: skip
        self._admit(new, self.progress[index])

    def _decide(self) -> None:
        clocks = {
            name: Clock(
                env_steps=m.env_steps,
                updates=m.updates,
                since_freeze=m.env_steps - m.frozen_at,
                since_reset=m.env_steps - m.reset_at,
            )
            for name, m in self.state.members.items()
        }
        for decision in as_recorded(self.builder.decide(self.roster, self.standings, clocks, self.rng)):
            self.decisions.append(decision)
            if isinstance(decision, Freeze):
                self._freeze(decision.player, decision.reason)
            self._apply(decision)
            if isinstance(decision, Reset):
                index = self.roster.index(decision.player)
                self.progress[index] = self.progress[self.roster.index(decision.target)]
                self.state.members[decision.player].reset_at = self.state.members[decision.player].env_steps
                self.expected = {pair: sums for pair, sums in self.expected.items() if index not in pair}

    def _play(self, batch: MatchBatch) -> ResultBatch:
        who = self.roster.indices(batch.competitors)[batch.seat]
        outcome, rank = [], []
        free_for_all = self.team_of_seat[-1] > 1
        for seats in who.tolist():
            ranks = self._ranks(seats) if free_for_all else self._sides(seats[0], seats[-1])
            rank.append([ranks[team] for team in self.team_of_seat.tolist()])
            tied = ranks.count(0) > 1
            outcome.append([Outcome.LOSS if r else Outcome.DRAW if tied else Outcome.WIN for r in rank[-1]])
        return results(batch, np.array(outcome), np.array(rank))

    def _sides(self, home: int, away: int) -> list[int]:
        """The ranks of two teams of `n` seats each."""
        if home == away:
            return [0, 1]
        n = len(self.team_of_seat) // 2
        gap, deviation = n * self.lead(self.progress[home], self.progress[away]), math.sqrt(2 * n) * BETA
        margin = deviation * NormalDist().inv_cdf(0.55)
        self._expect([(home, away, *score_of(gap, deviation, margin))])
        drawn = gap + deviation * self.rng.standard_normal()
        return [0, 0] if abs(drawn) < margin else [0, 1] if drawn > 0 else [1, 0]

    def _ranks(self, seats: list[int]) -> list[int]:
        at = [self.lead(self.progress[i], 0.0) for i in seats]
        drawn = np.array(at) + BETA * self.rng.standard_normal(len(seats))
        self._expect(
            (seats[i], seats[j], *score_of(at[i] - at[j], math.sqrt(2) * BETA, 0.0))
            for i, j in itertools.combinations(range(len(seats)), 2)
            if seats[i] != seats[j]
        )
        return np.argsort(np.argsort(-drawn)).tolist()

    def _expect(self, games) -> None:
        """Add one match's games (home, away, mean of home's score, its deviation) to what is expected of the
        payoff. Games of the same pair in one match may depend on each other: their deviations are added, not
        their variances, which is the most it can be."""
        of_pair = {}
        for home, away, mean, deviation in games:
            decay = self._decay(home, away)
            pair, mean = ((home, away), mean) if home < away else ((away, home), 1.0 - mean)
            total, apart, n = of_pair.get(pair, (0.0, 0.0, 0))
            of_pair[pair] = total * decay + mean, apart * decay + deviation, n + 1
        for pair, (total, apart, n) in of_pair.items():
            mean, variance = self.expected.get(pair, (0.0, 0.0))
            decay = self._decay(*pair)
            self.expected[pair] = mean * decay**n + total, variance * decay ** (2 * n) + apart**2

    def _decay(self, home: int, away: int) -> float:
        """The decay of a pair: games of two snapshots do not fade."""
        live = any(isinstance(self.roster.at(index), LivePlayer) for index in (home, away))
        return self.settings.decay if live else 1.0

    def payoff_errors(self, least_variance: float) -> np.ndarray:
        """How far the payoff's score of each pair is from what was expected of it, in standard errors, for
        pairs whose score has at least that variance: [n]."""
        payoff, errors = self.standings.payoff, []
        for (home, away), (mean, variance) in self.expected.items():
            if variance >= least_variance:
                only = np.array([away])
                score = payoff.wins(home, only)[0] + 0.5 * payoff.draws(home, only)[0]
                errors.append((score - mean) / math.sqrt(variance))
        return np.array(errors)


def score_of(gap: float, deviation: float, margin: float) -> tuple[float, float]:
    """Mean and standard deviation of a score (win 1, draw 1/2) whose difference of performances is normal."""
    won, lost = (0.5 * math.erfc(-(x - margin) / deviation / math.sqrt(2)) for x in (gap, -gap))
    mean = won + 0.5 * (1.0 - won - lost)
    return mean, math.sqrt(max(won + 0.25 * (1.0 - won - lost) - mean**2, 0.0))


@pytest.fixture
def make() -> SimpleNamespace:
    return SimpleNamespace(
        snapshot=snapshot,
        results=results,
        seated=seated,
        games=games,
        random_games=random_games,
        crowd=crowd,
        league=SimulatedLeague,
        score_of=score_of,
    )
