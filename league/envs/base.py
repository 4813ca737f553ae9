"""The batched game interface: N matches at once, turn-based or simultaneous, any number of seats.

A slot is a place for one match. This is how a game is played:

    game.reset(slots, seeds)                    start matches in some slots
    while game.active.any():
        blocks = game.due()                     which (slot, seat) must act now, and what each sees
        transition = game.step([choose(b) for b in blocks])
        ... transition.ended names the slots that are free again: reset them or leave them free

To write a game, derive from `BatchedGame`, declare `id`, `num_seats` and the spaces of each seat, and
implement five methods:

    _reset(slots, seeds)        start matches
    _turn()                     name the seats that must act now
    observe(slot, seat)         return what they see
    legal(slot, seat)           return which actions they may take
    _play(slot, seat, action)   apply their actions, write rewards, mark finished matches

`games/tic_tac_toe.py` is a short example, and `league envs check module:Class` tests a game. The base
class does what is the same for all games: active slots, step limits, and forfeits for illegal actions.

A seat sees a Box, or a Dict of Boxes that is packed into one row. It acts in a Discrete space (one
choice), a MultiDiscrete space (several choices at once), a flat Box (real numbers), or a Tuple or Dict of
these: one row, the choices first. Seats may differ in both.

A game may step its matches independently of one another. While the last step of a match has not
finished, the match is `pending`: it is active, but none of its seats is due.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
import numpy.typing as npt

from league.envs.scene import Scene
from league.envs.spaces import ActionSpec, ObservationSpec, pack
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.records import EndReason

_ARRAYS_BY_SLOT = (
    "active",
    "env_steps",
    "pending",
    "_rewards",
    "_returns",
    "_over",
    "_truncated",
    "_reason",
    "_forfeited",
    "_gave_up",
)
MOST_SEATS = 127  # whose numbers fit into the one byte of a record
BOUND_TOLERANCE = 1e-6  # a real number may miss its bounds by this much, relative to a bound above 1


@dataclass(frozen=True, slots=True)
class Decisions:
    """The n decisions that are due, of seats with the same spaces. Valid until the next `step`."""

    slot: Indices  # [n]
    seat: Indices  # [n]
    observation: npt.NDArray  # [n, *observation_spec.shape]
    mask: Bools  # [n, action_spec.mask_width]; at least one True for each choice

    def __len__(self) -> int:
        return len(self.slot)


@dataclass(frozen=True, slots=True)
class Transition:
    """The result of one step. The arrays are buffers of the game: valid until the next `step`."""

    rewards: Floats32  # [num_slots, num_seats]: rewards of this step
    ended: Indices  # [k] slots in which a match ended, in ascending order
    truncated: Bools  # [k]: cut short rather than terminated; see `was_cut` for each seat
    reason: npt.NDArray[np.int8]  # [k], values of EndReason
    forfeited: Bools  # [k, num_seats]: seats that forfeited


class BatchedGame(ABC):
    """Matches of one game in `num_slots` slots, stepped together.

    `step_limit`: number of decisions after which a match is truncated; `None`: no limit. The constructor
    of a game takes both, and its own options by keyword: those are `env.options` in a config.

    A game sets the attributes below before it calls this constructor; the first four are required.
    `active`, `pending` (bool) and `env_steps` (decisions so far) are arrays [num_slots].
    """

    id: ClassVar[str]
    num_seats: int
    observation_spaces: tuple[gymnasium.Space[Any], ...]  # one per seat
    action_spaces: tuple[gymnasium.Space[Any], ...]  # one per seat
    loss_reward: float = -1.0  # the lowest return that a seat can get, and the return of a forfeit
    draw_possible: bool = True  # whether all seats may get the same return
    draw_margin: float = 0.0  # returns this close are equal, where they are measured rather than counted
    # The least and the greatest return of a seat, of a game that pays more or less than won, drawn and lost:
    # then payoffs count returns. `score_unit` is a lead per game that is as good as a certain win, such as an
    # ante (`None`: half of what is between the bounds).
    score_bounds: tuple[float, float] | None = None
    score_unit: float | None = None
    teams: tuple[int, ...] | None = None  # number of seats in each team, in seat order; `None`: no teams
    renders: bool = False  # whether `render` works
    open_actions: bool = False  # whether all seats see every action as soon as it was taken
    open_state: bool = False  # whether every seat sees everything; actions are then open too
    match_arrays: tuple[str, ...] | None = None  # names of the arrays by slot with all state, for `copies`

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        if num_slots < 1:
            raise ValueError(f"{self.id}: num_slots is {num_slots}, expected at least 1")
        if step_limit is not None and step_limit < 1:
            raise ValueError(f"{self.id}: step_limit is {step_limit}, expected at least 1, or none")
        if fault := self._fault_of_declarations():
            raise ValueError(f"{self.id}: {fault}")
        self.num_slots = num_slots
        self.step_limit = step_limit
        self.active = np.zeros(num_slots, dtype=np.bool_)
        self.env_steps = np.zeros(num_slots, dtype=np.int32)
        self.shared_spaces = all(o == self.observation_spaces[0] for o in self.observation_spaces) and all(
            a == self.action_spaces[0] for a in self.action_spaces
        )
        try:
            self.observation_specs = tuple(ObservationSpec.from_space(o) for o in self.observation_spaces)
            self.action_specs = tuple(ActionSpec.from_space(a) for a in self.action_spaces)
        except ValueError as error:
            raise ValueError(f"{self.id}: {error}") from None
        self.mixed_actions = len({(a.kind, a.shape) for a in self.action_specs}) > 1
        self.pending = np.zeros(num_slots, dtype=np.bool_)
        self._shows_parts = any(o.parts for o in self.observation_specs)
        self._due: list[Decisions] | None = None  # `None`: `due` was not called since the last step or reset
        self._rewards = np.zeros((num_slots, self.num_seats), dtype=np.float32)
        self._returns = np.zeros((num_slots, self.num_seats), dtype=np.float32)  # of the match so far
        self._over = np.zeros(num_slots, dtype=np.bool_)
        self._truncated = np.zeros(num_slots, dtype=np.bool_)
        self._reason = np.zeros(num_slots, dtype=np.int8)
        self._forfeited = np.zeros((num_slots, self.num_seats), dtype=np.bool_)
        self._gave_up = np.zeros((num_slots, self.num_seats), dtype=np.int8)  # reasons, for the next step

    def _fault_of_declarations(self) -> str:
        """Return what does not fit together in what the game declares; "" if everything does."""
        if not isinstance(self.num_seats, int | np.integer) or not 1 <= self.num_seats <= MOST_SEATS:
            return f"num_seats is {self.num_seats!r}, expected a whole number from 1 to {MOST_SEATS}"
        for name in ("observation_spaces", "action_spaces"):
            found = len(getattr(self, name))
            if found != self.num_seats:
                return f"{found} {name} for {self.num_seats} seats"
        if self.teams is not None and (min(self.teams) < 1 or sum(self.teams) != self.num_seats):
            return f"teams are {self.teams}, expected sizes of at least 1 that sum to {self.num_seats} seats"
        if not np.isfinite(self.loss_reward):
            return f"loss_reward is {self.loss_reward}, expected a finite number"
        low, high = self.score_bounds or (-1.0, 1.0)
        if not (np.isfinite([low, high]).all() and low < high):
            return f"score_bounds are {self.score_bounds}, expected finite numbers, the lower one first"
        if self.score_unit is not None and (self.score_bounds is None or not self.score_unit > 0.0):
            return f"score_unit is {self.score_unit}, with score_bounds {self.score_bounds}"
        return ""

    @property
    def most_lead(self) -> float | None:
        """Most that a seat's score can be above even: half of what is between `score_bounds`, or `None`."""
        return None if self.score_bounds is None else (self.score_bounds[1] - self.score_bounds[0]) / 2.0

    def reset(self, slots: Indices, seeds: Indices) -> None:
        """Start a new match in each of `slots` [k]. Chance events depend on `seeds` [k] alone.

        A match that is still active in one of these slots is abandoned. Call `due` before the next `step`.
        """
        self._reopen(slots)
        self._reset(slots, seeds)

    def abandon(self, slots: Indices) -> None:
        """Free these slots [k]; their matches end without a result."""
        self.active[slots] = False
        self._due = None

    def starts(self) -> Floats | None:
        """Return the probabilities [k] of the initial states; [1.0] for a game without chance.

        Return `None` if chance acts later than the start, or if there are too many initial states.
        """
        return None

    def start_at(self, slots: Indices, start: Indices) -> None:
        """Start a match in each of `slots` [k] as `reset` does, but in initial state number `start` [k]."""
        self._reopen(slots)
        self._start_at(slots, start)

    def copies(self, slots: Indices) -> Self:
        """Return a game with n slots that hold copies of the matches in `slots` [n].

        Raise ValueError if the game has no `match_arrays`.
        """
        if self.match_arrays is None:
            raise ValueError(f"{self.id}: its matches cannot be copied")
        other = copy.copy(self)
        other.num_slots = len(slots)
        other._due = None
        for name in (*_ARRAYS_BY_SLOT, *self.match_arrays):
            setattr(other, name, getattr(self, name)[slots])
        return other

    def _reopen(self, slots: Indices) -> None:
        self.active[slots] = True
        self.env_steps[slots] = 0
        self._returns[slots] = 0.0
        self._gave_up[slots] = 0
        self._due = None

    def due(self) -> list[Decisions]:
        """Return all decisions that must be taken now, in blocks of seats with the same spaces.

        The list may be empty while matches are active: their steps are pending, or a match crashed
        before its first decision. Then call `step([])`.
        """
        slot, seat = self._turn()
        if self.shared_spaces:
            groups = [(slot, seat)] if len(slot) else []
        else:
            groups = [(slot[seat == s], seat[seat == s]) for s in range(self.num_seats) if (seat == s).any()]
        self._due = [Decisions(i, s, self.look(i, s), self.legal(i, s)) for i, s in groups]
        return self._due

    def look(self, slot: Indices, seat: Indices) -> npt.NDArray:
        """Return what these seats see now as one array [n, *observation_spec.shape]: `observe`, packed."""
        observation = self.observe(slot, seat)
        if self._shows_parts and isinstance(observation, Mapping):
            return pack(observation, self.observation_specs[int(seat[0]) if len(seat) else 0])
        return observation  # type: ignore[return-value]  # only dict spaces have parts

    def step(self, actions: Sequence[npt.NDArray]) -> Transition:
        """Take one action for each decision of the last `due`, block by block: [n, *action_spec.shape].

        An illegal action is not an error: it ends the match, and the return of its seat is `loss_reward`.
        Raise ValueError if the shapes of `actions` do not match the decisions that are due.
        """
        blocks = self._due
        if blocks is None or not (blocks or self.active.any()):
            raise ValueError(f"{self.id}: no decisions are open; call due() before every step()")
        found = [np.shape(a) for a in actions]
        expected = [b.slot.shape + self._spec(b).shape for b in blocks]
        if found != expected:
            raise ValueError(f"{self.id}: actions are shaped {found}, the due decisions {expected}")
        if len(blocks) == 1 and not self.mixed_actions:
            slot, seat = blocks[0].slot, blocks[0].seat
            action, allowed = self._read(blocks[0], actions[0])
        else:
            slot, seat, action, allowed = self._together(blocks, actions)
        self.env_steps += np.bincount(slot, minlength=self.num_slots).astype(np.int32)
        self._rewards.fill(0.0)
        self._over.fill(False)
        self._reason.fill(EndReason.FINISHED)
        self._forfeited.fill(False)
        self._truncated.fill(False)
        if not allowed.all():
            self._forfeit(slot[~allowed], seat[~allowed])
            plays_on = ~self._over[slot]
            slot, seat, action = slot[plays_on], seat[plays_on], action[plays_on]
        if len(slot) or not blocks or self.pending.any():
            self._play(slot, seat, action)
        self._returns += self._rewards
        if self.step_limit is not None:
            late = self.active & ~self._over & ~self.pending & (self.env_steps >= self.step_limit)
            self._over |= late
            self._truncated |= late
            self._reason[late] = EndReason.STEP_LIMIT
        ended = np.flatnonzero(self._over & self.active)  # a game may mark slots without a match, too
        self.active[ended] = False
        self._gave_up.fill(0)
        self._due = None
        return Transition(
            self._rewards, ended, self._truncated[ended], self._reason[ended], self._forfeited[ended]
        )

    def give_up(self, slot: Indices, seat: Indices, reason: npt.NDArray) -> None:
        """Have illegal actions of these seats [n] in the next step end their matches with `reason` [n]."""
        self._gave_up[slot, seat] = reason

    def _spec(self, block: Decisions) -> ActionSpec:
        return self.action_specs[0 if self.shared_spaces else int(block.seat[0])]

    def _together(
        self, blocks: Sequence[Decisions], actions: Sequence[npt.NDArray]
    ) -> tuple[Indices, Indices, npt.NDArray, Bools]:
        """Return slots, seats, actions and legality [n each] of several blocks, by slot, then seat."""
        nothing = np.zeros(0, dtype=np.int64)
        slot = np.concatenate([nothing, *(b.slot for b in blocks)])
        seat = np.concatenate([nothing, *(b.seat for b in blocks)])
        read = [self._read(b, a) for b, a in zip(blocks, actions, strict=True)]
        allowed = np.concatenate([np.zeros(0, dtype=np.bool_), *(legal for _, legal in read)])
        if self.mixed_actions or not blocks:
            action = np.empty(len(slot), dtype=object)
            for row, own in enumerate(own for taken, _ in read for own in taken):
                action[row] = own
        else:
            action = np.concatenate([taken for taken, _ in read])
        order = np.lexsort((seat, slot))
        return slot[order], seat[order], action[order], allowed[order]

    def _read(self, block: Decisions, action: npt.NDArray) -> tuple[npt.NDArray, Bools]:
        """Return the actions with the game's dtype and within bounds, and which of them are legal [n]."""
        spec = self._spec(block)
        action = np.asarray(action, dtype=spec.dtype)
        return spec.clipped(action), is_legal(spec, block.mask, action)

    def was_cut(self, slot: Indices, seat: Indices) -> Bools:
        """Return for n seats of matches that were just truncated whether they were still playing [n].

        `False`: the seat had ended before, in a game in which seats end one by one; it was terminated.
        """
        return np.ones(len(slot), dtype=np.bool_)

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the match as text, as `seat` may see it (`None`: everything).

        Raise ValueError unless the game `renders`.
        """
        raise ValueError(f"{self.id}: a match cannot be shown as text")

    def scene(self, slot: int, seat: int | None = None) -> Scene | None:
        """Return the match as a scene that can be drawn, as `seat` may see it (`None`: everything).

        Return `None` if the game is not drawn.
        """
        return None

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return the name of `action` for people, in the present state of this match."""
        return " ".join(f"{number:g}" for number in np.atleast_1d(action))

    def native(self, slot: int) -> Any:
        """Return the object of a library behind a match, for bots that search in it.

        Raise ValueError if the game has no such objects.
        """
        raise ValueError(f"{self.id}: a match has no object of its own")

    def _forfeit(self, slot: Indices, seat: Indices) -> None:
        """End the matches in which these seats [n] acted illegally.

        The return of such a seat and its team becomes `loss_reward`, whatever their rewards before. The
        other seats share what these lose.
        """
        self._forfeited[slot, seat] = True
        lost = self._forfeited[slot]
        if self.teams is not None:
            team = np.repeat(np.arange(len(self.teams)), self.teams)
            lost = lost @ (team[:, None] == team)
        offenders = lost.sum(axis=1, keepdims=True)
        others = np.maximum(self.num_seats - offenders, 1)
        returns = np.where(lost, self.loss_reward, -self.loss_reward * offenders / others)
        self._rewards[slot] = returns - self._returns[slot]
        self._over[slot] = True
        reason = np.where(self._forfeited, self._gave_up, 0).max(axis=1)
        self._reason[slot] = np.maximum(reason, EndReason.ILLEGAL_ACTION)[slot]

    @abstractmethod
    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray | Mapping[str, npt.NDArray]:
        """Return what these n seats see now: [n, *shape], or for a Dict space the parts by name.

        All seats of one call have the same observation space. The call must also work for seats that need
        not act, and for matches that were just truncated: their values are estimated from what they see.
        """

    @abstractmethod
    def legal(self, slot: Indices, seat: Indices) -> Bools:
        """Return which actions these n seats may take now, at least one for each choice.

        Discrete: [n, num_actions]. MultiDiscrete, Tuple, Dict: all choices side by side, [n, sum of their
        sizes]; every combination of legal choices is legal. Box: [n, 0].
        """

    @abstractmethod
    def _reset(self, slots: Indices, seeds: Indices) -> None:
        """Write the initial state of a match into each of `slots` [k], with chance drawn from `seeds` [k]."""

    def _start_at(self, slots: Indices, start: Indices) -> None:
        """Write initial state number `start` [k] into `slots` [k]. Override it if there are several."""
        self._reset(slots, start)

    @abstractmethod
    def _turn(self) -> tuple[Indices, Indices]:
        """Return slot and seat [n each] of every decision due in active slots, ordered by slot, then seat."""

    @abstractmethod
    def _play(self, slot: Indices, seat: Indices, action: npt.NDArray) -> None:
        """Apply legal actions [n, *shape], ordered by slot, then seat; all that are due in a slot at once.

        If seats differ in the kind or shape of actions (`mixed_actions`), `action` is an object array [n].

        Write `self._rewards[slot, seat]` (all zero before) for every seat that gained or lost, and mark
        finished slots in `self._over`. `self.env_steps` already counts these actions. A game with its own
        time limit also marks the matches that it cuts in `self._truncated`, with the reason STEP_LIMIT. If
        a match cannot go on, the reason is CRASH.
        """


def is_legal(spec: ActionSpec, mask: Bools, action: npt.NDArray) -> Bools:
    """Return which of the actions [n, *shape] are legal [n], by the masks [n, mask_width]."""
    if spec.kind == "discrete":
        inside = (action >= 0) & (action < mask.shape[1])
        return inside & mask[np.arange(len(action)), np.where(inside, action, 0)]
    k, sizes = len(spec.sizes), np.array(spec.sizes, dtype=np.int64)
    choices, numbers = action[:, :k], action[:, k:]
    legal = np.ones(len(action), dtype=np.bool_)
    if k:
        inside = (choices >= 0) & (choices < sizes)  # `False` for NaN
        if spec.low:
            inside &= choices == np.floor(choices)
        column = np.where(inside, choices, 0).astype(np.int64) + np.cumsum(sizes) - sizes
        legal &= np.logical_and.reduce(inside & np.take_along_axis(mask, column, axis=1), axis=1)
    if spec.low:
        low, high = np.array(spec.low), np.array(spec.high)
        largest = np.where(np.isfinite([low, high]), np.abs([low, high]), 1.0).max(axis=0)
        slack = BOUND_TOLERANCE * np.maximum(1.0, largest)
        within = np.isfinite(numbers) & (numbers >= low - slack) & (numbers <= high + slack)
        legal &= np.logical_and.reduce(within, axis=1)
    return legal
