"""Figures: what is measured on a yardstick, as shares between 0 and 1 with intervals. Pure functions.

best    the share of positions in which a best-scored action is chosen
kept    the share of positions in which the action keeps a win a win, and a draw a draw
score   points per game against a fixed opponent: a draw counts half
"""

from __future__ import annotations

import numpy as np

from analysis.statistics.elo import elo_from_pairs, score_of_elo, wilson
from league.arena.matches import points_of
from league.yardsticks.positions import Positions
from storage.arrays import Bools, Floats
from storage.records import EndReason, ResultBatch, YardstickRecord

BANDS = 4  # groups of about as many positions each, by the number of plies before them
DECISIVE = "decisive"  # the part of the positions in which the choice decides between win, draw and loss
ALL = "all"
POSITIONS, GAMES = "positions", "games"  # kinds of yardsticks


def figures_of_positions(
    competitor: str, positions: Positions, probability: Floats, greedy: bool
) -> list[YardstickRecord]:
    """Return the figures of a competitor with this probability of each action [n, A].

    In mode sample they are expected under these probabilities. With `greedy` there are also those of the
    likeliest action, the first of several.
    """
    weights = {"sample": probability}
    if greedy:
        weights = {"greedy": np.eye(probability.shape[1])[probability.argmax(axis=1)], **weights}
    found = []
    for part, chosen in parts(positions).items():
        for mode, weight in weights.items():
            for measure, good in (("best", positions.best), ("kept", positions.kept)):
                share = float((weight * good).sum(axis=1)[chosen].mean())
                low, high = wilson(share, int(chosen.sum()))
                found.append(
                    YardstickRecord(
                        competitor=competitor,
                        yardstick=positions.name,
                        kind=POSITIONS,
                        measure=measure,
                        mode=mode,
                        part=part,
                        value=min(share, 1.0),  # float32 probabilities add up to 1 with an error
                        low=low,
                        high=high,
                        samples=int(chosen.sum()),
                    )
                )
    return found


def parts(positions: Positions) -> dict[str, Bools]:
    """Return the parts of the positions with a figure of their own, by name: which positions [n] each has.

    All, those in which the choice decides the outcome, and bands of plies. Parts without any are left out.
    """
    plies = positions.plies
    edges = np.unique(np.quantile(plies, np.linspace(0.0, 1.0, BANDS + 1)).astype(np.int64))
    named = {ALL: np.ones(len(plies), dtype=np.bool_), DECISIVE: positions.decisive}
    low = int(plies.min())
    for high in edges[1:].tolist():
        named[f"plies {low}-{high}" if low < high else f"plies {low}"] = (plies >= low) & (plies <= high)
        low = high + 1
    return {name: chosen for name, chosen in named.items() if chosen.any()}


def figure_of_games(
    competitor: str, opponent: str, results: ResultBatch, mode: str, seeds: int
) -> YardstickRecord | None:
    """Return the score of the competitor in these matches: `seeds` times each team in turn (`games.py`).

    The unit of statistics is the seed: a match of each team. Seeds with a crashed match are left out.
    Return `None` if none is left.
    """
    points = points_of(results)
    teams = points.shape[1]
    own = points.reshape(seeds, teams, teams)[:, np.arange(teams), np.arange(teams)].mean(axis=1)
    whole = (results.reason != EndReason.CRASH).reshape(seeds, teams).all(axis=1)
    if not whole.any():
        return None
    elo = elo_from_pairs(own[whole])
    value = float(own[whole].mean())
    return YardstickRecord(
        competitor=competitor,
        yardstick=opponent,
        kind=GAMES,
        measure="score",
        mode=mode,
        part=ALL,
        value=value,
        low=min(score_of_elo(elo.low), value),
        high=max(score_of_elo(elo.high), value),
        samples=int(whole.sum()) * teams,
    )
