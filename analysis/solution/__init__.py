"""Solution concepts of a table of payoffs: best members, members that an equilibrium needs, cycles.

Pure mathematics: arrays in, arrays out, each with its paper. A payoff [n, n] is antisymmetric, in [-1, 1].
`Payoffs` and `with_interval` add the uncertainty of few games to any concept. The rules of the league import
from here, so functions that need scipy import it when they are called.
"""

from __future__ import annotations

from analysis.solution.cycles.melo import Melo, melo, melo_started, melo_updated
from analysis.solution.cycles.schur import (
    Planes,
    Split,
    cyclic_planes,
    hodge,
    plane,
    schur,
    split,
    unexplained_share,
)
from analysis.solution.dynamics.alpha_rank import (
    alpha_rank,
    alpha_rank_populations,
    marginals,
    markov_conley_chains,
)
from analysis.solution.dynamics.projected import projected_replicator
from analysis.solution.dynamics.replicator import (
    discrete_path,
    growth_rates,
    path,
    paths,
    replicator_average,
    rest_points,
    time_average,
    velocities,
    velocity,
)
from analysis.solution.equilibria.clusters import nash_clusters, nash_layers
from analysis.solution.equilibria.nash import (
    NashAverage,
    ZeroSum,
    best_response_gain,
    max_entropy_nash,
    nash,
    nash_averaging,
    nash_averaging_on_tasks,
    nash_ratings,
    zero_sum_nash,
)
from analysis.solution.equilibria.populations import (
    effective_diversity,
    effective_rank,
    expected_cardinality,
    relative_population_performance,
)
from analysis.solution.payoffs import Interval, Payoffs, with_interval
from analysis.solution.social_choice import (
    Kemeny,
    iterated_maximal_lotteries,
    kemeny,
    kemeny_score,
    margins_of_ballots,
    maximal_lottery,
    soft_condorcet,
)

__all__ = [
    "Interval",
    "Kemeny",
    "Melo",
    "NashAverage",
    "Payoffs",
    "Planes",
    "Split",
    "ZeroSum",
    "alpha_rank",
    "alpha_rank_populations",
    "best_response_gain",
    "cyclic_planes",
    "discrete_path",
    "effective_diversity",
    "effective_rank",
    "expected_cardinality",
    "growth_rates",
    "hodge",
    "iterated_maximal_lotteries",
    "kemeny",
    "kemeny_score",
    "marginals",
    "margins_of_ballots",
    "markov_conley_chains",
    "max_entropy_nash",
    "maximal_lottery",
    "melo",
    "melo_started",
    "melo_updated",
    "nash",
    "nash_averaging",
    "nash_averaging_on_tasks",
    "nash_clusters",
    "nash_layers",
    "nash_ratings",
    "path",
    "paths",
    "plane",
    "projected_replicator",
    "relative_population_performance",
    "replicator_average",
    "rest_points",
    "schur",
    "soft_condorcet",
    "split",
    "time_average",
    "unexplained_share",
    "velocities",
    "velocity",
    "with_interval",
    "zero_sum_nash",
]
