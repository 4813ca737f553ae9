"""What a figure shows, read back from its artists."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import plots

Frames = dict[str, pd.DataFrame]

PLOTS: dict[str, Callable[[Frames], Figure]] = {
    "ratings": lambda of: plots.ratings(of["ratings"], of["leaderboard"]),
    "payoff": lambda of: plots.payoff_heatmap(of["payoff"], of["leaderboard"]),
    "clusters": lambda of: plots.payoff_heatmap(of["payoff"], of["leaderboard"], "nash_cluster"),
    "lineage": lambda of: plots.lineage_tree(of["snapshots"], of["leaderboard"]),
    "scores": lambda of: plots.scores(of["curves"]),
    "win_rates": lambda of: plots.win_rates(of["curves"]),
    "ends": lambda of: plots.ends(of["curves"]),
    "learning": lambda of: plots.learning(of["curves"]),
    "match_mix": lambda of: plots.match_mix(of["match_mix"]),
    "exploitability": lambda of: plots.exploitability(of["exploitability"]),
    "yardsticks": lambda of: plots.yardsticks(of["yardsticks"]),
    "responses": lambda of: plots.response_graph(of["payoff"], of["leaderboard"]),
    "cyclic_plane": lambda of: plots.cyclic_plane(of["payoff"], of["leaderboard"]),
}


def labelled(figure: Figure, label: str) -> list[Artist]:
    """The figure's artists of this label, in the order in which they were made."""
    return figure.findobj(lambda artist: artist.get_label() == label)


def words(figure: Figure, label: str) -> str:
    """The text of this label, its lines joined."""
    return " ".join(artist.get_text() for artist in labelled(figure, label) if isinstance(artist, Text))


def segments(line: Artist) -> list[np.ndarray]:
    """The points [k, 2] of each piece of a line that has gaps."""
    points = np.column_stack(line.get_data()).astype(float)  # type: ignore[attr-defined]
    cuts = np.flatnonzero(np.isnan(points[:, 0]))
    return [piece[~np.isnan(piece[:, 0])] for piece in np.split(points, cuts) if len(piece) > 1]


def texts(figure: Figure) -> list[tuple[str, np.ndarray, float]]:
    """Every text that is seen: what it says, its box (left, bottom, right, top) in points, and its size."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    unseen: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not axes.axison or not low - 1e-9 <= tick.get_loc() <= high + 1e-9:
                    unseen |= {id(tick.label1), id(tick.label2)}
            if not axes.axison:
                unseen |= {id(axis.label), id(axis.offsetText)}
    seen = [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and id(text) not in unseen
    ]
    return [(text.get_text(), text.get_window_extent(renderer).extents, text.get_fontsize()) for text in seen]
