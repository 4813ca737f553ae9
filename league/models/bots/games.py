"""Bots of the native games, without settings.

one_ply, perfect   (connect_four, tic_tac_toe)  games of lines
equilibrium        (kuhn_poker)
tight              (leduc_poker)  never bluffs
rock to beat_last  (rock_paper_scissors), and perfect (recall), which needs memory
thrifty            (whist)  takes a trick with the lowest card that can, unless the partner is ahead; else
                   plays its lowest card; leads its highest card, trumps last
rusher, researcher, defender  (rush)  beat one another in a circle
roomy              (tron)   moves to the cell with most room behind it; cells that another may enter count
                   half
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from league.envs.games import connect_four, kuhn_poker, leduc_poker, rush, tic_tac_toe, tron, whist
from league.models.actor import Actor, Chosen, Look
from league.models.bots.bot import MixedPolicy, ScriptedPolicy, uniform
from storage.arrays import Bools, Floats32, Indices

# (stones, cells that may be filled) -> where filling a cell completes a line; shapes in `_completes_four`
Completes = Callable[[npt.NDArray, Bools], Bools]


class OnePlyBot(ScriptedPolicy):
    """Bot that wins at once if it can; else takes a cell with which the opponent would win; else any cell."""

    def __init__(self, split: Callable[[npt.NDArray], npt.NDArray], completes: Completes) -> None:
        self._split = split  # observations -> the stones of both sides [n, 2], own first
        self._completes = completes

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        stones = self._split(observation)
        wins = self._completes(stones, mask)
        blocks = self._completes(stones[:, ::-1], mask)
        choice = np.where(blocks.any(axis=1, keepdims=True), blocks, mask)
        return np.where(wins.any(axis=1, keepdims=True), wins, choice)


class PerfectTicTacToe(ScriptedPolicy):
    """Bot that takes any cell that keeps the value of the game under perfect play."""

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        stones = _three_stones(observation)
        return mask & (tic_tac_toe.BITS[_optimal_cells()[stones[:, 0], stones[:, 1]]] != 0)


def _completes_four(stones: npt.NDArray, mask: Bools) -> Bools:
    """Return the columns [n, 7] in which a stone of the first side gives it four in a line."""
    one, rows = np.uint64(1), np.uint64(connect_four.ROWS)
    column = np.arange(connect_four.COLUMNS, dtype=np.uint64) * rows
    height = np.bitwise_count(((stones[:, :1] | stones[:, 1:]) >> column) & ((one << rows) - one))
    return connect_four.has_four(stones[:, :1] | (one << (column + height))) & mask


def _three_stones(observation: npt.NDArray) -> Indices:
    cells = observation.reshape(len(observation), 2, tic_tac_toe.CELLS)
    return cells.astype(np.int64) @ (1 << np.arange(tic_tac_toe.CELLS))


def _completes_three(stones: npt.NDArray, mask: Bools) -> Bools:
    """Return the cells [n, 9] in which a stone of the first side gives it three in a line."""
    return tic_tac_toe.WINS[stones[:, :1] | (1 << np.arange(tic_tac_toe.CELLS))] & mask


@functools.cache
def _optimal_cells() -> Indices:
    """Return the cells that keep the value, as bits, by the mover's stones and the opponent's: [512, 512]."""
    optimal = np.zeros((tic_tac_toe.FULL + 1,) * 2, dtype=np.int64)

    @functools.cache
    def value(mover: int, opponent: int) -> int:
        """Return 1, 0 or -1 if the mover wins, draws or loses. Fill `optimal` on the way."""
        if tic_tac_toe.WINS[opponent]:
            return -1
        empty = [1 << c for c in range(tic_tac_toe.CELLS) if not (mover | opponent) >> c & 1]
        if not empty:
            return 0
        values = {cell: -value(opponent, mover | cell) for cell in empty}
        best = max(values.values())
        optimal[mover, opponent] = sum(cell for cell, v in values.items() if v == best)
        return best

    value(0, 0)
    return optimal


def one_ply_connect_four() -> OnePlyBot:
    """Return the bot `one_ply` of connect_four."""
    return OnePlyBot(connect_four.bitboards, _completes_four)


def one_ply_tic_tac_toe() -> OnePlyBot:
    """Return the bot `one_ply` of tic_tac_toe."""
    return OnePlyBot(_three_stones, _completes_three)


FOLD_OR_CHECK, CALL, RAISE = 0, 1, 2  # the strongest action of a hand
_TIGHT = np.array([FOLD_OR_CHECK, CALL, RAISE])  # jack, queen, king before the public card
_TIGHT_UNPAIRED = np.array([FOLD_OR_CHECK, FOLD_OR_CHECK, CALL])  # and after it


class KuhnEquilibrium(MixedPolicy):
    """Equilibrium of kuhn_poker: H. W. Kuhn, A simplified two-person poker (1950).

    It loses no more than the value of the game, against any opponent. The first seat has a family of
    equilibria, by the probability `alpha` of betting a jack (0 to 1/3); the second seat has one.
    """

    def __init__(self, alpha: float = 1 / 6) -> None:
        # probability of a bet: [second seat, faces a bet, card]
        self._bet = np.array(
            [[[alpha, 0, 3 * alpha], [0, alpha + 1 / 3, 1]], [[1 / 3, 0, 1], [0, 1 / 3, 1]]], dtype=np.float32
        )

    def probabilities(self, observation: npt.NDArray, mask: Bools) -> Floats32:
        second = observation[:, 1] > 0
        card = observation[:, 2 : 2 + kuhn_poker.NUM_CARDS].argmax(axis=1)
        actions = observation[:, 2 + kuhn_poker.NUM_CARDS :].reshape(-1, kuhn_poker.MAX_ACTIONS, 2)
        faces_bet = actions[:, :, kuhn_poker.BET].any(axis=1)
        bet = self._bet[second.astype(np.int64), faces_bet.astype(np.int64), card]
        return np.stack([1 - bet, bet], axis=1)


class TightLeduc(ScriptedPolicy):
    """Bot for leduc_poker that never bluffs.

    First round: raise with a king, call with a queen. Second round: raise with a pair, call with a king. It
    folds all other hands to a raise.
    """

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        own, public = observation[:, 2:5], observation[:, 5:8]
        rank, first_round = own.argmax(axis=1), ~public.any(axis=1)
        paired = (own * public).any(axis=1)
        far = np.where(first_round, _TIGHT[rank], np.where(paired, RAISE, _TIGHT_UNPAIRED[rank]))
        chosen = np.full(len(mask), leduc_poker.CALL)
        chosen[(far == RAISE) & mask[:, leduc_poker.RAISE]] = leduc_poker.RAISE
        chosen[(far == FOLD_OR_CHECK) & mask[:, leduc_poker.FOLD]] = leduc_poker.FOLD
        return chosen[:, None] == np.arange(mask.shape[1])


class Always(ScriptedPolicy):
    """Bot that always takes the same action."""

    def __init__(self, action: int) -> None:
        self._action = action

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        return np.tile(np.arange(mask.shape[1]) == self._action, (len(mask), 1))


class BeatLast(ScriptedPolicy):
    """Bot for rock_paper_scissors that beats the opponent's previous action; random in the first round."""

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        theirs = observation[:, :3] > 0
        beats = np.roll(theirs, 1, axis=1)  # each action is beaten by the next
        return np.where(theirs.any(axis=1, keepdims=True), beats, mask)


class Builder(ScriptedPolicy):
    """Bot for rush that builds without a look at the other seat.

    It takes the first action of `plan` of whose purchase it has fewer than the number beside it. It saves
    if that is too expensive yet, and attacks in its place with as many soldiers as `army` or more.
    """

    def __init__(self, *plan: tuple[int, int], army: int) -> None:
        self._plan, self._army = plan, army

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        has = rush.owned(observation)
        lacks = [has[:, rush.BUYS[action]] < number for action, number in self._plan]
        wanted = np.select(lacks, [action for action, _ in self._plan], rush.SAVE)
        wanted = np.where(mask[np.arange(len(mask)), wanted], wanted, rush.SAVE)
        wanted = np.where(has[:, rush.HAS_SOLDIERS] >= self._army, rush.ATTACK, wanted)
        return wanted[:, None] == np.arange(mask.shape[1])


class PerfectRecall(Actor):
    """Bot for recall that remembers the cue, and names it at every step."""

    memory_size = 1  # the cue that was shown, counted from 1; 0: none yet

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        memory = np.zeros((len(look), 1), dtype=np.float32) if look.memory is None else look.memory
        cues = look.observation[:, :-1]
        shown = cues.any(axis=1)
        memory[shown, 0] = cues[shown].argmax(axis=1) + 1
        known = memory == np.arange(1, look.mask.shape[1] + 1)
        action, log_prob = uniform(np.where(known.any(axis=1, keepdims=True), known, look.mask), rng)
        return Chosen(action, log_prob, look.observation, action, log_prob == 0.0)


_IS_TRUMP = whist.SUIT == whist.TRUMP
_COST = whist.RANK + whist.NUM_RANKS * _IS_TRUMP
_LEAD_COST = whist.NUM_RANKS * _IS_TRUMP - whist.RANK
_PARTNER = 1  # among left, partner, right
REACH = 12  # steps that `roomy` looks ahead
_SIDE = tron.SIGHT  # row and column of the own head
_TARGETS = ((_SIDE, _SIDE - 1), (_SIDE - 1, _SIDE), (_SIDE, _SIDE + 1))  # left, ahead, right


class Thrifty(ScriptedPolicy):
    """Bot for whist, without memory."""

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        cards, led = whist.unpack(observation)
        strength = led @ whist.STRENGTH  # [n, cards]; all 0 if it leads
        on_table = (strength[:, :, None] * cards[:, :, 1:4]).max(axis=1)  # of left, partner, right
        ahead = on_table.max(axis=1, keepdims=True)
        takes = mask & (strength > ahead) & (on_table[:, [_PARTNER]] < ahead)
        choice = np.where(takes.any(axis=1, keepdims=True), takes, mask)
        cost = np.where(led.any(axis=1, keepdims=True), _COST, _LEAD_COST)
        highest = whist.CARDS
        cheapest = np.where(choice, cost, highest).min(axis=1, keepdims=True)
        return choice & (cost == cheapest)


class Roomy(ScriptedPolicy):
    """Bot for tron that keeps away from walls."""

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        free, heads = observation[:, 0] == 0, observation[:, 1].astype(np.bool_)
        heads[:, _SIDE, _SIDE] = False  # its own
        contested = _grown(heads)
        room = np.stack([_room(free, target) / (1 + contested[:, *target]) for target in _TARGETS], axis=1)
        return room == room.max(axis=1, keepdims=True)


def _room(free: Bools, start: tuple[int, int]) -> Indices:
    """Return how many of the free cells [n, V, V] are within REACH steps of `start`: [n]."""
    reached = np.zeros_like(free)
    reached[:, *start] = free[:, *start]
    for _ in range(REACH):
        reached = _grown(reached) & free
    return reached.sum(axis=(1, 2))


def _grown(cells: Bools) -> Bools:
    """Return these cells [n, V, V] and their neighbours."""
    grown = cells.copy()
    grown[:, 1:] |= cells[:, :-1]
    grown[:, :-1] |= cells[:, 1:]
    grown[:, :, 1:] |= cells[:, :, :-1]
    grown[:, :, :-1] |= cells[:, :, 1:]
    return grown
