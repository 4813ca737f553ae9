"""Recorder: collects the decisions of learning seats as columns while matches are played.

Each step appends one block of rows to every column. At the end one stable sort by (match, seat) turns
the rows, which are in order of time, into episodes.

Where matches go on in a later request, an episode is a fragment. It ends with the last decision whose
consequences are known: the reward until the seat's next decision, and what the seat sees there. A decision
that still waits for them is held back, and begins the seat's next fragment. So no reward is lost at a cut,
and the bootstrap is always an observation at which the seat decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Transition
from league.episode import Episodes
from league.models.spec import PolicySpec
from league.rollout.seats import Taken
from storage.arrays import Bools, Floats32, Indices
from storage.records import MatchBatch

NO_ROW = -1
COPIES = 2  # of all columns when episodes are made of them

Look = Callable[[Indices, Indices], npt.NDArray]


@dataclass(frozen=True, slots=True)
class Held:
    """Last decisions of n seats, whose consequences are not known yet."""

    match: Indices  # [n], row of the match
    seat: Indices  # [n]
    seen: npt.NDArray  # [n, *learned.shape]
    mask: Bools  # [n, mask_width]
    raw: npt.NDArray  # [n, *action.shape]
    log_prob: Floats32  # [n]
    reward: Floats32  # [n], so far
    memory: Floats32  # [n, S] of the network before the decision
    broken: Bools  # [n], whether decisions of the seat are missing, which may be later ones

    def take(self, rows: Indices, match: Indices) -> Held:
        """Return these decisions [k], of the matches in the rows `match` [k]."""
        kept = {column.name: getattr(self, column.name)[rows] for column in fields(self)}
        return Held(**kept | {"match": match})


class Recorder:
    """Decisions of one player, all with weights of one version.

    The record holds the inputs of the network and the samples from it, before and after which connectors may
    convert between network and game. If the value sees other seats, what they see is behind each input.
    """

    def __init__(
        self, game: BatchedGame, player: str, version: int, spec: PolicySpec, memory_size: int = 0
    ) -> None:
        """`memory_size`: of the network, if episodes are to hold its memory before their first step."""
        self._game = game
        self._memory_size = memory_size
        self._memory = np.zeros((game.num_slots, game.num_seats, memory_size), dtype=np.float32)
        self._first: list[tuple[npt.NDArray, npt.NDArray]] = []  # key, memory before an episode's first row
        self._held: list[npt.NDArray] = []  # rows
        self._player = player
        self._version = version
        self._spec = spec
        self._blocks: list[tuple[npt.NDArray, ...]] = []  # key, observation, mask, action, log_prob
        self._reward = np.zeros(1024, dtype=np.float32)
        self._rows = 0
        self._last_row = np.full((game.num_slots, game.num_seats), NO_ROW, dtype=np.int64)
        self._cut: list[tuple[npt.NDArray, npt.NDArray]] = []  # key, observation at truncation
        self._gaps: list[npt.NDArray] = []  # key, of episodes in which a decision is missing
        self._go_on = 0  # number of those that were cut where their matches go on: the last ones

    def decided(self, taken: Taken, match_of: Indices, learns: Bools) -> None:
        """Append the player's decisions in a block that come from learning seats."""
        learned = learns[taken.slot, taken.seat]
        key = match_of[taken.slot] * self._game.num_seats + taken.seat
        missing = ~learned & (self._last_row[taken.slot, taken.seat] != NO_ROW)
        if missing.any():  # of an opening that began late
            self._gaps.append(key[missing])
        rows = np.flatnonzero(learned)
        slot, seat, key, chosen = taken.slot[rows], taken.seat[rows], key[rows], taken.chosen
        if self._memory_size and taken.memory is not None:
            self._remember(slot, seat, key, taken.memory[rows][:, -self._memory_size :])
        # copies, so that a few rows do not keep a whole block in memory
        seen = self._beside_others(chosen.seen[rows], slot, seat)
        self._append(slot, seat, (key, seen, taken.mask[rows], chosen.raw[rows], chosen.log_prob[rows]))

    def go_on(self, held: Held, slot: Indices) -> None:
        """Begin with decisions that an earlier recorder held back, in these slots [n]."""
        seat, key = held.seat, held.match * self._game.num_seats + held.seat
        if self._memory_size:
            self._remember(slot, seat, key, held.memory)
        self._append(slot, seat, (key, held.seen, held.mask, held.raw, held.log_prob))
        self._reward[self._last_row[slot, seat]] = held.reward
        self._gaps.append(key[held.broken])

    def _append(self, slot: Indices, seat: Indices, block: tuple[npt.NDArray, ...]) -> None:
        self._last_row[slot, seat] = self._rows + np.arange(len(slot))
        self._rows += len(slot)
        while self._rows > len(self._reward):
            self._reward = np.concatenate([self._reward, np.zeros_like(self._reward)])
        self._blocks.append(block)

    def _remember(self, slot: Indices, seat: Indices, key: Indices, memory: Floats32) -> None:
        """Keep the memories before decisions [n, S]; those of the first ones of episodes for the learner."""
        begins = self._last_row[slot, seat] == NO_ROW
        if begins.any():
            self._first.append((key[begins], memory[begins]))
        self._memory[slot, seat] = memory

    def _beside_others(self, seen: npt.NDArray, slot: Indices, seat: Indices) -> npt.NDArray:
        """Return inputs [n, *seen.shape] as rows [n, *learned.shape]: with what the other seats see now."""
        if not self._spec.others:
            return seen
        columns, game = [seen.reshape(len(seen), -1)], self._game
        for after, other in enumerate(self._spec.others, 1):
            theirs = np.empty((len(seen), other.size), dtype=other.dtype)
            for there in np.unique((seat + after) % game.num_seats).tolist():
                rows = np.flatnonzero((seat + after) % game.num_seats == there)
                shown = game.look(slot[rows], np.full(len(rows), there, dtype=np.int64))
                theirs[rows] = shown.reshape(len(rows), other.size)
            columns.append(theirs)
        return np.concatenate(columns, axis=1, dtype=self._spec.learned.dtype, casting="same_kind")

    def rewarded(self, rewards: Floats32) -> None:
        """Add each seat's reward to its latest decision, even if another seat has moved since."""
        slot, seat = np.nonzero(rewards)
        row = self._last_row[slot, seat]
        seen = row != NO_ROW
        self._reward[row[seen]] += rewards[slot[seen], seat[seen]]

    def ended(self, transition: Transition, match_of: Indices, look: Look) -> None:
        """Close the matches that ended, and keep the last observations of seats that were truncated.

        `look(slots, seats)` returns the inputs of the player's network there.
        """
        for seat in range(self._game.num_seats) if transition.truncated.any() else ():
            slot = transition.ended[transition.truncated]
            slot = slot[self._last_row[slot, seat] != NO_ROW]
            slot = slot[self._game.was_cut(slot, np.full(len(slot), seat, dtype=np.int64))]
            if len(slot):
                self._cut_at(slot, seat, match_of, look)
        self._last_row[transition.ended] = NO_ROW

    def cut(self, due: Bools, match_of: Indices, look: Look) -> Held:
        """Cut the episodes of the matches under way; return the decisions that are held back.

        `due` [num_slots, num_seats]: the seats that must act now. `match_of` and `look` as for `ended`.
        """
        known, ended = (self._last_row != NO_ROW) & due, len(self._cut)
        for seat in np.flatnonzero(known.any(axis=0)).tolist():
            self._cut_at(np.flatnonzero(known[:, seat]), seat, match_of, look)
        slot, seats = np.nonzero((self._last_row != NO_ROW) & ~due)
        rows = self._last_row[slot, seats]
        key, seen, mask, raw, log_prob = self._columns()
        self._held.append(rows)
        before = np.delete(key, rows)
        longer = np.flatnonzero(np.isin(key[rows], before))  # episodes that have other rows
        if len(longer):
            self._cut.append((key[rows[longer]], seen[rows[longer]]))
        self._go_on = len(self._cut) - ended
        own = (seen[rows], mask[rows], raw[rows], log_prob[rows], self._reward[rows])
        return Held(match_of[slot], seats, *own, self._memory[slot, seats], self._broken(key[rows]))

    def _cut_at(self, slot: Indices, seat: int, match_of: Indices, look: Look) -> None:
        """Cut the episodes of a seat in these slots [n] where it sees what it sees now."""
        seats = np.full(len(slot), seat, dtype=np.int64)
        key = match_of[slot] * self._game.num_seats + seat
        self._cut.append((key, self._beside_others(look(slot, seats), slot, seats)))

    def _columns(self) -> tuple[npt.NDArray, ...]:
        """Return key, observation, mask, action, log_prob of all rows, as one block."""
        seen, actions = self._spec.learned, self._spec.action
        nothing = (
            np.zeros(0, np.int64),
            np.zeros((0, *seen.shape), seen.dtype),
            np.zeros((0, actions.mask_width), np.bool_),
            np.zeros((0, *actions.shape), actions.dtype),
            np.zeros(0, np.float32),
        )
        if len(self._blocks) != 1:
            columns = zip(*(self._blocks or [nothing]), strict=True)
            self._blocks = [tuple(np.concatenate(column) for column in columns)]
        return self._blocks[0]

    def episodes(self, matches: MatchBatch) -> Episodes:
        """Return all recorded episodes, in the order of the matches."""
        seats = self._game.num_seats
        key, observation, mask, action, log_prob = self._columns()
        self._blocks = []
        order = np.argsort(key, kind="stable")
        if self._held:
            order = order[~np.isin(order, np.concatenate(self._held))]
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))  # keys are not negative
        offset = np.append(starts, len(key)) if len(key) else np.zeros(1, dtype=np.int64)
        episode_key = key[offset[:-1]]
        terminated = np.ones(len(episode_key), dtype=np.bool_)
        bootstrap, goes_on = observation[:0], None
        if self._cut:
            cut_key = np.concatenate([k for k, _ in self._cut])
            by_key = np.argsort(cut_key)
            bootstrap = np.concatenate([o for _, o in self._cut])[by_key]
            terminated[np.searchsorted(episode_key, cut_key)] = False
        if self._go_on:
            goes_on = np.isin(episode_key, np.concatenate([k for k, _ in self._cut[-self._go_on :]]))
        return Episodes(
            player=self._player,
            offset=offset,
            match_id=matches.match_id[episode_key // seats],
            seat=(episode_key % seats).astype(np.int8),
            version=np.full(len(episode_key), self._version, dtype=np.int64),
            terminated=terminated,
            observation=observation[order],
            mask=mask[order],
            action=action[order],
            log_prob=log_prob[order],
            reward=self._reward[: self._rows][order],
            bootstrap=bootstrap,
            memory=self._first_memory(episode_key) if self._memory_size else None,
            goes_on=goes_on,
            unbroken=~self._broken(episode_key),
        )

    def _broken(self, key: Indices) -> Bools:
        """Return whether decisions are missing in these episodes [n]."""
        return np.isin(key, np.concatenate([key[:0], *self._gaps]))

    def _first_memory(self, episode_key: Indices) -> Floats32:
        """Return the network's memory before the first step of each episode [E, S]."""
        if not self._first:
            return np.zeros((len(episode_key), self._memory_size), dtype=np.float32)
        key = np.concatenate([k for k, _ in self._first])
        order = np.argsort(key)
        memory = np.concatenate([m for _, m in self._first])[order]
        return memory[np.searchsorted(key[order], episode_key)]
