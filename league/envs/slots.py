"""Games with a Python object for each match: one in each slot, stepped one by one.

An adapter writes the state of its matches into arrays with a row for each slot, so that callers see
one batched game. An exception in a match ends that match alone, with the reason CRASH: its object is
discarded, and the slot is free for the next match.

With `threads`, matches are stepped independently: a slow step delays its own match only. This pays
for games that wait (for a simulator, a server) or compute outside of Python. The rules of a match do
not depend on it. But it changes which decisions are due together, and so the order in which policies
draw actions: a run with threads does not repeat by its seed.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Transition
from league.envs.trial.blame import cause_of
from league.import_paths import RAISED
from league.interrupts import stopping
from storage.arrays import Bools, Indices
from storage.records import EndReason

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.002  # wait for further matches once one is ready: batches get larger
LOOK_SECONDS = 0.5  # between two looks at Ctrl-C, while no match is ready
MOST_THREADS = 1024  # of one game; each has a stack of its own
MOST_CAUSES = 8  # of crashes that are counted apart


class SlotGame(BatchedGame):
    """Game with one Python object per slot. An adapter implements `_make`, `_begin` and `_advance`.

    `_begin` and `_advance` write the rows of their slot in these arrays, and no other rows:

    seen      by seat, then by part ("" for a Box): the observation now, [num_slots, *part.shape]
    mask      by seat: the legal actions, [num_slots, mask_width]; all `True` until written
    acting    [num_slots, num_seats]: the seats that must act next
    gained    [num_slots, num_seats]: rewards of this step
    finished  [num_slots]: the match is over
    cut       [num_slots]: the match is over because its own time ran out
    ended, cut_short    [num_slots, num_seats]: of a game in which seats end one by one, those that have
              ended, and those of them that were truncated
    """

    _authors: tuple[type, ...] = ()  # the classes of a library's envs, if the game has any

    def __init__(self, num_slots: int, *, step_limit: int | None = None, threads: int = 0) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        if not isinstance(threads, int) or threads < 0:
            raise ValueError(f"{self.id}: threads is {threads!r}, expected a whole number, at least 0")
        if threads > MOST_THREADS:
            raise ValueError(f"{self.id}: threads is {threads:,}, expected at most {MOST_THREADS:,}")
        self._make_rows()
        shape = (num_slots, self.num_seats)
        self.acting = np.zeros(shape, dtype=np.bool_)
        self.gained = np.zeros(shape, dtype=np.float32)
        self.finished = np.zeros(num_slots, dtype=np.bool_)
        self.cut = np.zeros(num_slots, dtype=np.bool_)
        self.ended, self.cut_short = np.zeros((2, *shape), dtype=np.bool_)
        self._crash = np.zeros(num_slots, dtype=np.bool_)
        self._moved = np.zeros(num_slots, dtype=np.bool_)  # has an event that no step has reported
        self._matches: dict[int, Any] = {}
        self.crashes: Counter[str] = Counter()  # number of crashed matches by cause, until it is cleared
        self._reported: set[type[BaseException]] = set()
        self._counting = threading.Lock()  # matches step in several threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=self.id) if threads else None
        self._under_way: dict[Future[None], int] = {}
        self._submitted: list[Future[None]] = []  # since the last step

    def _make_rows(self) -> None:
        """Make the arrays. Seats with the same spaces have views of one, [num_slots, num_seats, ...]."""
        sharers = self.num_seats if self.shared_spaces else 1
        observations = self.observation_spaces[: self.num_seats // sharers]
        self._seen = [
            {
                name: np.zeros((self.num_slots, sharers, *(part.shape or ())), dtype=part.dtype)
                for name, part in (getattr(space, "spaces", None) or {"": space}).items()
            }
            for space in observations
        ]
        self._mask = [
            np.ones((self.num_slots, sharers, spec.mask_width), dtype=np.bool_)
            for spec in self.action_specs[: self.num_seats // sharers]
        ]
        places = [(0, seat) if self.shared_spaces else (seat, 0) for seat in range(self.num_seats)]
        self.seen = [{name: rows[:, at] for name, rows in self._seen[of].items()} for of, at in places]
        self.mask = [self._mask[of][:, at] for of, at in places]

    # ------------------------------------------------------------------ what an adapter implements

    @abstractmethod
    def _make(self) -> Any:
        """Return a new object for a slot: for its first match, and for the next one after a crash."""

    @abstractmethod
    def _begin(self, match: Any, slot: int, seed: int) -> None:
        """Start a match, with chance drawn from `seed` alone: write `seen`, `mask`, `acting`."""

    @abstractmethod
    def _advance(self, match: Any, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        """Apply the legal actions of these seats, each an int or an array.

        Write `gained`, `acting` (all `False` before), and what changed of `seen`, `mask`, `finished`, `cut`.
        """

    def _refresh(self, match: Any, slot: int) -> None:
        """Write what all seats see in a truncated match; otherwise their last observations stay."""

    def _discard(self, match: Any) -> None:
        """Release an object that raised."""

    def authors(self) -> tuple[type, ...]:
        """Return the classes with the code of the game, to name its file and line where it raises."""
        return self._authors or (type(self),)

    # ------------------------------------------------------------------ the batched game

    def native(self, slot: int) -> Any:
        return self._matches[slot]

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray | Mapping[str, npt.NDArray]:
        of, at = self._place(seat)
        seen = {name: rows[slot, at] for name, rows in self._seen[of].items()}
        return seen if self.observation_specs[of].parts else seen[""]

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        of, at = self._place(seat)
        return self._mask[of][slot, at]

    def was_cut(self, slot: Indices, seat: Indices) -> Bools:
        return self.cut_short[slot, seat] | ~self.ended[slot, seat]

    def _place(self, seat: Indices) -> tuple[int, Any]:
        """Return the index of the array that holds the rows of these seats, and their places in it."""
        return (0, seat) if self.shared_spaces else (int(seat[0]) if len(seat) else 0, 0)

    def step(self, actions: Sequence[npt.NDArray]) -> Transition:
        transition = super().step(actions)
        for slot in transition.ended[transition.truncated].tolist():
            if slot in self._matches:  # else it crashed
                try:
                    self._refresh(self._matches[slot], slot)
                except RAISED as error:  # the last observations stay
                    self._crashed(slot, error)
        return transition

    def abandon(self, slots: Indices) -> None:
        self._settle_steps(slots)
        self.pending[slots] = self._moved[slots] = False
        super().abandon(slots)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._settle_steps(slots)
        for array in (self.acting, self.gained, self.finished, self.cut, self.ended, self.cut_short):
            array[slots] = 0
        self._crash[slots] = self._moved[slots] = False
        self._start_all(slots, seeds)

    def _start_all(self, slots: Indices, seeds: Indices) -> None:
        for slot, seed in zip(slots.tolist(), seeds.tolist(), strict=True):
            self._do(slot, self._start, seed)
        if self._pool is None:
            self._moved[slots] = self._crash[slots]

    def _turn(self) -> tuple[Indices, Indices]:
        ready = self.active & ~self.pending & ~self._moved
        slot, seat = np.nonzero(self.acting & ready[:, None])
        return slot, seat

    def _play(self, slot: Indices, seat: Indices, action: npt.NDArray) -> None:
        self.acting[slot] = False
        for place, seats, actions in _by_slot(slot, seat, action):
            self._do(place, self._move, seats, actions)
        self._moved[slot] = True
        if self._under_way:
            self._gather()
        self._report(np.flatnonzero(self._moved & ~self.pending))

    def _report(self, slots: Indices) -> None:
        """Move what happened in these slots into the arrays of this step."""
        self._moved[slots] = False
        self._rewards[slots] = self.gained[slots]
        self.gained[slots] = 0.0
        self._over[slots] = self.finished[slots] | self._crash[slots]
        self._truncated[slots] = (self.finished[slots] & self.cut[slots]) | self._crash[slots]
        self._reason[slots[self._truncated[slots]]] = EndReason.STEP_LIMIT
        # the rest of a crashed match is unknown, so it counts as truncated after its last step
        self._reason[slots[self._crash[slots]]] = EndReason.CRASH

    # ------------------------------------------------------------------ one match

    def _do(self, slot: int, what: Callable[..., None], *arguments: Any) -> None:
        if self._pool is None:
            what(slot, *arguments)
            return
        self.pending[slot] = True
        future = self._pool.submit(what, slot, *arguments)
        self._under_way[future] = slot
        self._submitted.append(future)

    def _start(self, slot: int, seed: int) -> None:
        try:
            if slot not in self._matches:
                self._matches[slot] = self._make()
            self._begin(self._matches[slot], slot, seed)
        except RAISED as error:  # an error in a match ends this match, not the run
            self._crashed(slot, error)

    def _move(self, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        try:
            self._advance(self._matches[slot], slot, seats, actions)
        except RAISED as error:  # as above
            self._crashed(slot, error, seats)

    def _crashed(self, slot: int, error: BaseException, seats: Sequence[int] = ()) -> None:
        """End the match in this slot, which raised `error` when `seats` acted, and discard its object."""
        self._crash[slot] = True
        self.gained[slot] = 0.0
        self.acting[slot] = False
        match = self._matches.pop(slot, None)
        if match is not None:
            with contextlib.suppress(*RAISED):  # the object is broken already
                self._discard(match)
        cause = cause_of(error, seats, self.authors())
        with self._counting:
            self.crashes[cause if len(self.crashes) < MOST_CAUSES or cause in self.crashes else "others"] += 1
            first = type(error) not in self._reported
            self._reported.add(type(error))
        if first:
            log.warning("%s: a match crashed (further ones like it are not named): %s", self.id, cause)
            log.debug("%s: the error of that match", self.id, exc_info=error)

    # ------------------------------------------------------------------ many matches, independently

    def _gather(self) -> None:
        """Wait until this step has an event to report, then GATHER_SECONDS for what it has submitted.

        Matches that were late in an earlier step get no extra time.
        """
        if not (self._over | (self._moved & ~self.pending)).any():
            while not wait(self._under_way, LOOK_SECONDS, FIRST_COMPLETED).done and not stopping():
                pass
        wait(self._submitted, timeout=GATHER_SECONDS)
        self._submitted = []
        self._settle([future for future in self._under_way if future.done()])

    def _settle_steps(self, slots: Indices) -> None:
        """Wait for the pending steps of these slots."""
        if self.pending[slots].any():
            theirs = [future for future, slot in self._under_way.items() if slot in slots]
            self._settle(wait(theirs).done)

    def _settle(self, done: Iterable[Future[None]]) -> None:
        for future in done:
            future.result()
            slot = self._under_way.pop(future)
            self.pending[slot] = False
            self._moved[slot] = True


def _by_slot(slot: Indices, seat: Indices, action: npt.NDArray) -> Iterator[tuple[int, list[int], list[Any]]]:
    """Yield for each slot its seats and their actions: ints, or arrays."""
    seats, actions = seat.tolist(), action.tolist() if action.ndim == 1 else list(action)
    starts = np.flatnonzero(np.diff(slot, prepend=-1)).tolist()
    for start, end in itertools.pairwise([*starts, len(seats)]):
        yield int(slot[start]), seats[start:end], actions[start:end]
