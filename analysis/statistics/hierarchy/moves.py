"""Draws from the posterior of strengths, by Markov chains that run side by side.

Given the shape of the field (groups, their middles, the spread within), strengths have a normal prior. Games
are replaced by a normal distribution with their slope and curvature at the mean strengths (N. Breslow, D.
Clayton: Approximate inference in generalized linear mixed models, J. Am. Stat. Assoc. 88, 1993). With it all
moves are exact draws: of strengths together, along the eigenvectors of what games tell; of one strength and
its group (R. Neal: Markov chain sampling methods for Dirichlet process mixture models, J. Comput. Graph.
Stat. 9, 2000); of middles and spreads, given strengths and given strengths in units of the spread, which then
change with it (Y. Yu, X. Meng: To center or not to center, J. Comput. Graph. Stat. 20, 2011).

Where few games were played, or all were won, the posterior is skewed, which a normal distribution is not.
There each move is accepted by the exact density, and strengths move by Hamiltonian Monte Carlo, of which the
normal part is solved exactly (B. Shahbaba, S. Lan, W. Johnson, R. Neal: Split Hamiltonian Monte Carlo, Stat.
Comput. 24, 2014).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.special import gammaln

from analysis.statistics.hierarchy.laplace import Component, Evidence
from analysis.statistics.hierarchy.prior import ALPHAS, Prior, half_cauchy
from storage.arrays import Floats, Indices

_STEPS = 4  # of a Hamiltonian move, a quarter turn
_SITES = 16  # strengths that are drawn one by one with their group, in one sweep
_SPREADS = 40  # that are weighed
_KNOWN = 0.5  # standard deviation of log-odds of a game, up to which the normal distribution is exact enough
_LEAST_CHAINS, _CHAINS = 50, 400
_WORK = 100_000  # strengths of all chains
_KEPT = 10  # draws of a chain
_SOME = 50  # chains that show where games are
_ROUNDS, _SWEEPS = 2, 6  # before draws are kept, and sweeps of each
_SETTLING = 16  # further ones by the exact density, of up to 50 strengths


@dataclass(frozen=True, slots=True)
class Draws:
    """S draws."""

    x: Floats  # [S, N + T - 1] strengths and places
    spread: Floats  # [S] of deviations within their group
    drift: Floats  # [S] mean of the middles of deviations: of lines, what a generation gains


def draws(
    evidence: Evidence,
    prior: Prior,
    start: Component,
    samples: int,
    rng: np.random.Generator,
    *,
    exact: bool | None = None,
) -> Draws:
    """Return draws, by chains that begin around `start`.

    With `exact`, moves are accepted by the exact density; by default where games leave much open.
    """
    chains = min(
        max(_LEAST_CHAINS, -(-samples // _KEPT)), _CHAINS, max(_LEAST_CHAINS, int(_WORK / start.mode.size))
    )
    it = Sampler(evidence, prior, start, chains, rng)
    for _ in range(_ROUNDS):
        for _ in range(_SWEEPS):
            it.sweep()
        it.linearise()
    it.exact = it.skewed() if exact is None else exact
    settling = _SWEEPS + 2
    if it.exact:  # tails are reached late, and a small field has the longest
        settling += min(_SETTLING, _SETTLING * 50 // start.mode.size)
    for number in range(settling):
        it.sweep()
        if it.exact and number == settling // 2:
            it.linearise()
    kept = []
    for _ in range(-(-samples // chains)):
        it.sweep()
        kept.append((it.x, it.s, it.drift()))
    return Draws(*(np.concatenate(column)[:samples] for column in zip(*kept, strict=True)))


class Sampler:
    """C Markov chains; coordinates y [P] are n deviations that have groups, then founders and places."""

    def __init__(
        self, evidence: Evidence, prior: Prior, start: Component, chains: int, rng: np.random.Generator
    ) -> None:
        self._evidence, self._prior, self._rng = evidence, prior, rng
        self._to_x, self._scale = prior.coordinates
        n = self._n = len(self._scale)
        self._design = scipy.sparse.csr_array(evidence.design[:, : len(self._to_x)] @ self._to_x)
        self._design.eliminate_zeros()
        columns = scipy.sparse.csc_array(self._design)
        self._cells = [
            (columns.indices[a:b], columns.data[a:b])
            for a, b in zip(columns.indptr[:-1], columns.indptr[1:], strict=True)
        ]
        spreads, self._axis = start.spreads, prior.axis(_SPREADS)
        self._log_spread = half_cauchy(self._axis, prior.scales[0])
        self._log_middle = half_cauchy(self._axis, prior.middles)
        self._most = prior.most_groups
        counts = np.arange(n + 1)
        own = np.array(ALPHAS)[:, None] / self._most
        self._log_count = gammaln(own + counts) - gammaln(own)  # [A, n + 1]
        self._log_total = gammaln(np.array(ALPHAS)) - gammaln(np.array(ALPHAS) + n)
        # founders' spreads that are tried, around the likeliest one
        self._founding = spreads[1] * np.array([0.4, 0.63, 1.0, 1.6, 2.5]) if len(spreads) > 1 else np.ones(1)
        self._frame = rng.integers(len(self._founding), size=chains)
        self.exact = False
        self._energy: Floats | None = None  # of the chains, where it is known
        self._chains = np.arange(chains)
        self.z = np.zeros((chains, n), dtype=np.int64)
        self.s = spreads[0] * np.exp(0.3 * rng.standard_normal(chains))
        self.omega = self._axis[_drawn(np.tile(self._log_middle, (chains, 1)), rng)]
        self.alpha = rng.integers(len(ALPHAS), size=chains)
        self.m = np.zeros((self._most, chains))
        y = np.linalg.solve(self._to_x, start.mode[: len(self._to_x)])
        if prior.lines is not None:
            self.m[0] = start.mode[-1]
        self.y = np.tile(y, (chains, 1))
        self.linearise()
        self._draw_strengths()
        self._group_by_gaps()

    def linearise(self) -> None:
        """Replace games by the normal distribution with their mean slope and curvature over the chains."""
        evidence, cells, n = self._evidence, self._evidence.cells, len(self._to_x)
        some = self.y[:_SOME]
        y = some.mean(axis=0)
        chance = _chance(self._design @ some.T)
        variance = (chance * (1.0 - chance)).mean(axis=1) * cells.games / evidence.dispersion
        self._info = np.asarray((self._design.T @ (self._design * variance[:, None])).todense())
        slope = (cells.points - cells.games * chance.mean(axis=1)) / evidence.dispersion
        self._pull = self._design.T @ slope + self._info @ y
        self._all, self._all_pull = self._info, self._pull
        if evidence.held is not None:
            given = np.zeros((n, n))
            evidence.held.add_to(given)
            (_,), (pulled,) = evidence.held.pull((self._to_x @ y)[None])
            given = self._to_x.T @ given @ self._to_x
            self._all = self._info + given
            self._all_pull = self._pull + self._to_x.T @ pulled + given @ y
        self._frames = [self._frame_of(self._prior.fixed_precision(f)) for f in self._founding]

    def _frame_of(self, fixed: Floats) -> tuple[Any, ...]:
        """Return what normal draws need, given the precision [P - n, P - n] of founders and places.

        Information seen along axes [n], the axes [n, n], the pull along them [n]; of founders and places the
        level [P - n], their slope in deviations [P - n, n], the root of their precision, and its inverse.
        """
        n, known = self._n, self._all
        within = known[n:, n:] + fixed
        root = np.linalg.cholesky(within)
        back = np.linalg.solve(within, known[n:, :n])
        seen, axes = np.linalg.eigh(known[:n, :n] - known[:n, n:] @ back)
        level = np.linalg.solve(within, self._all_pull[n:])
        pull = axes.T @ (self._all_pull[:n] - known[:n, n:] @ level)
        return np.maximum(seen, 0.0), axes, pull, level, back, root, np.linalg.inv(root)

    # -- moves -------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Move all chains."""
        self._draw_strengths()
        if self._most > 1:
            self._draw_sites()
            if self._n > 3 * _SITES:
                self._draw_groups()
        self._energy = None
        if self._n:
            self._draw_middles()
            self._shift_a_group()
            self._draw_spreads()
            self.s, _ = self._scaled(self.y[:, : self._n] - self._mean(), self.s, self._log_spread)
            self.omega, factor = self._scaled(self._mean(), self.omega, self._log_middle)
            self.m *= factor
        self._draw_founding()

    def _mean(self) -> Floats:
        """Return the middles [C, n] of deviations."""
        return self.m[self.z, self._chains[:, None]] * self._scale

    def _draw_strengths(self) -> None:
        mean = self._mean()
        for f, frame in enumerate(self._frames):
            rows = np.flatnonzero(self._frame == f)
            if not len(rows):
                continue
            seen, axes, pull, level, back, root_of_rest, inverse = frame
            tight = self.s[rows, None] ** -2.0
            precision = seen + tight
            middle = (pull + tight * (mean[rows] @ axes)) / precision
            root, n = np.sqrt(precision), self._n
            v = self._rng.standard_normal((len(rows), self.y.shape[1]))

            def at(z: Floats) -> Floats:
                y = np.empty_like(z)
                y[:, :n] = (middle + z[:, :n] / root) @ axes.T  # noqa: B023
                y[:, n:] = level - y[:, :n] @ back.T + z[:, n:] @ inverse  # noqa: B023
                return y

            if not self.exact:
                self.y[rows] = at(v)
                continue

            def force(y: Floats) -> tuple[Floats, Floats]:
                energy, slope = self._rest(y)
                out = np.empty_like(slope)
                out[:, :n] = (slope[:, :n] - slope[:, n:] @ back) @ axes / root  # noqa: B023
                out[:, n:] = slope[:, n:] @ inverse.T  # noqa: B023
                return energy, out

            y = self.y[rows]
            z = np.empty_like(y)
            z[:, :n] = (y[:, :n] @ axes - middle) * root
            z[:, n:] = (y[:, n:] - level + y[:, :n] @ back.T) @ root_of_rest
            angle = 0.5 * math.pi / _STEPS * self._rng.uniform(0.8, 1.2)
            turn, aside = math.cos(angle), math.sin(angle)
            energy, pushed = force(y)
            before = energy + 0.5 * (v**2 + z**2).sum(axis=1)
            for _ in range(_STEPS):
                v = v - 0.5 * angle * pushed
                z, v = turn * z + aside * v, turn * v - aside * z
                ahead = at(z)
                energy, pushed = force(ahead)
                v = v - 0.5 * angle * pushed
            after = energy + 0.5 * (v**2 + z**2).sum(axis=1)
            accepted = np.log(self._rng.random(len(rows))) < before - after
            self.y[rows] = np.where(accepted[:, None], ahead, y)

    def _rest(self, y: Floats, slope: bool = True) -> tuple[Floats, Floats]:
        """Return [C] what the normal part has over the log-likelihood at `y`, and the slope [C, P]."""
        value, gradient = self._evidence.of_games(self._design @ y.T, self._design, slope)
        bent = y @ self._info
        return y @ self._pull - 0.5 * (bent * y).sum(axis=1) - value, self._pull - bent - gradient

    def _accepted(self, ahead: Floats) -> npt.NDArray[np.bool_]:
        """Return [C] which of the proposals [C, P], drawn as the normal part has them, are accepted."""
        if not self.exact:
            return np.ones(len(ahead), dtype=np.bool_)
        before = self._rest(self.y, False)[0] if self._energy is None else self._energy
        after = self._rest(ahead, False)[0]
        taken = np.log(self._rng.random(len(ahead))) < before - after
        self._energy = np.where(taken, after, before)
        return taken

    def _draw_sites(self) -> None:
        """Draw some deviations, each together with its group."""
        rng, y, z, m, chain = self._rng, self.y, self.z, self.m, self._chains
        chains, n, most = len(y), self._n, self._most
        sites = rng.permutation(n)[:_SITES]
        count = self._count()
        share = np.array(ALPHAS)[self.alpha] / most
        tight, loose = self.s**-2.0, self.s**2
        left = self._all_pull - y @ self._all
        left_games = left if self._all is self._info else self._pull - y @ self._info
        d = self._design @ y.T if self.exact else None
        middles, inverse = np.zeros((most + 1, chains)), np.empty((most + 1, chains))
        inverse[:most] = tight
        number = np.empty((most + 1, chains))
        uniform = rng.random((len(sites), 2, chains))
        normal = rng.standard_normal((len(sites), 2, chains))
        cells = self._evidence.cells
        for j, i in enumerate(sites):
            old, scale = z[:, i], self._scale[i]
            count[old, chain] -= 1
            h = self._all[i, i]
            b = left[:, i] + h * y[:, i]
            np.multiply(m, scale, out=middles[:most])
            inverse[most] = 1.0 / (loose + (scale * self.omega) ** 2)
            precision = h + inverse
            toward = b + middles * inverse
            empty = count == 0
            np.add(count, share, out=number[:most])
            number[:most][empty] = 0.0
            number[most] = share * empty.sum(axis=0)
            score = toward**2 / precision - middles**2 * inverse
            score -= score.max(axis=0)
            weight = np.exp(0.5 * score) * number * np.sqrt(inverse / precision)
            limit = np.cumsum(weight, axis=0)
            group = (uniform[j, 0] * limit[-1] > limit).sum(axis=0)
            own = precision[group, chain]
            step = toward[group, chain] / own + normal[j, 0] / np.sqrt(own) - y[:, i]
            new = group == most
            label = np.where(new, empty.argmax(axis=0), group)
            if d is not None:
                rows, factor = self._cells[i]
                here = d[rows]
                ahead = here + factor[:, None] * step
                games, points = cells.games[rows], cells.points[rows]
                gain = points @ (ahead - here) - games @ (np.logaddexp(0.0, ahead) - np.logaddexp(0.0, here))
                gain = gain / self._evidence.dispersion
                gain -= step * (left_games[:, i] - 0.5 * self._info[i, i] * step)
                taken = np.log(uniform[j, 1]) < gain
                step = np.where(taken, step, 0.0)
                label = np.where(taken, label, old)
                new &= taken
                d[rows] = np.where(taken, ahead, here)
            y[:, i] += step
            left -= step[:, None] * self._all[i]
            if left_games is not left:
                left_games -= step[:, None] * self._info[i]
            z[:, i] = label
            count[label, chain] += 1
            if new.any():
                known = scale**2 * tight[new] + self.omega[new] ** -2.0
                mean = scale * y[new, i] * tight[new] / known
                m[label[new], chain[new]] = mean + normal[j, 1, new] / np.sqrt(known)

    def _count(self) -> Indices:
        """Return how many deviations are in each group, [K, C]."""
        return np.bincount(self._slot(), minlength=self.m.size).reshape(self.m.shape)

    def _slot(self) -> Indices:
        return (self.z * len(self._chains) + self._chains[:, None]).ravel()

    def _draw_groups(self) -> None:
        """Draw all groups given deviations, where not all are drawn one by one."""
        rng, u = self._rng, self.y[:, : self._n]
        share = np.array(ALPHAS)[self.alpha] / self._most
        count = self._count()
        empty = count == 0
        self.m = np.where(empty, self.omega * rng.standard_normal(self.m.shape), self.m)
        # a gamma variate of a small shape is the next one times a power of a uniform one
        log_share = np.log(rng.standard_gamma(share + count + empty))
        log_share += np.where(empty, np.log(rng.random(count.shape)) / share, 0.0)
        half = (0.5 / self.s**2)[:, None]
        score = [
            log[:, None] - half * (u - self._scale * m[:, None]) ** 2
            for log, m in zip(log_share, self.m, strict=True)
        ]
        best = np.max(score, axis=0)
        limit = np.cumsum(np.exp(np.subtract(score, best)), axis=0)
        self.z = (rng.random(self.z.shape) * limit[-1] > limit).sum(axis=0)

    def _draw_middles(self) -> None:
        """Draw the middles of groups given deviations."""
        u, slot, size = self.y[:, : self._n] * self._scale, self._slot(), self.m.size
        weight = np.broadcast_to(self._scale**2, self.z.shape).ravel()
        tight = self.s**-2.0
        known = tight * np.bincount(slot, weight, size).reshape(self.m.shape) + self.omega**-2.0
        pull = tight * np.bincount(slot, u.ravel(), size).reshape(self.m.shape)
        self.m = pull / known + self._rng.standard_normal(self.m.shape) / np.sqrt(known)

    def _shift_a_group(self) -> None:
        """Move one group's middle, and its deviations with it."""
        rng = self._rng
        k = self.z[self._chains, rng.integers(self._n, size=len(self.z))]
        along = (self.z == k[:, None]) * self._scale
        known = self._all[: self._n, : self._n]
        h = ((along @ known) * along).sum(axis=1) + self.omega**-2.0
        left = self._all_pull[: self._n] - self.y @ self._all[:, : self._n]
        b = (left * along).sum(axis=1) - self.m[k, self._chains] * self.omega**-2.0
        step = b / h + rng.standard_normal(len(h)) / np.sqrt(h)
        ahead = self.y.copy()
        ahead[:, : self._n] += step[:, None] * along
        taken = self._accepted(ahead)
        self.y = np.where(taken[:, None], ahead, self.y)
        self.m[k, self._chains] += np.where(taken, step, 0.0)

    def _draw_spreads(self) -> None:
        """Draw spreads and the readiness to form groups, given deviations, groups and their middles."""
        rng, n = self._rng, self._n
        square = ((self.y[:, :n] - self._mean()) ** 2).sum(axis=1)
        log_axis, tight = np.log(self._axis), self._axis**-2.0
        at = _drawn(self._log_spread - n * log_axis - 0.5 * square[:, None] * tight, rng)
        self.s = self._axis[at]
        count = self._count()
        used = count > 0
        number = used.sum(axis=0)
        if self._prior.lines is None:  # where the field is makes no difference
            shift = -(self.m * used).sum(axis=0) / number
            shift = shift + self.omega / np.sqrt(number) * rng.standard_normal(len(shift))
            self.m += shift
            self.y[:, :n] += shift[:, None]
        square = (self.m**2 * used).sum(axis=0)
        score = self._log_middle - number[:, None] * log_axis - 0.5 * square[:, None] * tight
        self.omega = self._axis[_drawn(score, rng)]
        score = self._log_total + self._log_count[:, count].sum(axis=1).T
        self.alpha = _drawn(score, rng)

    def _draw_founding(self) -> None:
        """Draw the spread of founders, given these."""
        if len(self._founding) > 1:
            rng, n = self._rng, self._n
            founders = self.y[:, n : n + self._prior.num_founders]
            square, tried = (founders**2).sum(axis=1)[:, None], self._founding
            score = half_cauchy(tried, self._prior.scales[1]) - founders.shape[1] * np.log(tried)
            self._frame = _drawn(score - 0.5 * square / tried**2, rng)

    def _scaled(self, along: Floats, spread: Floats, log_prior: Floats) -> tuple[Floats, Floats]:
        """Draw a `spread` [C] given parts `along` [C, n] of deviations in units of it, which change with it.

        Return it, and the factor [C] of these parts.
        """
        n = self._n
        h = ((along @ self._all[:n, :n]) * along).sum(axis=1)[:, None]
        left = self._all_pull[:n] - self.y @ self._all[:, :n]
        b = (left * along).sum(axis=1)[:, None]
        more = self._axis / spread[:, None] - 1.0
        at = _drawn(log_prior + b * more - 0.5 * h * more**2, self._rng)
        step = more[self._chains, at]
        ahead = self.y.copy()
        ahead[:, :n] += along * step[:, None]
        taken = self._accepted(ahead)
        self.y = np.where(taken[:, None], ahead, self.y)
        return np.where(taken, self._axis[at], spread), np.where(taken, 1.0 + step, 1.0)

    def _group_by_gaps(self) -> None:
        """Begin with 2 to all possible groups, divided where deviations are far apart."""
        u = self.y[:, : self._n] / self._scale
        order = np.argsort(u, axis=1)
        gaps = np.diff(np.take_along_axis(u, order, axis=1), axis=1)
        # not with one group: a wide one seldom falls apart, while groups that are too many soon join
        number = self._rng.integers(min(1, self._most - 1), self._most, size=len(u))
        rank = np.argsort(np.argsort(-gaps, axis=1), axis=1)
        label = np.zeros_like(self.z)
        label[:, 1:] = np.cumsum(rank < number[:, None], axis=1)
        np.put_along_axis(self.z, order, label, axis=1)
        if self._most > 1:  # where there are any
            total = np.bincount(self._slot(), u.ravel(), self.m.size).reshape(self.m.shape)
            self.m = total / np.maximum(self._count(), 1)
            within = (((self.y[:, : self._n] - self._mean()) ** 2).mean(axis=1)) ** 0.5
            self.s = np.clip(np.where(number > 0, within, self.s), self._axis[2], self._axis[-1])

    # -- what comes of it --------------------------------------------------------------------------------

    @property
    def x(self) -> Floats:
        """Strengths and places [C, N + T - 1]."""
        return self.y @ self._to_x.T

    def skewed(self) -> bool:
        """Return whether the chains leave the log-odds of some game so open that they are skewed."""
        return bool((self._design @ self.y[: 4 * _SOME].T).std(axis=1).max(initial=0.0) > _KNOWN)

    def drift(self) -> Floats:
        """Mean middle of deviations [C]."""
        return self.m[self.z, self._chains[:, None]].sum(axis=1) / max(1, self._n)


def _chance(d: Floats) -> Floats:
    return 0.5 + 0.5 * np.tanh(0.5 * d)


def _drawn(score: Floats, rng: np.random.Generator) -> Indices:
    """Return a column [S] of each row of log-probabilities [S, G], drawn by them."""
    limit = np.cumsum(np.exp(score - score.max(axis=1, keepdims=True)), axis=1)
    return (rng.random((len(score), 1)) * limit[:, -1:] > limit).sum(axis=1)
