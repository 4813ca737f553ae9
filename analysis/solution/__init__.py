"""Solution concepts of a table of payoffs: best members, members that an equilibrium needs, cycles.

Pure mathematics: arrays in, arrays out, each with its paper. A payoff [n, n] is antisymmetric, in [-1, 1].
`Payoffs` and `with_interval` add the uncertainty of few games to any concept. The rules of the league import
from here, so functions that need scipy import it when they are called.
"""

from analysis.solution.cycles import Planes, Split, schur, split, unexplained_share
from analysis.solution.evolution import alpha_rank, projected_replicator
from analysis.solution.nash import (
    NashAverage,
    ZeroSum,
    best_response_gain,
    effective_diversity,
    max_entropy_nash,
    nash_averaging,
    nash_averaging_on_tasks,
    nash_clusters,
    zero_sum_nash,
)
from analysis.solution.payoffs import ConceptInterval, Payoffs, with_interval
from analysis.solution.voting import Kemeny, kemeny, kemeny_score, scores_of_firsts

__all__ = [
    "ConceptInterval",
    "Kemeny",
    "NashAverage",
    "Payoffs",
    "Planes",
    "Split",
    "ZeroSum",
    "alpha_rank",
    "best_response_gain",
    "effective_diversity",
    "kemeny",
    "kemeny_score",
    "max_entropy_nash",
    "nash_averaging",
    "nash_averaging_on_tasks",
    "nash_clusters",
    "projected_replicator",
    "schur",
    "scores_of_firsts",
    "split",
    "unexplained_share",
    "with_interval",
    "zero_sum_nash",
]
