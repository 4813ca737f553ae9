"""Rush: a small economy of rush, tech and defence, with hidden builds, for two seats that act at once.

A match has 24 rounds at most. At the start of a round each worker of a seat brings it one gold. Then both
seats act, each in one of seven ways:

    save        do nothing
    worker      buy a worker, for 3 gold
    soldiers    buy as many soldiers as the gold pays for, at 2 gold each
    towers      buy as many towers as the gold pays for, at 2 gold each
    research    raise the level of its weapons by one, up to 3, for 12 gold
    attack      send all soldiers against the other base
    scout       see what the other seat has at the end of this round, for 1 gold

A soldier has a strength of 1 more than its level. A tower stops a strength of 3 in each attack, but none of
level 3. What is left of an attack meets the soldiers at home: the weaker side dies, and the stronger side
loses as much strength as it met. What is still left damages the base, and returns. If both seats attack,
neither has soldiers at home.

A base has 20 points. It is lost at 0. If no base was lost after the last round, the seat with more points
wins. If these are equal, the one whose gold and purchases are worth more wins.

Soldiers at once beat research, as they arrive before its weapons. Research beats towers, as its weapons pass
them. Towers beat soldiers at once, as these die there while the defender's workers earn. So strategies beat
one another in a circle, and what the other seat does is known by its attacks and by scouts only.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from league.envs.scene import Hand, Item, Tabletop
from storage.arrays import Bools, Floats, Indices

SAVE, WORKER, SOLDIERS, TOWERS, RESEARCH, ATTACK, SCOUT = range(7)
ACTIONS = ("save", "worker", "soldiers", "towers", "research", "attack", "scout")
COST = np.array([0, 3, 2, 2, 12, 0, 1])  # of one, by action
ROUNDS, BASE, WORKERS, LEVELS, STOPS = 24, 20, 3, 3, 3
# columns of what a seat has
GOLD, HAS_WORKERS, HAS_SOLDIERS, HAS_TOWERS, LEVEL = range(5)
BUYS = {WORKER: HAS_WORKERS, SOLDIERS: HAS_SOLDIERS, TOWERS: HAS_TOWERS, RESEARCH: LEVEL}
WHAT = ("gold", "workers", "soldiers", "towers", "level")
_WORTH = np.array([1, COST[WORKER], COST[SOLDIERS], COST[TOWERS], COST[RESEARCH]])
OWN, THEIRS, SCOUTED, SEEN = 1, 7, 8, 13  # columns of an observation, see `Rush`
WIDTH = 16
_SCALE = np.array([ROUNDS, *[10] * 4, LEVELS, BASE, BASE, *[10] * 4, LEVELS, ROUNDS, 10, ROUNDS], np.float32)


def owned(observation: npt.NDArray) -> Indices:
    """Return the own gold, workers, soldiers, towers and level [n, 5] of observations [n, 16]."""
    own = slice(OWN, OWN + len(WHAT))
    return np.rint(observation[:, own] * _SCALE[own]).astype(np.int64)


class Rush(BatchedGame):
    """Action: save 0, worker 1, soldiers 2, towers 3, research 4, attack 5, scout 6. A win pays 1, a loss -1.

    Observation, float32 [16]: rounds played; own gold, workers, soldiers, towers, level, base; their base;
    their gold, workers, soldiers, towers and level as last scouted, and when (0: never); the strength of
    their last attack, and when. Rounds are in parts of 24, levels of 3, bases of 20, other numbers in tens.
    """

    id: ClassVar[str] = "rush"
    num_seats = 2
    observation_spaces = (Box(0.0, 100.0, (WIDTH,), np.float32),) * 2
    action_spaces = (Discrete(len(ACTIONS)),) * 2
    renders = True
    match_arrays = ("_has", "_base", "_scouted", "_attacked", "_played")

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        self._has = np.zeros((num_slots, 2, len(WHAT)), dtype=np.int64)
        self._base = np.zeros((num_slots, 2), dtype=np.int64)
        self._scouted = np.zeros((num_slots, 2, len(WHAT) + 1), dtype=np.int64)  # by who looked; and when
        self._attacked = np.zeros((num_slots, 2, 2), dtype=np.int64)  # by who was: strength and when
        self._played = np.zeros(num_slots, dtype=np.int64)  # rounds

    def starts(self) -> Floats:
        return np.ones(1)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._has[slots] = [WORKERS, WORKERS, 0, 0, 0]  # with the gold of the first round
        self._base[slots] = BASE
        self._scouted[slots] = self._attacked[slots] = self._played[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile([0, 1], len(slot))

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        seen = np.empty((len(slot), WIDTH), dtype=np.float32)
        seen[:, 0] = self._played[slot]
        seen[:, OWN:6] = self._has[slot, seat]
        seen[:, 6], seen[:, THEIRS] = self._base[slot, seat], self._base[slot, 1 - seat]
        seen[:, SCOUTED : SEEN + 1] = self._scouted[slot, seat]
        seen[:, SEEN + 1 :] = self._attacked[slot, seat]
        return np.maximum(seen, 0.0) / _SCALE  # a lost base has no points

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        own = self._has[slot, seat]
        legal = own[:, :1] >= COST
        legal[:, RESEARCH] &= own[:, LEVEL] < LEVELS
        legal[:, ATTACK] = own[:, HAS_SOLDIERS] > 0
        return legal

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        slot, action = slot[::2], action.reshape(-1, 2)  # both seats of each slot have acted
        has, base = self._has[slot], self._base[slot]
        self._played[slot] += 1
        number = np.where(action == WORKER, 1, has[:, :, GOLD] // np.maximum(COST[action], 1))
        number = np.where(np.isin(action, (RESEARCH, SCOUT)), 1, number)
        has[:, :, GOLD] -= number * COST[action]
        for bought, column in BUYS.items():
            has[:, :, column] += np.where(action == bought, number, 0)
        self._fight(slot, action == ATTACK, has, base)
        match, looking = np.nonzero(action == SCOUT)
        self._scouted[slot[match], looking, :-1] = has[match, 1 - looking]
        self._scouted[slot[match], looking, -1] = self._played[slot[match]]
        has[:, :, GOLD] += has[:, :, HAS_WORKERS]  # of the next round
        self._has[slot], self._base[slot] = has, base
        worth = np.where((base > 0).all(axis=1, keepdims=True), has @ _WORTH, 0)
        lead = np.sign(np.diff(np.maximum(base, 0) * 10_000 + worth))
        over = (base <= 0).any(axis=1) | (self._played[slot] == ROUNDS)
        self._over[slot] = over
        self._rewards[slot] = np.where(over[:, None], lead * [-1, 1], 0)

    def _fight(self, slot: Indices, attacks: Bools, has: Indices, base: Indices) -> None:
        """Fight the attacks [n, 2] by seat; write into `has` [n, 2, 5] and `base` [n, 2]."""
        strength = has[:, :, HAS_SOLDIERS] * (1 + has[:, :, LEVEL])
        sent, home = np.where(attacks, strength, 0), np.where(attacks, 0, strength)
        stopped = np.where(has[:, :, LEVEL] < LEVELS, STOPS * has[:, ::-1, HAS_TOWERS], 0)
        arrived = np.maximum(sent - stopped, 0)
        through = np.maximum(arrived - home[:, ::-1], 0)
        left = np.where(attacks, through, home - np.minimum(arrived[:, ::-1], home))
        has[:, :, HAS_SOLDIERS] = left // (1 + has[:, :, LEVEL])
        base -= through[:, ::-1]
        match, hit = np.nonzero(sent[:, ::-1])
        self._attacked[slot[match], hit, 0] = sent[match, 1 - hit]
        self._attacked[slot[match], hit, 1] = self._played[slot[match]]

    def _shown(self, slot: int, owner: int, seat: int | None) -> tuple[str, Indices]:
        """Return what `seat` knows of the seat `owner`, after words that say since when."""
        if seat in (None, owner):
            return "", self._has[slot, owner]
        *had, when = self._scouted[slot, 1 - owner].tolist()
        return (f"in round {when} " if when else "hidden"), np.array(had if when else [], dtype=np.int64)

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the round, and what each seat has, as far as `seat` may know."""
        lines = [f"{self._played[slot]} of {ROUNDS} rounds played"]
        for owner in range(2):
            since, known = self._shown(slot, owner, seat)
            words = ", ".join(f"{what} {n}" for what, n in zip(WHAT, known.tolist(), strict=False))
            lines.append(f"seat {owner}: base {self._base[slot, owner]}; {since}{words}")
        return "\n".join(lines)

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return what each seat has as cards; what the other seat has, as it was last scouted."""
        hands = []
        for owner in range(2):
            since, known = self._shown(slot, owner, seat)
            items = [Item(f"{what} {n}") for what, n in zip(WHAT, known.tolist(), strict=False)]
            note = f"base {self._base[slot, owner]}" + (f", {since.strip()}" if since else "")
            hands.append(Hand(owner, items, bool(self.active[slot]), note))
        strength, when = self._attacked[slot, seat or 0].tolist()
        notes = [f"{self._played[slot]} of {ROUNDS} rounds"]
        if seat is not None and when:
            notes.append(f"attacked with {strength} in round {when}")
        return Tabletop(hands, self.render(slot, seat).replace("\n", ". ") + ".", notes=notes)

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return "save", "worker", "soldiers", "towers", "research", "attack" or "scout"."""
        return ACTIONS[action]
