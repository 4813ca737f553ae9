"""Person at the terminal as an actor: the match is shown, and each action is typed in."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, is_legal
from league.models.actor import Actor, Chosen, Look

WIDTH = 100  # characters per line of the list of legal actions

Show = Callable[[str], None]
Ask = Callable[[str], str]  # like `input`: raises EOFError at the end of the input


class Person(Actor):
    """Actor in one seat of the match in slot 0 of `game`, controlled by a person.

    The person sees only what that seat may see. The question is repeated until the answer is a legal action:
    its number, its name, or all its numbers if it has several.
    """

    def __init__(self, game: BatchedGame, seat: int, show: Show, ask: Ask) -> None:
        self._game = game
        self._seat = seat
        self._spec = game.action_specs[seat]
        self._show = show
        self._ask = ask

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Ask for the one action that is due. Raise EOFError at the end of the input."""
        self._show(self._game.render(0, self._seat))
        self._show(textwrap.fill(self._offer(look.mask[0]), WIDTH))
        action = None
        while action is None:
            text = self._ask(f"seat {self._seat}> ").strip()
            action = self._read(text, look.mask)
            if action is None:
                self._show(f"'{text}' is no legal action here, expected {self._expected()}")
        return Chosen(action, np.zeros(1, dtype=np.float32), look.observation, action)

    def _offer(self, mask: npt.NDArray[np.bool_]) -> str:
        """Return the list of legal actions as text."""
        match self._spec.kind:
            case "discrete":
                names = {a: self._name(a) for a in np.flatnonzero(mask).tolist()}
                return ", ".join(str(a) if name == str(a) else f"{a} {name}" for a, name in names.items())
            case "multi_discrete":
                choices = np.split(mask, np.cumsum(self._spec.sizes)[:-1])
                return "; ".join(" ".join(map(str, np.flatnonzero(choice))) for choice in choices)
            case _:
                bounds = zip(self._spec.low, self._spec.high, strict=True)
                return "; ".join(f"{low:g} to {high:g}" for low, high in bounds)

    def _expected(self) -> str:
        if self._spec.kind == "discrete":
            return "a number or a name from the list"
        return f"{self._spec.shape[0]} numbers from the list, with spaces between"

    def _read(self, text: str, mask: npt.NDArray[np.bool_]) -> npt.NDArray | None:
        """Return the action [1, *shape] in `text`, or `None` if it is not legal by `mask` [1, mask_width]."""
        if self._spec.kind == "discrete":
            legal = np.flatnonzero(mask[0]).tolist()
            named = [a for a in legal if self._name(a).casefold() == text.casefold()]
            if len(named) == 1:
                return np.array(named, dtype=self._spec.dtype)
        number = float if self._spec.kind == "continuous" else int
        try:
            numbers = np.array([number(word) for word in text.split()], dtype=self._spec.dtype)
            action = numbers.reshape(1, *self._spec.shape)
        except (ValueError, OverflowError):
            return None
        return action if is_legal(self._spec, mask, action)[0] else None

    def _name(self, action: int) -> str:
        return self._game.action_name(0, self._seat, action)
