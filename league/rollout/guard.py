"""Guard: a game that raises, or answers what cannot be used, ends its matches as crashes, each with a cause.

A game with an object for each match contains its errors itself (`SlotGame`). In any other game a step is one
call for all matches, so its error ends all that are active. A reward that is no number, an observation that
holds NaN, and a mask without a legal action end the match that they belong to. So one broken rule costs
matches, and is counted; above a share of all matches it ends the run
(`league.training.incidents.incident_log`).

Patience ends a request that goes on for too long after the process was asked to end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions, Transition
from league.envs.slots import SlotGame
from league.envs.trial.blame import cause_of, defined_at, of_seats
from league.envs.trial.promises import NO_TURN, SEEN, Broken, has_choice, of_masks, of_rewards
from league.import_paths import RAISED
from league.interrupts import stopping
from storage.arrays import Bools, Indices
from storage.records import EndReason

GRACE_SECONDS = 1.0  # for whole matches to be finished after Ctrl-C, or after the end of the run


class Guard:
    """A game as it is played, with the crashes that it caused by cause."""

    def __init__(self, game: BatchedGame) -> None:
        self.crashes: Counter[str] = Counter()
        self._game = game
        self._by_object = isinstance(game, SlotGame)
        self._authors = game.authors() if isinstance(game, SlotGame) else (type(game),)
        self._crashed = np.zeros(game.num_slots, dtype=np.bool_)  # since the last step

    @property
    def playing(self) -> bool:
        """Whether a match is active, or has an end that no step has reported."""
        return bool(self._game.active.any() or self._crashed.any())

    def reset(self, slots: Indices, seeds: Indices) -> None:
        """Start matches, as `BatchedGame.reset` does."""
        self._crashed[slots] = False
        try:
            self._game.reset(slots, seeds)
        except RAISED as error:
            self._all_crashed(error)

    def due(self) -> list[Decisions]:
        """Return the decisions that are due, as `BatchedGame.due` does, all with a legal action."""
        game = self._game
        while game.active.any():
            try:
                blocks = game.due()
                if not (blocks or self._by_object or game.pending.any()):
                    raise ValueError(NO_TURN.found)
                found = [self._broken(block) for block in blocks]
            except RAISED as error:
                self._all_crashed(error)
                return []
            if not any(wrong.any() for wrong, _ in found):
                return blocks
            for block, (wrong, broken) in zip(blocks, found, strict=True):
                if wrong.any():
                    self._end(block.slot[wrong], block.seat[wrong], broken)
        return []

    def _broken(self, block: Decisions) -> tuple[Bools, Broken | None]:
        """Return of which decisions [n] a promise is broken that play cannot do without, and how."""
        n, seat, seen, mask = len(block), int(block.seat[0]), block.observation, block.mask
        shown, spec = self._game.observation_specs[seat], self._game.action_specs[seat]
        if seen.shape != (n, *shown.shape):
            found = f"observations are shaped {seen.shape}, expected {(n, *shown.shape)}"
            return np.ones(n, np.bool_), Broken(found, (seat,), SEEN)
        if mask.shape != (n, spec.mask_width):
            return np.ones(n, np.bool_), of_masks(spec, n, mask, seat)
        if seen.dtype.kind == "f" and np.isnan(np.minimum.reduce(seen, axis=None)):
            wrong = np.isnan(seen).reshape(n, -1).any(axis=1)
            return wrong, Broken("an observation holds nan, expected numbers", (seat,), SEEN)
        empty = ~np.logical_and.reduce(has_choice(spec, mask), axis=1)
        return empty, of_masks(spec, n, mask, seat) if empty.any() else None

    def step(self, blocks: Sequence[Decisions], actions: Sequence[npt.NDArray]) -> Transition:
        """Take actions, as `BatchedGame.step` does; what crashed since the last step has ended, too."""
        game = self._game
        transition: Transition | None = None
        if game.active.any():
            try:
                transition = game.step(actions)
                self._end_unpaid(transition)
            except RAISED as error:
                transition = None
                self._all_crashed(error, {int(seat) for block in blocks for seat in block.seat})
        if transition is not None and not self._crashed.any():
            return transition
        return self._with_crashes(transition)

    def crashed(self) -> Transition:
        """Return the ends of the matches that crashed since the last step."""
        return self._with_crashes(None)

    def take_crashes(self) -> dict[str, int]:
        """Return the number of crashes by cause since the last call."""
        if isinstance(self._game, SlotGame):
            self.crashes.update(self._game.crashes)
            self._game.crashes.clear()
        found = dict(self.crashes)
        self.crashes.clear()
        return found

    # ------------------------------------------------------------------ what crashes

    def _end_unpaid(self, transition: Transition) -> None:
        """End the matches in which a reward is no finite number."""
        rewards = transition.rewards
        with np.errstate(invalid="ignore", over="ignore"):
            if np.isfinite(np.add.reduce(rewards, axis=None)):
                return
        broken = of_rewards(rewards, (self._game.num_slots, self._game.num_seats))
        slot, seat = np.nonzero(~np.isfinite(rewards))
        if len(slot):
            rewards[slot] = 0.0
            self._end(slot, seat, broken)

    def _end(self, slot: Indices, seat: Indices, broken: Broken | None) -> None:
        """End the matches in these slots [n], in which a promise to these seats [n] is `broken`."""
        assert broken is not None
        slots, first = np.unique(slot, return_index=True)
        place = defined_at(self._authors, *broken.methods)
        for own in seat[first].tolist():
            self.crashes[f"{of_seats([own])}{broken.found}{place}"] += 1
        self._crashed[slots] = True
        self._abandon(slots[self._game.active[slots]])

    def _all_crashed(self, error: BaseException, seats: set[int] | None = None) -> None:
        """End all active matches: the state of their game is unknown after this error."""
        slots = np.flatnonzero(self._game.active)
        self.crashes[cause_of(error, seats or (), self._authors)] += len(slots)
        self._crashed[slots] = True
        self._abandon(slots)

    def _abandon(self, slots: Indices) -> None:
        try:
            self._game.abandon(slots)
        except RAISED:  # of a game that is broken already
            BatchedGame.abandon(self._game, slots)

    def _with_crashes(self, transition: Transition | None) -> Transition:
        """Return the transition with the matches that crashed among those that ended.

        They count as terminated, not as truncated: what their seats would see next is not asked for.
        """
        game, crashed = self._game, self._crashed
        ended, truncated, reason = (
            crashed.copy(),
            np.zeros(len(crashed), np.bool_),
            np.zeros(len(crashed), np.int8),
        )
        forfeited = np.zeros((len(crashed), game.num_seats), np.bool_)
        rewards = np.zeros((len(crashed), game.num_seats), np.float32)
        if transition is not None:
            ended[transition.ended] = True
            truncated[transition.ended] = transition.truncated
            reason[transition.ended] = transition.reason
            forfeited[transition.ended] = transition.forfeited
            rewards = np.where(crashed[:, None], np.float32(0), transition.rewards)
        truncated[crashed] = forfeited[crashed] = False
        reason[crashed] = EndReason.CRASH
        self._crashed = np.zeros_like(crashed)
        slots = np.flatnonzero(ended)
        return Transition(rewards, slots, truncated[slots], reason[slots], forfeited[slots])


class PlayStopped(Exception):
    """A request was left unfinished, because the process was asked to end; its matches are dropped."""


class Patience:
    """Look at Ctrl-C and at the end of the run while matches are played, at every step.

    `overdue(steps)`: whether the run has ended, after so many steps of this request.
    """

    def __init__(self, overdue: Callable[[int], bool] | None = None) -> None:
        self._overdue = overdue
        self._since: float | None = None
        self._steps = 0

    def ended(self, *, cut: bool) -> bool:
        """Return whether to end this request here, which may be where its matches are `cut`.

        Whole matches go on for GRACE_SECONDS; raise PlayStopped if they must be left then.
        """
        self._steps += 1
        if not (stopping() or (self._overdue is not None and self._overdue(self._steps))):
            return False
        if cut:
            return True
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > GRACE_SECONDS:
            raise PlayStopped
        return False
