"""Designs in which all meet equally often: rows of T different entrants of N."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from league.tournament.schedules.schedule import Pairings
from storage.arrays import Floats, Indices


def cyclic_design(field: int, num_teams: int, times: int) -> Pairings:
    """Return [b, T] base rows, which `developed` makes a design in which any two meet at least `times` times.

    When rows are shifted around the circle of the field, two meet as often as their distance occurs in the
    base rows: a difference family (Colbourn, Dinitz: Handbook of Combinatorial Designs, 2nd edition, section
    II.18). With two teams each distance is one row, and any two meet exactly `times` times. With more teams
    there may be no such family. Then each row takes the distances with the fewest meetings so far, and later
    rows even out what occurred too often. So any number of first rows is nearly balanced, too.
    """
    met = np.zeros(field)  # number of meetings by distance around the circle
    rows: list[Pairings] = []
    while (met[1:] < times).any():
        if rows and (met[1:] == met[1]).all():  # from here on rows would repeat
            return np.tile(np.concatenate(rows), (-(-times // int(met[1])), 1))
        row = _least_met(met, num_teams)
        distances = (row[:, None] - row)[~np.eye(num_teams, dtype=np.bool_)] % field
        met += np.bincount(distances, minlength=field) * (len(shifts(row, field)) / field)
        rows.append(row[None])
    return np.concatenate(rows)


def developed(base: Pairings, field: int) -> Pairings:
    """Return [n, T] the base rows with all their shifts that are different rows."""
    different, which = np.unique(base, axis=0, return_inverse=True)  # of many pairs, rows repeat
    parts = [shifts(row, field) for row in different]
    return np.concatenate([parts[i] for i in which.ravel().tolist()])


def num_developed(base: Pairings, field: int) -> int:
    """Return the number of rows that `developed` returns."""
    different, times = np.unique(base, axis=0, return_counts=True)
    return sum(n * len(shifts(row, field)) for row, n in zip(different, times.tolist(), strict=True))


def shifts(row: Indices, field: int) -> Pairings:
    """Return [n, T] all shifts of a row [T] around the circle that are different rows."""
    shifted = (row + np.arange(field)[:, None]) % field
    _, first = np.unique(np.sort(shifted, axis=1), axis=0, return_index=True)
    return shifted[np.sort(first)]


def matchings(pairs: int, field: int, num_teams: int, rng: np.random.Generator) -> Pairings:
    """Return [pairs, T] random rows, in which any two are equally likely and all appear about equally often.

    An entrant is drawn again only when all others have been drawn.
    """
    drawn: list[Pairings] = []
    missing = pairs
    while missing > 0:
        order = rng.permutation(field)[: field - field % num_teams]
        drawn.append(order.reshape(-1, num_teams)[:missing])
        missing -= len(drawn[-1])
    return np.concatenate(drawn)


def ring(field: int, num_teams: int, rng: np.random.Generator) -> Pairings:
    """Return [n, T] rows around a circle in random order: all are connected by the fewest such rows."""
    order = rng.permutation(field)
    step = num_teams - 1
    starts = np.arange(0, field, step) if field > num_teams else np.zeros(1, dtype=np.int64)
    return order[(starts[:, None] + np.arange(num_teams)) % field]


def meetings(history: Sequence[Pairings], field: int) -> Indices:
    """Return [N, N] the number of pairs in which any two met; 0 on the diagonal."""
    met = np.zeros(field * field, dtype=np.int64)
    for pairings in history:
        for i, j in itertools.permutations(range(pairings.shape[1]), 2):
            met += np.bincount(pairings[:, i] * field + pairings[:, j], minlength=field * field)
    return met.reshape(field, field)


def _least_met(met: Floats, num_teams: int) -> Pairings:
    """Return [T] a row from 0 on; each next member has the least met distances from the earlier ones."""
    field = len(met)
    row, extra = [0], np.zeros(field)  # meetings that this row adds
    distance = np.arange(field)
    for _ in range(num_teams - 1):
        members = np.array(row)
        cost = (met + extra)[(distance[:, None] - members) % field].sum(axis=1)
        cost[members] = np.inf
        chosen = int(cost.argmin())
        away = (chosen - members) % field
        np.add.at(extra, np.concatenate([away, (field - away) % field]), 1.0)
        row.append(chosen)
    return np.array(row, dtype=np.int64)
