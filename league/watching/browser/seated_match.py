"""Sitting: one match between competitors, with a person in at most one seat, played step by step.

A person sees what their seat may see until the match is over, and everything then. Actions of other seats are
named during the match only if the game shows them to all seats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.envs.scene import Scene
from league.models.actor import Actor, Chosen, Look
from league.watching.browser.hints import Adviser
from league.watching.browser.pictures import Frame, frame
from league.watching.replay import FIRST
from league.watching.seating import HUMAN, Seating
from league.watching.words import action_of, choices, how_it_ended, moves, results, title
from storage.arrays import Bools, Floats, Floats32
from storage.errors import Mistake
from storage.records import EndReason, Outcome

MOST_FRAMES = 60  # steps that are played in one call
MOST_SAID = 400  # lines of what was played that are kept
MOST_BUTTONS = 300  # legal actions that are offered by name

_OWN = {
    Outcome.WIN: "You won",
    Outcome.DRAW: "A draw",
    Outcome.LOSS: "You lost",
    Outcome.FORFEIT: "You forfeited",
}


@dataclass(frozen=True, slots=True)
class _Moment:
    """A match before one of its steps, and the actions of that step."""

    acted: bool  # whether one of them is the person's
    actions: list[npt.NDArray]
    rng: Mapping[str, Any]
    seats: tuple[Floats32, Floats32]  # memories and rewards of all seats
    adviser: tuple[npt.NDArray, npt.NDArray] | None
    rewards: Floats32
    score: Floats
    said: tuple[str, ...]
    kept: int


class Absent(Actor):
    """Actor of the person's seat, whose actions come from the page."""

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        raise Mistake("this seat is the person's")


class Sitting:
    """Match in slot 0 of a game. `number` counts its steps, so that an action that came too late is found."""

    def __init__(self, seating: Seating, seed: int, adviser: Adviser | None) -> None:
        self._game: BatchedGame = seating.game
        self.names = seating.names
        self.env_id = seating.env_id
        self.seed = seed
        self.person = self.names.index(HUMAN) if HUMAN in self.names else None
        shown = ["you" if seat == self.person else name for seat, name in enumerate(self.names)]
        self._titles = [title(seat, name, len(shown)) for seat, name in enumerate(shown)]
        self.number = 0
        self.adviser = adviser
        self._team_of_seat = seating.team_of_seat
        self._seats = seating.seats()
        self._rng = np.random.default_rng(seed)  # the first game of `league play --seed` is the same
        self._order = np.arange(self._game.num_seats, dtype=np.int32)[None]
        self._seats.begin(FIRST, self._order)
        self._rewards = np.zeros((1, self._game.num_seats), dtype=np.float32)
        self._score = np.zeros(self._rewards.shape, dtype=np.float64)
        self._deal = np.array([int(self._rng.integers(2**63))])
        self._game.reset(FIRST, self._deal)
        self._past: list[_Moment] = []
        self._blocks: list[Decisions] = self._game.due()
        self._said: deque[str] = deque(maxlen=MOST_SAID)
        self._kept: list[str] = []  # what is said only after the match
        self._scene: Scene | None = None
        self._over: dict[str, Any] | None = None
        self.frames: list[Frame] = [self._frame()]
        if self.person is not None:
            self.go_on()

    @property
    def over(self) -> bool:
        return self._over is not None

    def go_on(self, action: Sequence[float] | None = None) -> None:
        """Play until the person must act, or one step if no person plays along; leave the steps in `frames`.

        `action`: the person's. Raise Mistake for one that is not legal, or that is not due.
        """
        taken = None if action is None else self._read(action)
        if not self.over:
            self.frames = []
        while not self.over and len(self.frames) < MOST_FRAMES:
            due = self._persons()
            if due is not None and taken is None:
                break
            self._step(taken if due is not None else None)
            taken = None if due is not None else taken
            if self.person is None:
                break
        self.frames = self.frames or [self._frame()]

    def take_back(self) -> None:
        """Go back to the person's last decision. Raise Mistake if there was none.

        The match is dealt again and its actions are repeated: no competitor is asked for them a second time.
        """
        own = [at for at, moment in enumerate(self._past) if moment.acted]
        if not own:
            raise Mistake("there is nothing to take back, expected an action of yours")
        moment, self._past = self._past[own[-1]], self._past[: own[-1]]
        game = self._game
        game.reset(FIRST, self._deal)
        for step in self._past:
            game.due()
            game.step(step.actions)
        self._rng.bit_generator.state = moment.rng
        self._seats.begin(FIRST, self._order, *moment.seats)
        if self.adviser is not None and moment.adviser is not None:
            self.adviser.restore(moment.adviser)
        self._rewards, self._score = moment.rewards, moment.score
        self._said = deque(moment.said, maxlen=MOST_SAID)
        del self._kept[moment.kept :]
        self._scene, self._over = None, None
        self._blocks = game.due()
        self.number += 1  # a page that still shows the match of before is behind it
        self.frames = [self._frame()]

    def hint(self) -> dict[str, Any]:
        """Return what the adviser would do in the person's seat. Raise Mistake if nothing is due there."""
        block = self._persons()
        if self.adviser is None or self.person is None:
            raise Mistake("no policy gives hints in this match, expected one with the person's seat")
        if block is None:
            raise Mistake("no hint now, expected one when it is the person's turn")
        thoughts = self.adviser.think(self._game, block)
        return {
            "by": self.adviser.name,
            "value": thoughts.value,
            "moves": [
                {"action": a, "name": self._game.action_name(0, self.person, a), "probability": p, "value": v}
                for a, p, v in thoughts.moves
            ],
        }

    def look(self) -> dict[str, Any]:
        """Return all that the page needs to show the match as it is now."""
        return {
            "game": self.env_id,
            "seats": self.names,
            "person": self.person,
            "number": self.number,
            "seed": str(self.seed),
            "frames": self.frames,
            "said": list(self._said),
            "offer": self._offer(),
            "hints": None if self.adviser is None or self.person is None else self.adviser.name,
            "over": self._over,
            "back": any(moment.acted for moment in self._past),
        }

    def _persons(self) -> Decisions | None:
        """Return the person's decision, if it is due."""
        for block in self._blocks:
            for row in np.flatnonzero(block.seat == (-1 if self.person is None else self.person)):
                return _row(block, int(row))
        return None

    def _read(self, action: Sequence[float]) -> npt.NDArray:
        """Return the person's action [1, *shape]. Raise Mistake if it is not legal now."""
        block = self._persons()
        if block is None or self.person is None:
            raise Mistake("it is not the person's turn: the page is behind the match, load it again")
        made = action_of(self._game.action_specs[self.person], block.mask, action)
        if made is None:
            shown = " ".join(f"{number:g}" for number in action)
            raise Mistake(f"'{shown}' is no legal action here, expected one of those that are offered")
        return made

    def _step(self, persons: npt.NDArray | None) -> None:
        """Play one step, with the action of the person if it is due."""
        game = self._game
        moment = self._moment(persons is not None)
        self._seats.rewarded(self._rewards)
        actions = []
        for block in self._blocks:
            spec = game.action_specs[int(block.seat[0])]
            taken = np.empty((len(block), *spec.shape), dtype=spec.dtype)
            others = np.flatnonzero(block.seat != self.person) if self.person is not None else slice(None)
            rest = _rows(block, others)
            if len(rest):
                choice = self._seats.decide(rest, self._rng)
                taken[others] = choice.action
                self._said.extend(
                    f"{self._titles[who]} forfeits: {why.cause}" for _, who, why in choice.failed
                )
            if len(rest) < len(block):
                assert persons is not None
                taken[block.seat == self.person] = persons
                if self.adviser is not None:
                    self.adviser.acted(
                        _row(block, int(np.flatnonzero(block.seat == self.person)[0])), persons
                    )
            actions.append(taken)
        said = self._named(actions)
        self._past.append(replace(moment, actions=actions))
        transition = game.step(actions)
        self.number += 1
        self._rewards = transition.rewards.copy()
        self._score += self._rewards
        if self.adviser is not None and self.person is not None:
            self.adviser.rewarded(float(self._rewards[0, self.person]))
        self._said.extend(said)
        if game.active[0]:
            self._blocks = game.due()
        else:
            self._blocks = []
            self._end(EndReason(int(transition.reason[0])), transition.forfeited)
        self.frames.append(self._frame(said))

    def _moment(self, acted: bool) -> _Moment:
        return _Moment(
            acted,
            [],
            self._rng.bit_generator.state,
            self._seats.left(FIRST),
            None if self.adviser is None else self.adviser.state(),
            self._rewards.copy(),
            self._score.copy(),
            tuple(self._said),
            len(self._kept),
        )

    def _named(self, actions: Sequence[npt.NDArray]) -> list[str]:
        """Return a line for each action that may be named now, in order of seats; keep the others."""
        lines = moves(self._game, self._titles, self._blocks, actions)
        open_ = self.person is None or self._game.open_actions or self._game.open_state
        shown: list[str] = []
        for seat, line in lines.items():
            (shown if open_ or seat == self.person else self._kept).append(line)
        return shown

    def _end(self, reason: EndReason, forfeited: Bools) -> None:
        margin = self._game.draw_margin
        kinds, lines = results(self._titles, self._score, forfeited, self._team_of_seat, margin)
        scores = [f"{points:g}" for points in self._score[0]]
        said = f"Over {how_it_ended(self._game, reason)}."
        if self.person is not None and self._game.num_seats == 1:
            said = f"Your score: {scores[0]}. {said}"
        elif self.person is not None:
            said = f"{_OWN[kinds[self.person]]}, with a score of {scores[self.person]}. {said}"
        self._over = {"said": said, "lines": lines, "hidden": self._kept, "broke": reason == EndReason.CRASH}

    def _frame(self, said: Sequence[str] = ()) -> Frame:
        """Return what the page shows now."""
        if self._over is not None and self._over["broke"]:  # it cannot be shown any more
            last = self.frames[-1] if self.frames else {"picture": None, "spots": {}, "text": "", "words": ""}
            return {**last, "spots": {}, "said": list(said), "turn": []}
        seat = None if self.over else self.person
        before, self._scene = self._scene, self._game.scene(0, seat)
        titles = self._titles
        turn = [titles[s] for s in sorted({int(s) for block in self._blocks for s in block.seat})]
        return frame(self._game, self._scene, before, seat, titles, said, turn, view=self.person)

    def _offer(self) -> dict[str, Any] | None:
        """Return the person's legal actions, if one is due."""
        block = self._persons()
        if block is None or self.person is None:
            return None
        spec = self._game.action_specs[self.person]
        if spec.kind == "discrete":
            legal = np.flatnonzero(block.mask[0]).tolist()
            named = [{"action": a, "name": self._game.action_name(0, self.person, a)} for a in legal]
            return {
                "moves": named[:MOST_BUTTONS],
                "more": len(legal) > MOST_BUTTONS,
                "numbers": 1,
                "help": "",
            }
        text = choices(spec, block.mask[0])
        return {"moves": [], "more": True, "numbers": spec.shape[0], "help": text}


def _rows(block: Decisions, rows: npt.NDArray | slice) -> Decisions:
    return Decisions(block.slot[rows], block.seat[rows], block.observation[rows], block.mask[rows])


def _row(block: Decisions, row: int) -> Decisions:
    return _rows(block, slice(row, row + 1))
