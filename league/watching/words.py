"""Matches in words, for the terminal and for pages: what was played, how it ended, and what may be chosen."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions, is_legal
from league.envs.spaces import ActionSpec
from league.rollout.traces.results import placed
from storage.arrays import Bools, Floats, Indices
from storage.records import EndReason, Outcome

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_SEAT = re.compile(r"\b([Ss])eat (\d+)\b")
_ENDS = {
    EndReason.ILLEGAL_ACTION: ", by an illegal action",
    EndReason.STEP_LIMIT: ", by the step limit",
    EndReason.CRASH: ": the game broke",
    EndReason.ERROR: ", by an error of a competitor",
    EndReason.TIME: ", as time was over",
}


def ordinal(seat: int) -> str:
    """Return the word for a seat, such as "first" for seat 0."""
    return _ORDINALS[seat] if seat < len(_ORDINALS) else f"{seat + 1}th"


def title(seat: int, name: str, num_seats: int) -> str:
    """Return a competitor with its seat, such as "main-0 (first)"; its name alone in a game for one."""
    return name if num_seats == 1 else f"{name} ({ordinal(seat)})"


def by_order(text: str) -> str:
    """Return the text of a game with "first seat" in place of "seat 0"."""

    def spelt(found: re.Match[str]) -> str:
        word = ordinal(int(found[2]))
        return f"{word.capitalize() if found[1] == 'S' else word} seat"

    return _SEAT.sub(spelt, text)


def moves(
    game: BatchedGame, titles: Sequence[str], blocks: Sequence[Decisions], actions: Sequence[npt.NDArray]
) -> dict[int, str]:
    """Return a line for each action in slot 0 by seat, in order; call it before the game makes its step."""
    lines = {}
    for block, taken in zip(blocks, actions, strict=True):
        legal = is_legal(game.action_specs[int(block.seat[0])], block.mask, taken)
        for seat, action, allowed in zip(block.seat.tolist(), taken, legal, strict=True):
            numbers = " ".join(f"{number:g}" for number in np.atleast_1d(action))
            none = np.all(np.isnan(action) | (np.asarray(action) == -1))
            illegal = "no answer" if none else f"{numbers}, which is illegal"
            name = game.action_name(0, seat, action) if allowed else illegal
            lines[seat] = f"{titles[seat]}: {name}"
    return dict(sorted(lines.items()))


def how_it_ended(game: BatchedGame, reason: int) -> str:
    """Return after how many decisions the match in slot 0 ended, and how if not by its rules."""
    return f"after {game.env_steps[0]} decisions{_ENDS.get(EndReason(reason), '')}"


def results(
    titles: Sequence[str], score: Floats, forfeited: Bools, team_of_seat: Indices | None, draw_margin: float
) -> tuple[list[Outcome], list[str]]:
    """Return the outcome of each seat of one match, and a line on it, from `score` [1, num_seats]."""
    outcome, _ = placed(score, forfeited, team_of_seat, draw_margin)
    kinds = [Outcome(int(kind)) for kind in outcome[0]]
    rows = zip(titles, kinds, score[0], strict=True)
    return kinds, [f"{title}: {kind.name.lower()}, score {points:g}" for title, kind, points in rows]


def choices(spec: ActionSpec, mask: Bools) -> str:
    """Return what each number of an action with several may be, by the mask [mask_width]."""
    parts = [" ".join(map(str, np.flatnonzero(mask[start:end]))) for start, end in spec.columns]
    parts += [f"{low:g} to {high:g}" for low, high in zip(spec.low, spec.high, strict=True)]
    return "; ".join(parts)


def action_of(spec: ActionSpec, mask: Bools, numbers: Sequence[float]) -> npt.NDArray | None:
    """Return the action [1, *shape] of `numbers`, or `None` if it is not legal by `mask` [1, mask_width]."""
    try:
        if not all(float(number).is_integer() for number in numbers[: len(spec.sizes)]):
            return None
        action = np.array(numbers, dtype=spec.dtype).reshape(1, *spec.shape)
    except (ValueError, OverflowError):
        return None
    return action if is_legal(spec, mask, action)[0] else None
