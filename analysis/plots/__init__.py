"""Plots of a run.

Each function takes History's frames of one run and returns a matplotlib Figure, without pyplot. `strengths`,
`scores`, `win_rates` and `learning` take frames of several runs, too. `save` writes a figure to a file, `svg`
returns it as an element of a page, `headline` its title and subtitle. The same frames give the same bytes.

| plot | content |
|---|---|
| `ratings` | mu ± 2 sigma of players over env steps, snapshots where they were frozen |
| `payoff_heatmap` | win rates between competitors, ordered by rating or by Nash cluster |
| `lineage_tree` | parents of snapshots |
| `match_mix` | shares of match types over time, for each player |
| `exploitability` | gain of a best response against snapshots |
| `yardsticks` | figures of snapshots on fixed yardsticks |
| `response_graph` | worst opponent of each competitor, and the cycles of these arrows |
| `cyclic_plane` | strongest plane of cyclic results |
| `scores` | mean scores of players and lengths of their matches, over env steps or time |
| `win_rates` | points per game of live players by opponent, over env steps or time |
| `ends` | how matches end, and what each seat is worth, over env steps or time |
| `learning` | entropy, losses, gradient norm and lag of learners, over env steps or time |
| `strengths` | strengths of mains' snapshots over env steps or time, of one run or several |
| `speed` | env steps a second over env steps |
"""

from __future__ import annotations

from analysis.plots.heatmap import payoff_heatmap
from analysis.plots.learning_curves import ends, learning, scores, strengths, win_rates
from analysis.plots.lineage import lineage_tree
from analysis.plots.measured import exploitability, yardsticks
from analysis.plots.mix import match_mix, speed
from analysis.plots.plane import cyclic_plane
from analysis.plots.rating_lines import ratings
from analysis.plots.response import response_graph
from analysis.plots.saving import headline, save, svg

__all__ = [
    "cyclic_plane",
    "ends",
    "exploitability",
    "headline",
    "learning",
    "lineage_tree",
    "match_mix",
    "payoff_heatmap",
    "ratings",
    "response_graph",
    "save",
    "scores",
    "speed",
    "strengths",
    "svg",
    "win_rates",
    "yardsticks",
]
