"""Frames: what a page shows of a match at one moment, as a picture and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from league.envs.base import BatchedGame
from league.envs.scene import Scene
from league.watching.browser.pictures import draw
from league.watching.words import by_order

Frame = dict[str, Any]


def frame(
    game: BatchedGame,
    scene: Scene | None,
    before: Scene | None,
    seat: int | None,
    titles: Sequence[str],
    said: Sequence[str],
    turn: Sequence[str],
    view: int | None = None,
) -> Frame:
    """Return what the page shows of slot 0, as `seat` may see it (`None`: everything), drawn for `view`."""
    text = by_order(game.render(0, seat)) if game.renders else ""
    made: Frame = {"text": text, "said": list(said), "turn": list(turn)}
    if scene is None:
        return {**made, "picture": None, "spots": {}, "words": text}
    picture = draw(scene, before, view, titles)
    return {**made, "picture": picture.svg, "spots": _spots(picture.spots), "words": by_order(scene.words)}


def _spots(spots: Mapping[int, tuple[float, float, float, float]]) -> dict[str, list[float]]:
    return {str(action): [round(number, 2) for number in place] for action, place in spots.items()}
