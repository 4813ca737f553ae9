"""Rating drift: ratings that disagree with results.

TrueSkill adds evidence game by game. A snapshot keeps the rating from its first games, and players are rated
against each other, so an error can pass from generation to generation. Only the anchor's rating is given, and
strong players rarely meet it. So two things are compared with results. The first is whether leads over fixed
opponents are worth what ratings predict; the lead over the anchor is their sum. If they are, the second is
each snapshot's rating, compared with its later games. Expected scores are TrueSkill's (Herbrich, Minka,
Graepel, NIPS 2006): for a lead d, with c^2 = 2 beta^2 + both variances and draw margin e,
    E = (Phi((d - e) / c) + Phi((d + e) / c)) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri

from analysis.diagnostics.finding import Finding, percent
from analysis.diagnostics.record import WINDOWS, Record, Series
from analysis.diagnostics.significance import Counts, above, dispersion, holm
from analysis.history.frames import number_setting, setting
from storage.arrays import Floats

MARGIN = 0.08  # tolerance of the score against one snapshot: TrueSkill is not an exact model
STRETCH_MARGIN = 0.03  # tolerance of the mean score against all, in the direction of the leads
LEVEL = 0.01
LEAST_GAMES = 100.0
MOST = 3  # reported snapshots
LARGEST = 60.0  # largest drift in mu


@dataclass(frozen=True, slots=True)
class RatedCompetitors:
    """TrueSkill ratings: of players by window, of other competitors their current one."""

    mu: dict[str, Floats]  # [WINDOWS] of each player, NaN if not rated
    sigma: dict[str, Floats]
    fixed: dict[str, tuple[float, float]]  # mu, sigma
    beta: float
    draw_margin: float
    _of_opponents: dict[tuple[str, ...], Floats] = field(default_factory=dict)

    def lead(self, player: str, opponents: tuple[str, ...]) -> Floats:
        """Return the lead in mu [P, WINDOWS] of `player` over each opponent; NaN if one is not rated."""
        return self.mu[player][None, :] - self._fixed(opponents)[:, :1]

    def expected(
        self, player: str, opponents: tuple[str, ...], worth: float = 1.0, shift: Floats | float = 0.0
    ) -> Floats:
        """Return expected scores [P, WINDOWS] of `player`, with its lead times `worth`, minus `shift` [P]."""
        lead = worth * self.lead(player, opponents) - np.broadcast_to(shift, len(opponents))[:, None]
        variance = self.sigma[player][None, :] ** 2 + self._fixed(opponents)[:, 1:] ** 2
        return self._of_lead(lead, variance)

    def of_lead(self, lead: float) -> float:
        """Return the expected score for an exactly known `lead`."""
        return float(self._of_lead(np.array(lead), np.array(0.0)))

    def _of_lead(self, lead: Floats, variance: Floats) -> Floats:
        c = np.sqrt(2 * self.beta**2 + variance)
        return (ndtr((lead - self.draw_margin) / c) + ndtr((lead + self.draw_margin) / c)) / 2

    def _fixed(self, opponents: tuple[str, ...]) -> Floats:
        if opponents not in self._of_opponents:
            rows = [self.fixed.get(opponent, (math.nan, math.nan)) for opponent in opponents]
            self._of_opponents[opponents] = np.array(rows)
        return self._of_opponents[opponents]


def find_drift(record: Record, known: set[tuple[str, str]]) -> list[Finding]:
    """Return players that drifted from the anchor; if there are none, the snapshots with the worst ratings.

    `known`: pairs (player, opponent) that other findings explain.
    """
    series = [one for one in record.series if record.live and one.player not in record.last_reset]
    rated = _rated(record)
    series = [one for one in series if one.player in rated.mu]
    if not series or not rated.fixed:
        return []
    anchor = _anchor(record, rated)
    stretched = [] if anchor is None else [_stretched(rated, one, anchor, known) for one in series]
    return [finding for finding in stretched if finding] or _misplaced(rated, series, anchor, known)


def _stretched(
    rated: RatedCompetitors, one: Series, anchor: str, known: set[tuple[str, str]]
) -> Finding | None:
    """Return a finding if a player's leads are worth less, or more, than ratings predict.

    Its lead over the anchor is the sum of many such steps, most of which were never played directly.
    """
    expected = rated.expected(one.player, one.opponents)
    lead = rated.lead(one.player, one.opponents)
    unexplained = np.array([(one.player, opponent) not in known for opponent in one.opponents])
    counted = unexplained[:, None] & (one.counts.games > 0) & ~np.isnan(expected)
    counts = one.counts.where(counted)
    if counts.games.sum() < LEAST_GAMES:
        return None
    weight = np.where(counted, np.nan_to_num(lead), 0.0)
    if not _beyond_margin(weight, counts, expected, dispersion(one.counts)):
        return None
    # One snapshot with a wrong rating is no drift: the test must also hold without the strongest evidence.
    loudest = int(np.abs(_gained(weight, counts, expected)).argmax())
    rest = np.arange(len(one.opponents)) != loudest
    if not _beyond_margin(weight[rest], counts[rest], expected[rest], dispersion(one.counts)):
        return None
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        expected = rated.expected(one.player, one.opponents, middle)
        short = _gained(weight, counts, expected).sum() > 0
        low, high = (middle, high) if short else (low, middle)
    mu = float(rated.mu[one.player][~np.isnan(rated.mu[one.player])][-1])
    ahead = mu - rated.fixed[anchor][0]
    worth = low * ahead
    games = int(counts.games.sum())
    sentence = (
        f"{one.player}'s rating has drifted from the anchor {anchor}: by its {games:,} games against "
        f"snapshots and bots, its lead of {ahead:.1f} mu is worth {worth:.1f}: a lead of 10 mu predicts "
        f"{percent(rated.of_lead(10.0))} and yields {percent(rated.of_lead(10.0 * low))}"
    )
    evidence = {
        "anchor": anchor,
        "mu": mu,
        "lead": ahead,
        "lead_by_results": worth,
        "worth_of_1_mu": low,
        "games": games,
    }
    return Finding("drift", "note", one.player, sentence, evidence)


def _gained(weight: Floats, counts: Counts, expected: Floats) -> Floats:
    """Return points [P] above expectation, each game weighted by the lead at that time."""
    return (weight * (counts.points - counts.games * np.nan_to_num(expected))).sum(axis=1)


def _beyond_margin(weight: Floats, counts: Counts, expected: Floats, spread: float) -> bool:
    """Return whether points differ from expectation along the leads by more than STRETCH_MARGIN."""
    of_a_game = np.where(weight != 0.0, expected * (1 - expected), 0.0)  # variance of points, by the model
    variance = of_a_game * counts.games
    error = math.sqrt(spread * float((weight**2 * variance).sum()))
    margin = STRETCH_MARGIN * float((np.abs(weight) * counts.games).sum())
    beyond = abs(float(_gained(weight, counts, expected).sum())) - margin
    return error > 0.0 and float(above(beyond / error)) < LEVEL


def _misplaced(
    rated: RatedCompetitors, series: list[Series], anchor: str | None, known: set[tuple[str, str]]
) -> list[Finding]:
    tests = []
    for one in series:
        explained = [(one.player, opponent) in known or opponent == anchor for opponent in one.opponents]
        counts = one.counts.where(~np.array(explained)[:, None])
        test = _held_against(rated, one.player, one.opponents, counts, dispersion(one.counts))
        if test is not None:
            tests.append((one, counts.sum(), test))
    if not tests:
        return []
    p_value = holm(np.concatenate([above(test.z) for _, _, test in tests]))
    rows = [(one, seen, test, i) for one, seen, test in tests for i in range(len(one.opponents))]
    wrong = [row for row, p in zip(rows, p_value, strict=True) if p < LEVEL]
    wrong.sort(key=lambda row: -abs(float(row[2].shift[row[3]])))
    found = []
    for one, seen, test, i in wrong[:MOST]:
        name, mu = one.opponents[i], rated.fixed[one.opponents[i]][0]
        score, expected, implied = float(seen.score[i]), float(test.expected[i]), mu + float(test.shift[i])
        sentence = (
            f"{name} was placed at mu {mu:.1f}; the {seen.games[i]:,.0f} games of {one.player} against it "
            f"imply {implied:.1f}: {one.player} scored {percent(score)}, but ratings predicted "
            f"{percent(expected)}"
        )
        evidence = {
            "player": one.player,
            "mu": mu,
            "mu_by_results": implied,
            "score": score,
            "expected": expected,
            "games": int(seen.games[i]),
            "misplaced_snapshots": len(wrong),
        }
        found.append(Finding("drift", "note", name, sentence, evidence))
    return found


@dataclass(frozen=True, slots=True)
class _Test:
    expected: Floats  # [P] scores, over all games counted
    shift: Floats  # [P] mu that the lead over each is too large
    z: Floats  # [P] standard errors beyond MARGIN


def _held_against(
    rated: RatedCompetitors, player: str, opponents: tuple[str, ...], counts: Counts, spread: float
) -> _Test | None:
    """Compare results [P, WINDOWS] with ratings. `z` is -inf for opponents with too few games."""
    weight = np.where(np.isnan(rated.expected(player, opponents)), 0.0, counts.games)
    games = weight.sum(axis=1)
    enough = games >= LEAST_GAMES
    if not enough.any():
        return None

    def mean(shift: Floats | float) -> Floats:
        expected = np.nan_to_num(rated.expected(player, opponents, shift=shift))
        return (weight * expected).sum(axis=1) / np.maximum(games, 1.0)

    kept = counts.where(weight > 0).sum()
    expected = mean(0.0)
    beyond = np.abs(expected - kept.estimate) - MARGIN
    z = np.where(enough, beyond / np.sqrt(spread * kept.variance), -np.inf)
    low, high = np.full(len(opponents), -LARGEST), np.full(len(opponents), LARGEST)
    for _ in range(40):
        middle = (low + high) / 2
        too_much = mean(middle) > kept.estimate
        low, high = np.where(too_much, middle, low), np.where(too_much, high, middle)
    return _Test(expected, (low + high) / 2, z)


def _rated(record: Record) -> RatedCompetitors:
    beta = number_setting(record.config, "ratings", "beta", default=25.0 / 6.0, above=0.0)
    # if it was estimated during the run, the estimate is not recorded
    share = min(number_setting(record.config, "ratings", "draw_probability", default=0.1, above=-1e-9), 0.99)
    rows = record.sql(
        f"""SELECT competitor, {record.window("seq")} AS window, avg(mu) AS mu, avg(sigma) AS sigma
        FROM rated
        WHERE games > 0 AND competitor IN (SELECT competitor FROM competitors WHERE kind = 'player')
        GROUP BY ALL ORDER BY ALL"""
    )
    mu, sigma = (
        {str(player): part.to_numpy() for player, part in table.iterrows()}
        for table in (
            rows.pivot(index="competitor", columns="window", values=name).reindex(columns=range(WINDOWS))
            for name in ("mu", "sigma")
        )
    )
    rows = record.sql(
        """SELECT competitor, max_by(mu, (seq, coalesce(batch, 0))) AS mu,
            max_by(sigma, (seq, coalesce(batch, 0))) AS sigma
        FROM rated WHERE competitor IN (SELECT competitor FROM competitors WHERE kind <> 'player')
        GROUP BY competitor ORDER BY competitor"""
    )
    fixed = {c: (float(m), float(s)) for c, m, s in rows.itertuples(index=False)}
    margin = math.sqrt(2.0) * beta * float(ndtri((share + 1.0) / 2.0))
    return RatedCompetitors(mu, sigma, fixed, beta, margin)


def _anchor(record: Record, rated: RatedCompetitors) -> str | None:
    """Return the anchor: the first in the settings, else the first competitor with the sigma of an anchor."""
    given = setting(record.config, "ratings", "anchors") or [setting(record.config, "ratings", "anchor")]
    for anchor in given if isinstance(given, Mapping | list) else ():
        if isinstance(anchor, str) and anchor in rated.fixed:
            return anchor
    sigma = number_setting(record.config, "ratings", "anchor_sigma", default=25.0 / 300.0)
    return next((c for c in record.kind if c in rated.fixed and rated.fixed[c][1] <= 1.0001 * sigma), None)
