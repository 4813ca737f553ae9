"""Pictures of scenes, and the style that gives them their colours on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from league.envs.scene import Board, Scene
from league.watching.drawing.board import draw_board
from league.watching.drawing.svg import Picture
from league.watching.drawing.tabletop import draw_tabletop


def draw(scene: Scene, before: Scene | None, seat: int | None, names: Sequence[str]) -> Picture:
    """Return the picture of `scene`, seen from `seat`; `before` is the scene of the step before."""
    if isinstance(scene, Board):
        return draw_board(scene, before if isinstance(before, Board) else None)
    return draw_tabletop(scene, seat, names)


@cache
def style() -> str:
    """Return the style sheet of all pictures."""
    return (files("league.watching.drawing") / "pictures.css").read_text(encoding="utf-8")
