"""Replicator dynamics: shares that grow with their gain over the average.

    d x_i / dt = x_i ((payoff x)_i - x . payoff x)

(Taylor, Jonker: Evolutionary stable strategies and game dynamics, Math. Biosciences 40, 1978; Hofbauer,
Sigmund: Evolutionary games and population dynamics, 1998, chapter 7; several populations: chapter 10.) It is
integrated in y = log x, up to a common constant: then dy / dt = payoff softmax(y), no share can fall below 0,
and y is the gain of each so far. So after a time t no member gains more than log(n) / t against the time
average of a path from the centre of a symmetric zero-sum game. That average becomes an equilibrium.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from storage.arrays import Floats

_RELATIVE, _ABSOLUTE = 1e-10, 1e-10  # errors of the integrator, in logs of shares
_MOST_MEMBERS = 14  # of which all sets are tried: 16,384
_AT_REST = 1e-9


def velocity(payoff: Floats, mixture: Floats) -> Floats:
    """Return d mixture / dt [n] of one population; `payoff` [n, n] of row against column."""
    return _moved(mixture, payoff @ mixture)


def velocities(payoffs: Sequence[Floats], mixtures: Sequence[Floats]) -> list[Floats]:
    """Return d mixture / dt [n_k] of each of K populations.

    `payoffs` are the gains of player k, [n_1, ..., n_K] each.
    """
    return [_moved(mixtures[k], _gains(payoffs, mixtures, k)) for k in range(len(payoffs))]


def path(payoff: Floats, start: Floats, times: Floats) -> Floats:
    """Return shares [T, n] of one population at `times` [T], rising from 0, from `start` [n] at time 0.

    Members without a share stay without. The method is Dormand and Prince's of order 8, with errors of 1e-10.
    """
    _check([payoff], [start], square=True)
    return _integrated(lambda mixtures: [payoff @ mixtures[0]], [start], times)[0]


def paths(payoffs: Sequence[Floats], starts: Sequence[Floats], times: Floats) -> list[Floats]:
    """Return shares [T, n_k] of each of K populations, as `path`.

    `payoffs` are the gains of player k, [n_1, ..., n_K] each.
    """
    _check(payoffs, starts, square=False)

    def gains(mixtures: Sequence[Floats]) -> list[Floats]:
        return [_gains(payoffs, mixtures, k) for k in range(len(payoffs))]

    return _integrated(gains, starts, times)


def discrete_path(payoff: Floats, start: Floats, steps: int, *, background: float = 1.0) -> Floats:
    """Return shares [steps + 1, n] in generations.

    x_i' = x_i (background + (payoff x)_i) / (background + x . payoff x) (Maynard Smith: Evolution and the
    theory of games, 1982, appendix D). The larger the background fitness, the smaller a generation's step.
    Raise ValueError where some fitness could be below 0.
    """
    _check([payoff], [start], square=True)
    if background + payoff.min() < 0.0:
        raise ValueError(
            f"replicator: background fitness {background}, and a payoff of {payoff.min():g}; expected at "
            f"least {-payoff.min():g}, or shares would become negative"
        )
    shares = np.empty((steps + 1, len(start)))
    shares[0] = start
    for step in range(steps):
        fitness = shares[step] * (background + payoff @ shares[step])
        total = fitness.sum()
        shares[step + 1] = fitness / total if total > 0.0 else shares[step]
    return shares


def time_average(shares: Floats, times: Floats) -> Floats:
    """Return averages [T, n] of a path from its first time to each of `times` [T], by trapezoids."""
    steps = np.diff(times)[:, None]
    area = np.cumsum(0.5 * (shares[1:] + shares[:-1]) * steps, axis=0)
    return np.vstack([shares[:1], area / (times[1:] - times[0])[:, None]])


def replicator_average(payoff: Floats, *, time: float = 100.0) -> Floats:
    """Return the time average [n] of the path of a symmetric zero-sum game from its centre.

    No member gains more than log(n) / time against it: the total gain of a member is its y, log(1 / n) at the
    start and never above 0 (Hofbauer, Sorin, Viossat: Time average replicator and best-reply dynamics, Math.
    OR 34, 2009).
    """
    from scipy.integrate import solve_ivp

    n = len(payoff)
    _check([payoff], [np.full(n, 1.0 / max(n, 1))], square=True)

    def change(
        _: float, state: Floats
    ) -> Floats:  # the integral of the shares is the state: gains follow from it
        return _softmax(payoff @ state)

    found = solve_ivp(change, (0.0, time), np.zeros(n), method="DOP853", rtol=1e-8, atol=1e-8)
    average: Floats = found.y[:, -1] / found.y[:, -1].sum()
    return average


def rest_points(payoff: Floats) -> Floats:
    """Return all isolated points [k, n] at which one population of up to 14 members does not change.

    There is one for each set of members that all gain the same when they are alone. Corners come first, then
    order is by size and members. Where a set has a continuum of such points (equals, or copies) none of them
    is listed, only the members each by itself. Raise ValueError for more than 14.
    """
    n = len(payoff)
    _check([payoff], [np.full(n, 1.0 / max(n, 1))], square=True)
    if n > _MOST_MEMBERS:
        raise ValueError(f"replicator: rest points of {n} members; expected at most {_MOST_MEMBERS}")
    found = []
    for size in range(1, n + 1):
        for members in combinations(range(n), size):
            chosen = list(members)
            system = np.ones((size + 1, size + 1))  # the same gain for all; shares sum to 1
            system[:size, :size] = payoff[np.ix_(chosen, chosen)]
            system[:size, size], system[size, size] = -1.0, 0.0
            if np.linalg.matrix_rank(system, tol=_AT_REST) <= size:
                continue
            shares = np.linalg.solve(system, np.append(np.zeros(size), 1.0))[:size]
            if shares.min() > _AT_REST:
                point = np.zeros(n)
                point[chosen] = shares
                found.append(point)
    return np.array(found)


def growth_rates(payoff: Floats, mixture: Floats) -> npt.NDArray[np.complex128]:
    """Return the growth rates [n - 1] of small changes of a rest point [n], by real part.

    There is one for each direction that keeps the sum. All real parts below 0: the point attracts; one above:
    it repels; none above, some 0: the linear part cannot decide (in rock-paper-scissors shares circle it for
    ever). They are the eigenvalues of the Jacobian on the simplex.
    """
    gains = payoff @ mixture
    jacobian = np.diag(gains - mixture @ gains) + mixture[:, None] * (payoff - gains - mixture @ payoff)
    basis = np.linalg.svd(np.ones((1, len(mixture))))[2][1:]  # orthonormal, all sums 0
    rates = np.linalg.eigvals(basis @ jacobian @ basis.T).astype(np.complex128)
    return rates[np.lexsort((rates.imag, -rates.real))]


def _integrated(
    gains: Callable[[Sequence[Floats]], list[Floats]], starts: Sequence[Floats], times: Floats
) -> list[Floats]:
    from scipy.integrate import solve_ivp

    if times.ndim != 1 or not len(times) or times[0] < 0.0 or (np.diff(times) <= 0.0).any():
        raise ValueError(
            "replicator: times that do not rise from 0 or later; expected [T], each later than the last"
        )
    present = [np.flatnonzero(start > 0.0) for start in starts]
    cuts = np.cumsum([len(members) for members in present])[:-1]

    def shares(state: Floats) -> list[Floats]:
        mixtures = [np.zeros(len(start)) for start in starts]
        for mixture, members, logs in zip(mixtures, present, np.split(state, cuts), strict=True):
            mixture[members] = _softmax(logs)
        return mixtures

    def change(_: float, state: Floats) -> Floats:
        return np.concatenate(
            [gain[members] for gain, members in zip(gains(shares(state)), present, strict=True)]
        )

    begin = np.concatenate([np.log(start[members]) for start, members in zip(starts, present, strict=True)])
    end = max(float(times[-1]), np.finfo(float).tiny)
    found = solve_ivp(
        change, (0.0, end), begin, method="DOP853", t_eval=times, rtol=_RELATIVE, atol=_ABSOLUTE
    )
    mixtures = [shares(state) for state in found.y.T]
    return [np.array([mixture[k] for mixture in mixtures]) for k in range(len(starts))]


def _gains(payoffs: Sequence[Floats], mixtures: Sequence[Floats], k: int) -> Floats:
    """Return the gain [n_k] of each strategy of player k against the mixtures of the others."""
    gains = np.moveaxis(payoffs[k], k, 0)
    for mixture in reversed([mixture for other, mixture in enumerate(mixtures) if other != k]):
        gains = gains @ mixture
    return gains


def _moved(mixture: Floats, gains: Floats) -> Floats:
    moved: Floats = mixture * (gains - mixture @ gains)
    return moved


def _softmax(logs: Floats) -> Floats:
    raised: Floats = np.exp(logs - logs.max())
    return raised / raised.sum()


def _check(payoffs: Sequence[Floats], starts: Sequence[Floats], *, square: bool) -> None:
    sizes = tuple(len(start) for start in starts)
    expected = sizes * 2 if square else sizes
    if any(payoff.shape != expected or not np.isfinite(payoff).all() for payoff in payoffs):
        found = ", ".join(str(payoff.shape) for payoff in payoffs)
        raise ValueError(
            f"replicator: payoffs of shape {found}; expected {expected}, finite, as the shares say"
        )
    if any((start < 0.0).any() or abs(start.sum() - 1.0) > 1e-9 for start in starts):
        raise ValueError("replicator: shares that are no mixture; expected at least 0 each, and 1 in all")
