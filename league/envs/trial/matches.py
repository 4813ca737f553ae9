"""Trial of a game's matches through the batched interface: every answer is looked at before it is used."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict

from league.envs.base import BatchedGame, Decisions
from league.envs.slots import SlotGame
from league.envs.spaces import ActionSpec
from league.envs.trial.blame import defined_at, own_classes, place_of, sentence_of
from league.envs.trial.fault import Found, fault_of_values, shown

MOST_DECISIONS = 10_000  # of one match under random play; a longer one counts as endless
LOOKED_AT = 300  # steps of which every answer is looked at; then every SELDOM-th
SELDOM = 16
MOST_WAIT = 3.0  # of a game that waits, or of a busy machine
IDLE_STEPS = 3  # in a row in which nothing is due, nothing is pending, and nothing ends


@dataclass
class Account:
    """What was played in a trial."""

    ended: int = 0
    longest: int = 0  # decisions of one match
    scored: bool = False  # whether a seat got a reward other than 0


class Matches:
    """Matches of a game that are tried."""

    def __init__(self, game: BatchedGame, authors: tuple[type, ...]) -> None:
        """Try the matches of `game`, whose code is in the classes `authors`."""
        self.game = game
        self.authors = authors
        self.bounded = bool(own_classes(authors))  # bounds of library envs are often declared in vain

    def play(self, account: Account, first_seed: int, enough: Callable[[Account], bool]) -> None:
        """Play random legal matches until `enough` of them are played. Raise Found."""
        game, steps, idle = self.game, 0, 0
        seed, rng = first_seed, np.random.default_rng(first_seed)
        while not enough(account):
            fresh = np.flatnonzero(~game.active)
            if 2 * len(fresh) >= game.num_slots:  # some slots are empty for a while, as in training
                with self._caught("reset", (), "_reset"):
                    game.reset(fresh, seed + np.arange(len(fresh)))
                seed += len(fresh)
                self._expect_no_crash()
            if steps < LOOKED_AT or steps % SELDOM == 0:
                self._look_at_all()
            blocks = self._due()
            if not blocks and not game.pending.any() and not isinstance(game, SlotGame):
                raise Found("a match is active, but no seat has a turn", (), self._at("_turn", "_play"))
            actions = [_random_legal(game, block, rng) for block in blocks]
            waiting = bool(game.pending.any())
            try:
                transition = game.step(actions)
            except Exception as error:  # a user's game may raise anything
                acting = {int(seat) for block in blocks for seat in block.seat}
                raise self._found(error, "step", tuple(sorted(acting)), "_play") from error
            self._expect_no_crash()
            self._expect_rewards(transition.rewards)
            idle = idle + 1 if not (blocks or waiting or len(transition.ended)) else 0
            if idle >= IDLE_STEPS:
                raise Found("a match is active, but no seat has a turn", (), self._at("_turn", "step"))
            steps += 1
            account.ended += len(transition.ended)
            account.longest = max(account.longest, int(game.env_steps.max()))
            account.scored |= bool(transition.rewards.any())

    @contextlib.contextmanager
    def _caught(self, what: str, seats: tuple[int, ...], *methods: str) -> Iterator[None]:
        """Turn an error of the game into a fault with its place."""
        try:
            yield
        except Exception as error:  # a user's game may raise anything
            raise self._found(error, what, seats, *methods) from error

    def _found(self, error: Exception, what: str, seats: tuple[int, ...], *methods: str) -> Found:
        place = place_of(error, self.authors) or self._at(*methods)
        return Found(f"{sentence_of(error)}, in its {what}", seats, place)

    @functools.cache  # noqa: B019 - a trial is over in seconds
    def _at(self, *methods: str) -> str:
        return defined_at(self.authors, *methods)

    def _expect_no_crash(self) -> None:
        if isinstance(self.game, SlotGame) and self.game.crashes:
            raise Found(next(iter(self.game.crashes)))

    # ------------------------------------------------------------------ what the game answers

    def _look_at_all(self) -> None:
        """Look at whose turn it is, what these seats see, and what they may do."""
        game = self.game
        with self._caught("turn", (), "_turn"):
            turn = game._turn()
            if not isinstance(turn, tuple) or len(turn) != 2:
                raise ValueError(f"_turn returned {shown(turn)}, expected two arrays: slots and seats")
            slot, seat = (np.asarray(part) for part in turn)
        self._expect_turns(slot, seat)
        for own in range(game.num_seats):
            slots = slot[seat == own]
            if len(slots):
                seats = np.full(len(slots), own, dtype=np.int64)
                self._expect_seen(slots, seats, own)
                with self._caught("legal", (own,), "legal"):
                    mask = game.legal(slots, seats)
                self._expect_mask(mask, len(slots), own)

    def _expect_turns(self, slot: npt.NDArray, seat: npt.NDArray) -> None:
        game, at = self.game, self._at("_turn", "step")
        if slot.shape != seat.shape or slot.ndim != 1 or not _whole(slot) or not _whole(seat):
            found = f"{slot.dtype} {slot.shape} and {seat.dtype} {seat.shape}"
            raise Found(f"`_turn` returned arrays {found}, expected whole numbers [n] and [n]", (), at)
        for named, most in ((slot, game.num_slots), (seat, game.num_seats)):
            wrong = (named < 0) | (named >= most)
            if wrong.any():
                what = f"slot {slot[wrong][0]}" if named is slot else f"seat {seat[wrong][0]}"
                seats = () if named is seat else (int(seat[wrong][0]),)
                raise Found(f"a decision is due of {what}, but there are {most}, from 0", seats, at)
        idle = ~game.active[slot]
        if idle.any():
            seats = (int(seat[idle][0]),)
            raise Found("a decision is due in a match that is over, or that never began", seats, at)
        place = slot.astype(np.int64) * game.num_seats + seat
        unordered = np.flatnonzero(np.diff(place) <= 0)
        if len(unordered):
            seats = (int(seat[unordered[0] + 1]),)
            raise Found("decisions are not ordered by slot, then seat, each once", seats, at)

    def _expect_seen(self, slots: npt.NDArray, seats: npt.NDArray, own: int) -> None:
        game, at = self.game, self._at("observe", "step")
        with self._caught("observe", (own,), "observe"):
            seen = game.observe(slots, seats)
        space = game.observation_spaces[own]
        if not isinstance(space, Dict):
            parts = {"": (space, seen)}
        elif not isinstance(seen, dict) or set(seen) != set(space.spaces):
            found = sorted(seen) if isinstance(seen, dict) else type(seen).__name__
            raise Found(f"observations are {found}, expected a dict of {sorted(space.spaces)}", (own,), at)
        else:
            parts = {f" '{name}'": (part, seen[name]) for name, part in space.spaces.items()}
        for name, (part, values) in parts.items():
            shape = (len(slots), *(part.shape or ()))
            if not isinstance(values, np.ndarray):
                raise Found(f"observations{name} are {type(values).__name__}, expected an array", (own,), at)
            if values.shape != shape:
                raise Found(f"observations{name} are shaped {values.shape}, expected {shape}", (own,), at)
            if values.dtype != part.dtype:
                raise Found(f"observations{name} are {values.dtype}, expected {part.dtype}", (own,), at)
            wrong = fault_of_values(part, values, bounded=self.bounded) if isinstance(part, Box) else ""
            if wrong:
                raise Found(f"an observation{name} {wrong}", (own,), at)

    def _expect_mask(self, mask: npt.NDArray, count: int, own: int) -> None:
        spec, at = self.game.action_specs[own], self._at("legal", "observe", "step")
        shape = (count, spec.mask_width)
        if not isinstance(mask, np.ndarray):
            raise Found(f"masks are {type(mask).__name__}, expected an array of bools", (own,), at)
        if mask.dtype != np.bool_:
            raise Found(f"masks are {mask.dtype}, expected bool", (own,), at)
        if mask.shape != shape:
            raise Found(f"masks are shaped {mask.shape}, expected {shape}", (own,), at)
        if not has_choice(spec, mask).all():
            raise Found("it must act, and its mask has no legal action", (own,), at)

    def _due(self) -> list[Decisions]:
        with self._caught("observe", (), "observe"):
            blocks = self.game.due()
        for block in blocks:
            spec = self.game.action_specs[int(block.seat[0])]
            legal = has_choice(spec, block.mask).all(axis=1)
            if not legal.all():
                seat = int(block.seat[~legal][0])
                at = self._at("legal", "observe", "step")
                raise Found("it must act, and its mask has no legal action", (seat,), at)
        return blocks

    def _expect_rewards(self, rewards: npt.NDArray) -> None:
        shape = (self.game.num_slots, self.game.num_seats)
        if rewards.shape != shape:
            at = self._at("_play", "step")
            raise Found(f"rewards are shaped {rewards.shape}, expected {shape}", (), at)
        if not np.isfinite(rewards).all():
            at = self._at("_play", "step")
            slot, seat = np.argwhere(~np.isfinite(rewards))[0]
            raise Found(f"its reward is {rewards[slot, seat]}, expected a finite number", (int(seat),), at)


def has_choice(spec: ActionSpec, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return whether each choice has a legal alternative: [n, number of choices]."""
    if len(spec.sizes) == 1:
        return np.logical_or.reduce(mask, axis=1, keepdims=True)
    first = np.cumsum((0, *spec.sizes[:-1]))
    return np.logical_or.reduceat(mask, first, axis=1) if spec.sizes else np.ones((len(mask), 1), np.bool_)


def within(seconds: float, until: Callable[[Account], bool]) -> Callable[[Account], bool]:
    """Return `until`, which also ends after so many seconds of this process, or MOST_WAIT times as many.

    Seconds of the process: a busy machine must not change what a trial finds.
    """
    end, latest = time.process_time() + seconds, time.monotonic() + MOST_WAIT * seconds
    return lambda account: until(account) or time.process_time() > end or time.monotonic() > latest


def _whole(array: npt.NDArray) -> bool:
    return np.issubdtype(array.dtype, np.integer) or not array.size


def _random_legal(game: BatchedGame, block: Decisions, rng: np.random.Generator) -> npt.NDArray:
    """Return a random legal action for each decision."""
    spec = game.action_specs[int(block.seat[0])]
    width = block.mask.shape[1] or len(spec.low)
    noise = rng.random((len(block), width))
    if spec.kind == "continuous":
        low, high = np.array(spec.low), np.array(spec.high)
        return (low + noise * (high - low)).astype(np.float32)
    valued = np.where(block.mask, noise, -1.0)  # legal actions get at least 0
    if spec.kind == "discrete":
        return valued.argmax(axis=1)
    choices = np.split(valued, np.cumsum(spec.sizes)[:-1], axis=1)
    drawn = np.stack([choice.argmax(axis=1) for choice in choices], axis=1)
    return drawn.reshape(len(block), *spec.shape)
