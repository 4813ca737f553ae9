"""Seats: the actor of each seat, and its memory between two decisions.

Actors are stateless. Their memory of a seat is a row of floats here, zero when a match begins. Beside it
is the reward since the seat's last decision. If no actor uses memory or rewards, neither is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor, Chosen, Failed, Look, Places
from league.models.policies.policy_group import Party, parties_of
from league.models.spec import Precision
from storage.arrays import Bools, Floats, Floats32, Indices


class Taken(NamedTuple):
    """Decisions of one competitor in a block, n of them."""

    slot: Indices  # [n]
    seat: Indices  # [n]
    mask: Bools  # [n, mask_width]
    chosen: Chosen
    memory: Floats32 | None = None  # [n, memory_size] before it, if it is kept


class Choice(NamedTuple):
    """Actions chosen in a block of n decisions."""

    action: npt.NDArray  # [n, *shape]
    taken: list[tuple[int, Taken]]  # each learner's own decisions, by its index
    certain: Bools  # [n], there was no alternative; False if unknown
    failed: list[tuple[int, int, Failed]]  # row, actor, and why it made no decision there


class Seats:
    """Seats of all slots of a game, filled by `actors`."""

    def __init__(
        self,
        game: BatchedGame,
        actors: Sequence[Actor],
        temperatures: Sequence[float],
        learners: Collection[int] = (),
        keeps_memory: bool = False,
        precision: Precision = "float32",
    ) -> None:
        """`temperatures`: one for each actor; `learners`: indices of actors whose decisions are returned.

        `keeps_memory`: return them with the memory before each. `precision`: of policies on the CPU.
        """
        shape = (game.num_slots, game.num_seats)
        self._game = game
        self._actors = actors
        self._parties, members = parties_of(actors, temperatures, precision)
        self._place = np.empty(len(actors), dtype=np.int16)  # 16 bits: sorts in linear time
        self._place[members] = np.arange(len(actors))
        self._order = members
        self._wants_end = [who for who, actor in enumerate(actors) if actor.wants_end]
        self._learners = [(who, int(self._place[who])) for who in sorted(learners)]
        self._sitting = np.zeros(shape, dtype=np.int16)  # place of the actor in each seat
        widest = max((actor.memory_size for actor in actors), default=0)
        self._memory = np.zeros((*shape, widest), dtype=np.float32)
        self._reward = np.zeros(shape, dtype=np.float32)  # since each seat's last decision
        self._wants_reward = any(actor.wants_reward for actor in actors)
        self._keeps_memory = keeps_memory

    def begin(
        self,
        slot: Indices,
        competitor: npt.NDArray[np.int32],
        memory: Floats32 | None = None,
        reward: Floats32 | None = None,
    ) -> None:
        """Seat the actors `competitor` [n, num_seats] of the matches in these slots [n].

        `memory` [n, num_seats, M] and `reward` [n, num_seats]: what `left` returned of matches that go on,
        zero of others.
        """
        self._sitting[slot] = self._place[competitor]
        if self._memory.size:
            self._memory[slot] = 0.0
            if memory is not None and memory.shape[2]:
                size = min(memory.shape[2], self._memory.shape[2])  # what is cut off belongs to no actor here
                self._memory[slot, :, :size] = memory[:, :, :size]
        self._reward[slot] = 0.0 if reward is None else reward

    def left(self, slot: Indices) -> tuple[Floats32, Floats32]:
        """Return memories [n, num_seats, widest] and rewards since the last decisions [n, num_seats]."""
        return self._memory[slot], self._reward[slot]

    def decide(self, block: Decisions, rng: np.random.Generator, settled: Indices | None = None) -> Choice:
        """Choose all actions of one block, with one call to each party that has decisions in it.

        `settled` [k]: rows that others choose for; what is chosen there does not count. What fails forfeits
        at the game's next step, if the action there is not made legal before.
        """
        sitting = self._sitting[block.slot, block.seat]
        order = np.argsort(sitting, kind="stable")
        # index of the first row of each place, and the end of the last
        border = np.searchsorted(sitting[order], np.arange(len(self._actors) + 1))
        slot, seat = block.slot[order], block.seat[order]
        observation, mask = block.observation[order], block.mask[order]
        elsewhere = None
        if settled is not None and len(settled):
            elsewhere = np.zeros(len(order), dtype=np.bool_)
            elsewhere[settled] = True
            elsewhere = elsewhere[order]
        spec = self._game.action_specs[int(block.seat[0])]
        action = np.empty((len(order), *spec.shape), dtype=spec.dtype)
        certain = np.zeros(len(order), dtype=np.bool_)
        taken = []
        failed: list[tuple[int, int, Failed]] = []
        for party in self._parties:
            start, end = border[party.first], border[party.end]
            if start == end:
                continue
            rows = slice(start, end)
            counts = np.diff(border[party.first : party.end + 1])
            its = None if elsewhere is None else elsewhere[rows]
            look = Look(observation[rows], mask[rows], settled=its)
            chosen, before = self._ask(party, counts, slot[rows], seat[rows], look, rng)
            action[order[rows]] = chosen.action
            if chosen.certain is not None:
                certain[order[rows]] = chosen.certain
            if chosen.failed:
                self._fail(chosen.failed, slot[rows], seat[rows])
                who = self._order[party.first]
                failed += [(int(order[start + row]), who, why) for row, why in chosen.failed.items()]
            for who, place in self._learners:
                if party.first <= place < party.end and border[place] < border[place + 1]:
                    own = slice(border[place], border[place + 1])
                    part = slice(own.start - start, own.stop - start)
                    kept = None if before is None else before[part]
                    taken.append((who, Taken(slot[own], seat[own], mask[own], _part(chosen, part), kept)))
        return Choice(action, taken, certain, failed)

    def _fail(self, failed: Mapping[int, Failed], slot: Indices, seat: Indices) -> None:
        """Have these rows of the seats [n] forfeit, each for its reason."""
        rows = np.array(list(failed), dtype=np.int64)
        self._game.give_up(slot[rows], seat[rows], np.array([why.reason for why in failed.values()]))

    def _ask(
        self,
        party: Party,
        counts: Indices,
        slot: Indices,
        seat: Indices,
        look: Look,
        rng: np.random.Generator,
    ) -> tuple[Chosen, Floats32 | None]:
        """Let a party choose in these seats [n], which are in the order of its members, and see this.

        Return its choices, and the memories before them [n, memory_size] if they are kept.
        """
        actor, size = party.actor, party.actor.memory_size
        memory = reward = before = None
        if size or actor.wants_reward:
            memory, reward = self._memory[slot, seat, :size], self._reward[slot, seat]
            before = memory.copy() if self._keeps_memory else None
        look = replace(look, memory=memory, reward=reward, places=Places(self._game, slot, seat))
        chosen = party.decide(counts, look, rng, party.temperature)
        if memory is not None:
            self._memory[slot, seat, :size] = memory
            self._reward[slot, seat] = 0.0
        return chosen, before

    def rewarded(self, rewards: Floats32) -> None:
        """Add the rewards [num_slots, num_seats] of one step."""
        if self._wants_reward:
            self._reward += rewards

    def ended(self, slot: Indices, score: Floats, reason: npt.NDArray[np.int8]) -> None:
        """Tell actors that want it of the ends of matches in these slots [n]; `score` [n, num_seats]."""
        for who in self._wants_end if len(slot) else ():
            rows, seat = np.nonzero(self._sitting[slot] == self._place[who])
            if len(rows):
                memory = self._memory[slot[rows], seat, : self._actors[who].memory_size]
                self._actors[who].over(memory, seat, score[rows], reason[rows])

    def shown_to(self, who: int, slot: Indices, seat: Indices) -> npt.NDArray:
        """Return the inputs of actor `who` if it had to decide in these seats now; changes nothing."""
        actor = self._actors[who]
        memory = self._memory[slot, seat, : actor.memory_size]
        return actor.see(self._game.look(slot, seat), memory, self._reward[slot, seat])


def _part(chosen: Chosen, rows: slice) -> Chosen:
    action, log_prob, seen, raw, certain, *_ = chosen
    certain = None if certain is None else certain[rows]
    return Chosen(action[rows], log_prob[rows], seen[rows], raw[rows], certain)
