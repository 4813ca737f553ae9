"""Trial of a game's matches through the batched interface: every answer is looked at before it is used.

And their cost: seconds, decisions and steps, measured before anything trains.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.envs.slots import SlotGame
from league.envs.trial import promises
from league.envs.trial.blame import defined_at, own_classes, place_of, sentence_of
from league.envs.trial.promises import Found, shown
from league.import_paths import RAISED

MOST_DECISIONS = 10_000  # of one match under random play; a longer one counts as endless
LOOKED_AT = 300  # steps of which every answer is looked at; then every SELDOM-th
SELDOM = 16
MOST_WAIT = 3.0  # of a game that waits, or of a busy machine
COST_SECONDS, MOST_COST_SECONDS = 0.25, 1.0  # of play: the most if too few matches have ended before
SLOTS, BATCHED_SLOTS = 4, 256  # of a game that steps matches one by one, and of one that steps all at once
IDLE_STEPS = 3  # in a row in which nothing is due, nothing is pending, and nothing ends


@dataclass
class Account:
    """What was played in a trial."""

    ended: int = 0
    longest: int = 0  # decisions of one match
    scored: bool = False  # whether a seat got a reward other than 0


class Matches:
    """Matches of a game that are tried."""

    def __init__(self, game: BatchedGame, authors: tuple[type, ...], most_seconds: float = math.inf) -> None:
        """Try the matches of `game`, whose code is in the classes `authors`.

        `most_seconds`: what a step may take, as the whole run is to take no more.
        """
        self.game = game
        self.authors = authors
        self.most_seconds = most_seconds
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
                self._expect(promises.NO_TURN)
            actions = [random_legal(game, block, rng) for block in blocks]
            waiting, began = bool(game.pending.any()), time.monotonic()
            try:
                transition = game.step(actions)
            except RAISED as error:
                acting = {int(seat) for block in blocks for seat in block.seat}
                raise self._found(error, "step", tuple(sorted(acting)), "_play") from error
            if (took := time.monotonic() - began) > self.most_seconds:
                found = f"a step takes {took:.3g} s, and the run is to take {self.most_seconds:.3g} s in all"
                raise Found(f"{found} (stop.minutes)", (), self._at("_play", "step"))
            self._expect_no_crash()
            self._expect(promises.of_rewards(transition.rewards, (game.num_slots, game.num_seats)))
            idle = idle + 1 if not (blocks or waiting or len(transition.ended)) else 0
            if idle >= IDLE_STEPS:
                self._expect(promises.NO_TURN)
            steps += 1
            account.ended += len(transition.ended)
            account.longest = max(account.longest, int(game.env_steps.max()))
            account.scored |= bool(transition.rewards.any())

    @contextlib.contextmanager
    def _caught(self, what: str, seats: tuple[int, ...], *methods: str) -> Iterator[None]:
        """Turn an error of the game into a fault with its place."""
        try:
            yield
        except RAISED as error:
            raise self._found(error, what, seats, *methods) from error

    def _found(self, error: BaseException, what: str, seats: tuple[int, ...], *methods: str) -> Found:
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
        self._expect(promises.of_turns(slot, seat, game.active, game.num_seats))
        for own in range(game.num_seats):
            slots = slot[seat == own]
            if len(slots):
                seats = np.full(len(slots), own, dtype=np.int64)
                with self._caught("observe", (own,), "observe"):
                    seen = game.observe(slots, seats)
                space, spec = game.observation_spaces[own], game.action_specs[own]
                self._expect(promises.of_observations(space, len(slots), seen, own, bounded=self.bounded))
                with self._caught("legal", (own,), "legal"):
                    mask = game.legal(slots, seats)
                self._expect(promises.of_masks(spec, len(slots), mask, own))

    def _due(self) -> list[Decisions]:
        with self._caught("observe", (), "observe"):
            blocks = self.game.due()
        for block in blocks:
            seat = int(block.seat[0])
            self._expect(promises.of_masks(self.game.action_specs[seat], len(block), block.mask, seat))
        return blocks

    def _expect(self, broken: promises.Broken | None) -> None:
        if broken is not None:
            raise Found(broken.found, broken.seats, self._at(*broken.methods))


def within(seconds: float, until: Callable[[Account], bool]) -> Callable[[Account], bool]:
    """Return `until`, which also ends after so many seconds of this process, or MOST_WAIT times as many.

    Seconds of the process: a busy machine must not change what a trial finds.
    """
    end, latest = time.process_time() + seconds, time.monotonic() + MOST_WAIT * seconds
    return lambda account: until(account) or time.process_time() > end or time.monotonic() > latest


def random_legal(game: BatchedGame, block: Decisions, rng: np.random.Generator) -> npt.NDArray:
    """Return a random legal action for each decision."""
    spec = game.action_specs[int(block.seat[0])]
    return spec.random(block.mask, rng.random((len(block), spec.width)))


# ------------------------------------------------------------------ what play costs


class Cost(NamedTuple):
    """What random play costs. In a step of a match each seat whose turn it is decides once."""

    step_seconds: float  # of a step of one match
    decisions: float  # in such a step
    match_steps: float | None  # of a whole match; `None`: no match ended


def env_steps_of(game: BatchedGame, longest: int) -> float:
    """Return the env steps of a match: the mean of one in each slot, cut at `longest` steps of all seats.

    It is the same each time.
    """
    rng, slots = np.random.default_rng(0), np.arange(game.num_slots)
    game.reset(slots, slots)
    length = np.zeros(game.num_slots, np.int64)
    for _ in range(longest):
        blocks = game.due()
        if not blocks:
            break
        length += np.bincount(np.concatenate([block.slot for block in blocks]), minlength=game.num_slots)
        game.step([random_legal(game, block, rng) for block in blocks])
    return float(length.mean())


def cost_of(make: Callable[[int], BatchedGame]) -> Cost:
    """Return what matches of the game cost that `make(num_slots)` returns; it must be sound."""
    game = make(1)
    game = make(SLOTS if isinstance(game, SlotGame) else BATCHED_SLOTS)
    rng, slots = np.random.default_rng(0), np.arange(game.num_slots)
    game.reset(slots, slots)
    steps = decisions = ended = 0
    seed, spent, began = game.num_slots, 0.0, time.perf_counter()
    while spent < COST_SECONDS or (ended < game.num_slots and spent < MOST_COST_SECONDS):
        blocks = game.due()
        steps += np.unique(np.concatenate([np.zeros(0, np.int64), *(b.slot for b in blocks)])).size
        decisions += sum(map(len, blocks))
        over = game.step([random_legal(game, block, rng) for block in blocks]).ended.copy()
        ended += len(over)
        if len(over):
            game.reset(over, seed + np.arange(len(over)))
            seed += len(over)
        spent = time.perf_counter() - began
    return Cost(spent / max(1, steps), decisions / max(1, steps), steps / ended if ended else None)
