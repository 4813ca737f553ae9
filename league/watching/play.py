"""Play: matches shown move by move as text, between competitors or with a person in some seats.

Without a person everything is shown. A person sees only what their seat may see, and the moves of the
others after the match.
"""

from __future__ import annotations

import math
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor, Chosen, Look
from league.models.policies.policy import Policy
from league.watching.replay import FIRST, open_recorded
from league.watching.seating import HUMAN, seat_competitors
from league.watching.words import action_of, by_order, choices, how_it_ended, moves, results, title
from storage.arrays import Bools, Floats32, Indices
from storage.errors import printable
from storage.records import EndReason, Outcome

WIDTH = 100  # characters per line of the list of legal actions

MOST_NAMED = 5  # actions whose probabilities are shown

Show = Callable[[str], None]
Ask = Callable[[str], str]  # like `input`: raises EOFError at the end of the input
# (decisions that are due, rewards [1, num_seats] of the step before) -> an array of actions for each
# block; None: the rest of the match is unknown
Answer = Callable[[list[Decisions], Floats32], list[npt.NDArray] | None]


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
            show(f"{title(seat, names[seat], game.num_seats)} forfeits: {printable(why.cause)}")
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


class Watched(Actor):
    """Policy that also keeps its probabilities and its value of the latest decision."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.memory_size, self.wants_reward = policy.memory_size, policy.wants_reward
        self.thought = np.zeros(0, dtype=np.float32)  # result of Policy.evaluate for one decision
        self.value = 0.0

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Evaluate the decision, then let the policy decide."""
        thoughts, values = self._policy.evaluate(look.observation, look.mask, look.memory, look.reward)
        self.thought, self.value = thoughts[0], float(values[0])
        return self._policy.decide(look, rng, temperature)


class ShownTable:
    """Display of matches in slot 0 of a game, which it also plays."""

    def __init__(
        self,
        game: BatchedGame,
        names: Sequence[str],
        team_of_seat: Indices | None,
        show: Show,
        delay: float,
        actors: Sequence[Actor] = (),
        guarded: bool = False,
    ) -> None:
        """`guarded`: hide moves until the match is over, because a person plays."""
        self._game = game
        self._names = [title(seat, name, len(names)) for seat, name in enumerate(names)]
        self._team_of_seat = team_of_seat
        self._guarded = guarded
        self._show = show
        self._delay = delay
        self._actors = actors
        self._totals: list[Counter[Outcome]] = [Counter() for _ in names]

    def play(self, seed: int, answer: Answer) -> None:
        """Play the match of `seed`."""
        game, hidden = self._game, []
        rewards = np.zeros((1, game.num_seats), dtype=np.float32)
        score = np.zeros(rewards.shape, dtype=np.float64)
        game.reset(FIRST, np.array([seed]))
        while game.active[0]:
            blocks = game.due()
            if blocks and not self._guarded:
                self._show(by_order(game.render(0)))
            actions = answer(blocks, rewards)
            if actions is None:
                self._show("nothing more was recorded")
                return
            said = moves(game, self._names, blocks, actions)
            lines = [f"{line}{self._thought(seat)}" for seat, line in said.items()]
            transition = game.step(actions)
            rewards = transition.rewards
            score += rewards
            if self._guarded:
                hidden += lines
            elif lines:
                self._show("\n".join(lines) + "\n")
                time.sleep(self._delay)
        if transition.reason[0] != EndReason.CRASH:  # a crashed match cannot be shown any more
            self._show(by_order(game.render(0)))
        if hidden:
            self._show("what was played:\n" + "\n".join(hidden))
        self._show(f"over {how_it_ended(game, int(transition.reason[0]))}")
        kinds, lines = results(self._names, score, transition.forfeited, self._team_of_seat, game.draw_margin)
        for kind, line, total in zip(kinds, lines, self._totals, strict=True):
            total[kind] += 1
            self._show(line)

    def show_totals(self) -> None:
        """Show how often each seat has won, drawn, lost and forfeited."""
        for name, total in zip(self._names, self._totals, strict=True):
            counts = ", ".join(f"{kind.name.lower()} {total[kind]}" for kind in Outcome if total[kind])
            self._show(f"{name}: {counts}")

    def _thought(self, seat: int) -> str:
        """Return the probabilities and the value of the policy in `seat` as text, or ''."""
        actor = self._actors[seat] if self._actors else None
        if not isinstance(actor, Watched):
            return ""
        value = "" if math.isnan(actor.value) else f"; value {actor.value:+.2f}"  # some see what it does not
        return f"   [{self._probabilities(seat, actor.thought)}{value}]"

    def _probabilities(self, seat: int, thought: Floats32) -> str:
        spec = self._game.action_specs[seat]
        if spec.kind == "discrete":
            likeliest = np.argsort(-thought, kind="stable")[:MOST_NAMED]
            named = [
                (self._game.action_name(0, seat, int(a)), thought[a]) for a in likeliest if thought[a] > 0
            ]
            return ", ".join(f"{name} {share:.2f}" for name, share in named)
        parts = [" ".join(f"{share:.2f}" for share in thought[start:end]) for start, end in spec.columns]
        mean, log_std = np.split(thought[spec.mask_width :], 2)
        numbers = [f"{m:.3g} ± {s:.2g}" for m, s in zip(mean, np.exp(log_std), strict=True)]
        return "; ".join([*parts, *[", ".join(numbers)] * bool(numbers)])
