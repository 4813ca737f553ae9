"""Pictures of a run: each function takes History's frames of one run and gives a matplotlib Figure, made
without pyplot; `save` writes it, `svg` gives it as an element of a page. The same frames give the same
bytes.

| plot | what it shows |
|---|---|
| `ratings` | mu ± 2 sigma of players over env steps, snapshots where they were frozen |
| `payoff_heatmap` | who wins how often against whom, by rating or by Nash cluster |
| `lineage_tree` | which snapshot was trained from which |
| `match_mix` | the shares of match types over time, player by player |
| `exploitability` | what a best response wins against snapshots |
| `response_graph` | whom each should fear most, and where that leads |
| `cyclic_plane` | the plane in which strengths go round in circles |
"""

from __future__ import annotations

from analysis.plots.pictures.exploitability_curves import exploitability
from analysis.plots.pictures.heatmap import payoff_heatmap
from analysis.plots.pictures.lineage import lineage_tree
from analysis.plots.pictures.mix import match_mix
from analysis.plots.pictures.plane import cyclic_plane
from analysis.plots.pictures.rating_lines import ratings
from analysis.plots.pictures.response import response_graph
from analysis.plots.saving import save, svg

__all__ = [
    "cyclic_plane",
    "exploitability",
    "lineage_tree",
    "match_mix",
    "payoff_heatmap",
    "ratings",
    "response_graph",
    "save",
    "svg",
]
