"""Recorder: collects the decisions of learning seats as columns while matches are played.

Each step appends one block of rows to every column. At the end one stable sort by (match, seat) turns
the rows, which are in order of time, into whole episodes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Transition
from league.episode import Episodes
from league.models.spec import PolicySpec
from league.rollout.seats import Taken
from storage.records import MatchBatch

NO_ROW = -1

Look = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], npt.NDArray]


class Recorder:
    """Decisions of one player, all with weights of one version.

    The record holds the inputs of the network and the samples from it, before and after which connectors may
    convert between network and game. If the value sees other seats, what they see is behind each input.
    """

    def __init__(self, game: BatchedGame, player: str, version: int, spec: PolicySpec) -> None:
        self._game = game
        self._player = player
        self._version = version
        self._spec = spec
        self._blocks: list[tuple[npt.NDArray, ...]] = []  # key, observation, mask, action, log_prob
        self._reward = np.zeros(1024, dtype=np.float32)
        self._rows = 0
        self._last_row = np.full((game.num_slots, game.num_seats), NO_ROW, dtype=np.int64)
        self._cut: list[tuple[npt.NDArray, npt.NDArray]] = []  # key, observation at truncation

    def decided(self, taken: Taken, match_of: npt.NDArray[np.int64], learns: npt.NDArray[np.bool_]) -> None:
        """Append the player's decisions in a block that come from learning seats."""
        rows = np.flatnonzero(learns[taken.slot, taken.seat])
        slot, seat, chosen = taken.slot[rows], taken.seat[rows], taken.chosen
        self._last_row[slot, seat] = self._rows + np.arange(len(rows))
        self._rows += len(rows)
        while self._rows > len(self._reward):
            self._reward = np.concatenate([self._reward, np.zeros_like(self._reward)])
        key = match_of[slot] * self._game.num_seats + seat
        # copies, so that a few rows do not keep a whole block in memory
        self._blocks.append(
            (
                key,
                self._beside_others(chosen.seen[rows], slot, seat),
                taken.mask[rows],
                chosen.raw[rows],
                chosen.log_prob[rows],
            )
        )

    def _beside_others(
        self, seen: npt.NDArray, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]
    ) -> npt.NDArray:
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

    def rewarded(self, rewards: npt.NDArray[np.float32]) -> None:
        """Add each seat's reward to its latest decision, even if another seat has moved since."""
        slot, seat = np.nonzero(rewards)
        row = self._last_row[slot, seat]
        seen = row != NO_ROW
        self._reward[row[seen]] += rewards[slot[seen], seat[seen]]

    def ended(
        self,
        transition: Transition,
        match_of: npt.NDArray[np.int64],
        look: Look,
    ) -> None:
        """Close the matches that ended, and keep the last observations of seats that were truncated.

        `look(slots, seats)` returns the inputs of the player's network there.
        """
        for seat in range(self._game.num_seats) if transition.truncated.any() else ():
            slot = transition.ended[transition.truncated]
            slot = slot[self._last_row[slot, seat] != NO_ROW]
            slot = slot[self._game.was_cut(slot, np.full(len(slot), seat, dtype=np.int64))]
            if len(slot):
                seats = np.full(len(slot), seat, dtype=np.int64)
                key = match_of[slot] * self._game.num_seats + seat
                self._cut.append((key, self._beside_others(look(slot, seats), slot, seats)))
        self._last_row[transition.ended] = NO_ROW

    def episodes(self, matches: MatchBatch) -> Episodes:
        """Return all recorded episodes, in the order of the matches."""
        seats = self._game.num_seats
        seen, actions = self._spec.learned, self._spec.action
        nothing = (
            np.zeros(0, np.int64),
            np.zeros((0, *seen.shape), seen.dtype),
            np.zeros((0, actions.mask_width), np.bool_),
            np.zeros((0, *actions.shape), actions.dtype),
            np.zeros(0, np.float32),
        )
        columns = [np.concatenate(column) for column in zip(*(self._blocks or [nothing]), strict=True)]
        key, observation, mask, action, log_prob = columns
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))  # keys are not negative
        offset = np.append(starts, len(key)) if len(key) else np.zeros(1, dtype=np.int64)
        episode_key = key[offset[:-1]]
        terminated = np.ones(len(episode_key), dtype=np.bool_)
        bootstrap = nothing[1]
        if self._cut:
            cut_key = np.concatenate([k for k, _ in self._cut])
            by_key = np.argsort(cut_key)
            bootstrap = np.concatenate([o for _, o in self._cut])[by_key]
            terminated[np.searchsorted(episode_key, cut_key)] = False
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
        )
