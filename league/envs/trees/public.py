"""The tree of public histories of a dealt game, walked level by level with one deal in each.

Public histories of equal length are one batch of matches. They hold any deal that fits what chance has shown.
Other hands are put into copies of them, to see what a seat observes with each, and what each ending pays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.exploitability import PublicLevel, PublicTree
from analysis.exploitability.public_tree import Ask
from league.envs.base import Decisions
from league.envs.dealt import DealtGame
from league.envs.trees import Inexact, TooLarge
from storage.arrays import Bools, Floats, Indices

MOST_NUMBERS = 2**26  # branches times hands; each takes up to 50 bytes while a strategy is evaluated
PAYOFFS_AT_ONCE = 2**18  # matches that are played to their last action for `PublicTree.worth`


def walk_public(env_id: str, game: DealtGame, most_numbers: int = MOST_NUMBERS) -> PublicTree:
    """Return the tree of public histories of `game`, whose `starts` are known. Raise TooLarge, Inexact."""
    deals = _Deals(game)
    walk = _Walk(env_id, game, deals, most_numbers)
    levels, games = walk.levels()
    return PublicTree(
        levels=tuple(levels),
        possible=deals.possible,
        worth=np.concatenate([np.zeros((0, 2, deals.num_hands, deals.num_hands)), *walk.worth]),
        num_actions=game.action_specs[0].mask_width,
        ask=_asker(tuple(games), tuple(levels), deals.example),
        histories=walk.histories,
    )


def _asker(games: tuple[DealtGame, ...], levels: tuple[PublicLevel, ...], example: Indices) -> Ask:
    """Return what shows public histories. `example` [W, 2, H]: a deal with each hand, or -1."""
    # another hand is shown in place of an impossible one, and its answers are left out
    held = np.where(example >= 0, example, example.max(axis=2, keepdims=True))

    def ask(number: int, history: Indices) -> tuple[npt.NDArray, Bools]:
        level, slot = levels[number], np.arange(len(history))
        game, seat = games[number].copies(history), level.actor[history].astype(np.int64)
        seen = []
        for start in held[level.world[history], seat].T:  # one copy of the matches holds all hands in turn
            game.hold(slot, start)
            seen.append(game.look(slot, seat))
        return np.concatenate(seen), game.legal(slot, seat)

    return ask


class _Deals:
    """The initial states of a game, and which of them fit each world: what chance has shown so far."""

    def __init__(self, game: DealtGame) -> None:
        starts = game.starts()
        assert starts is not None
        self.probability = starts
        self.hands = game.hands()
        self.events = game.events()
        self.num_hands = int(self.hands.max()) + 1
        prefixes = {tuple(row[:n]) for row in self.events.tolist() for n in range(len(row) + 1)}
        self.prefixes = sorted(prefixes)
        fits = [(self.events[:, : len(prefix)] == prefix).all(axis=1) for prefix in self.prefixes]
        self.fitting = [np.flatnonzero(fit & (starts > 0)) for fit in fits]
        self.example = np.full((len(fits), 2, self.num_hands), -1)
        for world, fitting in enumerate(self.fitting):
            for seat in (0, 1):
                self.example[world, seat, self.hands[fitting, seat]] = fitting
        self.possible = self.example >= 0
        self.num_events = np.array([len(prefix) for prefix in self.prefixes])
        self.count = np.array([len(fitting) for fitting in self.fitting])
        self._following: dict[tuple[int, int], list[int]] = {}

    def following(self, world: int, num_events: int) -> list[int]:
        """Return the worlds that follow `world` when `num_events` are shown; itself if it shows so many."""
        known = self._following.get((world, num_events))
        if known is None:
            before = self.prefixes[world]
            known = self._following[world, num_events] = [
                number
                for number, prefix in enumerate(self.prefixes)
                if len(prefix) == num_events and prefix[: len(before)] == before and len(self.fitting[number])
            ]
        return known


class _Walk:
    """Everything found so far."""

    def __init__(self, env_id: str, game: DealtGame, deals: _Deals, most_numbers: int) -> None:
        self._env_id = env_id
        self._game = game
        self._deals = deals
        self._most = most_numbers
        self._numbers = 0
        self._ending: dict[tuple[int, ...], int] = {}  # by world, whether it was cut, and number of the game
        self.worth: list[Floats] = []
        self.histories = int(len(deals.probability) > 1)  # the one before the deal

    def levels(self) -> tuple[list[PublicLevel], list[DealtGame]]:
        """Return all levels, and a game for each with its public histories as matches."""
        one = np.zeros(1, dtype=np.int64)
        game = self._game.copies(one)
        game.start_at(one, self._deals.fitting[0][:1])
        game, world, _ = self._uncovered(game, one)
        self._count(world)
        levels, games = [], []
        while len(world):
            games.append(game)
            level, game, world = self._level(game, world)
            levels.append(level)
        return levels, games

    def _level(self, game: DealtGame, world: Indices) -> tuple[PublicLevel, DealtGame, Indices]:
        """Return the level of these public histories [n], and the game and worlds of the next level."""
        due = self._due(game)
        history, action = np.nonzero(due.mask)
        self._measure(len(history))
        after = game.copies(history)
        after.due()
        step = after.step([action])
        going = after.active
        if step.rewards[going].any():
            raise self._broken("a reward before the end of a match", "all rewards at its end")
        over = step.ended
        endings = self._numbered(after, over, step.truncated, world[history[over]])
        self._pay(game, history[over], action[over], world[history[over]], endings)
        following, next_world, source = self._uncovered(
            after.copies(np.flatnonzero(going)), world[history[going]]
        )
        branches = np.ones(len(history), dtype=np.int64)
        branches[going] = np.bincount(source, minlength=int(going.sum()))
        leads_to = np.empty(int(branches.sum()), dtype=np.int32)
        goes_on = np.repeat(going, branches)
        leads_to[goes_on], leads_to[~goes_on] = np.arange(len(next_world)), -1 - endings
        self._count(world[history[over]])
        self._count(next_world)
        level = PublicLevel(
            actor=due.seat.astype(np.int8),
            world=world.astype(np.int32),
            first_move=_firsts(due.mask.sum(axis=1)),
            action=action.astype(np.int32),
            first_branch=None if (branches == 1).all() else _firsts(branches),
            leads_to=leads_to,
        )
        return level, following, next_world

    def _due(self, game: DealtGame) -> Decisions:
        blocks = game.due()
        if len(blocks) != 1 or not np.array_equal(blocks[0].slot, np.arange(game.num_slots)):
            raise self._broken("seats that act at once, or differ in spaces", "seats alike that act in turns")
        return blocks[0]

    def _measure(self, vectors: int) -> None:
        """Count vectors over hands. Raise TooLarge if their numbers are too many."""
        self._numbers += vectors * self._deals.num_hands
        if self._numbers > self._most:
            unit = "numbers (one for each hand after each public action)"
            raise TooLarge(self._env_id, f"more than {self._most:,}", self._most, unit)

    def _count(self, world: Indices) -> None:
        self.histories += int(self._deals.count[world].sum())

    def _uncovered(self, game: DealtGame, world: Indices) -> tuple[DealtGame, Indices, Indices]:
        """Uncover what the matches in all slots of `game` [m] show beyond their worlds [m].

        Return a game with a slot for each event, their worlds, and which match each came from.
        """
        shown = game.events_shown(np.arange(len(world)))
        if (shown == self._deals.num_events[world]).all():
            return game, world, np.arange(len(world))
        following = [self._deals.following(*row) for row in zip(world.tolist(), shown.tolist(), strict=True)]
        source = np.repeat(np.arange(len(world)), [len(worlds) for worlds in following])
        after = np.array([number for worlds in following for number in worlds], dtype=np.int64)
        game = game.copies(source)
        game.hold(np.arange(len(after)), np.array([self._deals.fitting[number][0] for number in after]))
        return game, after, source

    def _numbered(self, game: DealtGame, slots: Indices, cut: Bools, world: Indices) -> Indices:
        """Return the number of each of these endings [E]: equal ones pay alike."""
        own = game.ending(slots)
        if own is None:
            return len(self._ending) + self._unlike(len(slots))
        key = (own * 2 + cut) * len(self._deals.count) + world
        _, example, number = np.unique(key, return_index=True, return_inverse=True)
        kinds = zip(world[example].tolist(), cut[example].tolist(), own[example].tolist(), strict=True)
        numbers = [self._ending.setdefault(kind, len(self._ending)) for kind in kinds]
        return np.array(numbers, dtype=np.int64)[number]

    def _unlike(self, n: int) -> Indices:
        """Give numbers of their own to n endings, and return them from 0 on."""
        first = len(self._ending)
        self._ending.update({(number,): number for number in range(first, first + n)})
        return np.arange(n)

    def _pay(
        self, game: DealtGame, history: Indices, action: Indices, world: Indices, endings: Indices
    ) -> None:
        """Find out what those of these endings [E] pay that are new."""
        number, example = np.unique(endings, return_index=True)
        new = example[number >= sum(map(len, self.worth))]
        self._measure(2 * self._deals.num_hands * len(new))
        most = max(1, PAYOFFS_AT_ONCE // len(self._deals.probability))
        for begin in range(0, len(new), most):
            rows = new[begin : begin + most]
            self.worth.append(self._played(game, history[rows], action[rows], world[rows]))

    def _played(self, game: DealtGame, history: Indices, action: Indices, world: Indices) -> Floats:
        """Return what z endings pay in all deals [z, 2, H, H], times the probabilities of the deals."""
        deals = self._deals
        fitting = [deals.fitting[number] for number in world.tolist()]
        ending, start = np.repeat(np.arange(len(world)), deals.count[world]), np.concatenate(fitting)
        played = game.copies(history[ending])
        played.hold(np.arange(len(ending)), start)
        mask, actions = self._due(played).mask, action[ending]
        if not mask[np.arange(len(ending)), actions].all():
            raise self._broken("an action that is legal for some hands only", "equal legal actions for all")
        rewards = played.step([actions]).rewards
        if played.active.any():
            raise self._broken("a match that ends for some hands only", "endings that are public")
        found = np.zeros((len(world), 2, deals.num_hands, deals.num_hands))
        first, second = deals.hands[start].T
        for seat in (0, 1):
            np.add.at(found[:, seat], (ending, first, second), deals.probability[start] * rewards[:, seat])
        return found

    def _broken(self, found: str, expected: str) -> Inexact:
        return Inexact(
            f"env '{self._env_id}': found {found}, expected {expected} (league/envs/dealt.py); train a best "
            "response instead (league exploit --train)"
        )


def _firsts(counts: Indices) -> Indices:
    """Return where each of n ranges of these lengths begins, and at last where they end [n + 1]."""
    return np.concatenate([[0], np.cumsum(counts)])
