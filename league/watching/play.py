"""Play: matches shown move by move as text, between competitors or with a person in some seats.

Without a person everything is shown. A person sees only what their seat may see, and the moves of the
others after the match.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor, Chosen, Look
from league.models.policies.policy import Policy
from league.watching.recorded_match import FIRST, open_recorded
from league.watching.seating import HUMAN, seat_competitors
from league.watching.table import Show, ShownTable, Watched
from league.watching.words import action_of, by_order, choices, title
from storage.arrays import Bools, Floats32

WIDTH = 100  # characters per line of the list of legal actions

Ask = Callable[[str], str]  # like `input`: raises EOFError at the end of the input


def play(
    run: str | Path,
    names: Sequence[str],
    *,
    games: int = 1,
    seed: int = 0,
    delay: float = 0.0,
    verbose: bool = False,
    show: Show = print,
    ask: Ask = input,
) -> None:
    """Play the game of `run` with one of `names` in each seat: see `league.competitors.names`, or `human`.

    `delay`: seconds after each move; `verbose`: show the policies' probabilities and values.
    Raise as `seat_competitors`, and EOFError if a person ends the input.
    """
    seating = seat_competitors(run, names, lambda game, seat: Person(game, seat, show, ask))
    if verbose:
        watched = (Watched(actor) if isinstance(actor, Policy) else actor for actor in seating.actors)
        seating = replace(seating, actors=tuple(watched))
    game, seats = seating.game, seating.seats()
    rng = np.random.default_rng(seed)

    def answer(blocks: list[Decisions], rewards: Floats32) -> list[npt.NDArray]:
        seats.rewarded(rewards)
        choices = [seats.decide(block, rng) for block in blocks]
        for _, seat, why in (each for choice in choices for each in choice.failed):
            show(f"{title(seat, names[seat], game.num_seats)} forfeits: {why.cause}")
        return [choice.action for choice in choices]

    table = ShownTable(game, names, seating.team_of_seat, show, delay, seating.actors, guarded=HUMAN in names)
    for number in range(1, games + 1):
        if games > 1:
            show(f"--- game {number} of {games}")
        seats.begin(FIRST, np.arange(game.num_seats, dtype=np.int32)[None])
        table.play(int(rng.integers(2**63)), answer)
    if games > 1:
        table.show_totals()


def show_recorded(run: str | Path, match_id: int, *, delay: float = 0.0, show: Show = print) -> None:
    """Show a recorded match of `run` move by move.

    Raise Mistake if the match was not recorded, or if its game cannot be shown as text.
    """
    found = open_recorded(run, match_id)
    table = ShownTable(found.game, found.names, found.team_of_seat, show, delay)
    table.play(found.seed, lambda blocks, _: found.answer(blocks))


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
        self._show(by_order(self._game.render(0, self._seat)))
        self._show(textwrap.fill(self._offer(look.mask[0]), WIDTH))
        action = None
        while action is None:
            text = self._ask(f"{title(self._seat, 'you', self._game.num_seats)}> ").strip()
            action = self._read(text, look.mask)
            if action is None:
                self._show(f"'{text}' is no legal action here, expected {self._expected()}")
        return Chosen(action, np.zeros(1, dtype=np.float32), look.observation, action)

    def _offer(self, mask: Bools) -> str:
        """Return the list of legal actions as text."""
        if self._spec.kind != "discrete":
            return choices(self._spec, mask)
        names = {a: self._name(a) for a in np.flatnonzero(mask).tolist()}
        return ", ".join(str(a) if name == str(a) else f"{a} {name}" for a, name in names.items())

    def _expected(self) -> str:
        if self._spec.kind == "discrete":
            return "a number or a name from the list"
        return f"{self._spec.shape[0]} numbers from the list, with spaces between"

    def _read(self, text: str, mask: Bools) -> npt.NDArray | None:
        """Return the action [1, *shape] in `text`, or `None` if it is not legal by `mask` [1, mask_width]."""
        if self._spec.kind == "discrete":
            legal = np.flatnonzero(mask[0]).tolist()
            named = [a for a in legal if self._name(a).casefold() == text.casefold()]
            if len(named) == 1:
                return np.array(named, dtype=self._spec.dtype)
        number = float if self._spec.low else int
        try:
            return action_of(self._spec, mask, [number(word) for word in text.split()])
        except ValueError:
            return None

    def _name(self, action: int) -> str:
        return self._game.action_name(0, self._seat, action)
