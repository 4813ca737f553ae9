"""The tree of a game of OpenSpiel, walked history by history through its states."""

from __future__ import annotations

import itertools
from array import array
from typing import Any, NamedTuple

import numpy as np

from analysis.exploitability.tree import Endings, GameTree, Questions, TreeDecisions, game_tree
from league.envs.adapters.openspiel import CHANCE, TERMINAL, OpenSpielGame, sentence
from league.envs.trees import Inexact, TooLarge

PROBE_AT, PROBES = 10_000, 100  # histories after which their number is estimated, and samples for that
BEYOND_COUNTING = 1e30
FAR_BEYOND = 20  # an estimate is 20 times too large in at most one of 20 cases (Markov's inequality)


class _Known(NamedTuple):
    """An information set that was found."""

    label: int
    question: int
    legal: list[int]


def walk(env_id: str, game: OpenSpielGame, most_histories: int) -> GameTree:
    """Return the tree of `game`. Raise TooLarge, Inexact."""
    try:
        return _Walk(env_id, game).tree(most_histories)
    except RuntimeError as error:  # pyspiel.SpielError
        raise Inexact(
            f"env '{env_id}': OpenSpiel fails on the way through its tree: {sentence(error)}; train a best "
            "response instead (league exploit --train)"
        ) from error


def estimated_histories(state: Any, rng: np.random.Generator, probes: int) -> float:
    """Estimate the number of histories from `state` on by random walks.

    The product of the numbers of choices along a walk is an unbiased estimate of the number of histories at
    its depth (Knuth: Estimating the efficiency of backtrack programs, Mathematics of Computation 29, 1975).
    """
    total = 0.0
    for _ in range(probes):
        at, ways, sum_of_ways = state.clone(), 1.0, 1.0
        while not at.is_terminal() and sum_of_ways < BEYOND_COUNTING:
            if at.is_simultaneous_node():
                legal = [at.legal_actions(seat) or [0] for seat in range(at.num_players())]
                at.apply_actions([int(rng.choice(own)) for own in legal])
                for own in legal:
                    ways *= len(own)
            else:
                own = at.legal_actions()
                at.apply_action(own[int(rng.integers(len(own)))])
                ways *= len(own)
            sum_of_ways += ways
        total += sum_of_ways
    return total / probes


class _Walk:
    """Everything found so far. Python takes as long as the library for a step, so calls are few."""

    def __init__(self, env_id: str, game: OpenSpielGame) -> None:
        kind = game.game.get_type()
        self._env_id = env_id
        self._game = game
        self._says_what_is_known = kind.provides_information_state_string
        self._pays_at_the_end = kind.reward_model.name == "TERMINAL"
        self._known: list[dict[Any, _Known]] = [{} for _ in range(game.num_seats)]  # by information state
        self._num_labels = 0
        self._seen_once: set[int] = set()  # labels
        self._questions: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self._next_sequence = 1
        self._seat, self._parent, self._label, self._question = (array("q") for _ in range(4))
        self._reward = array("d")
        self._sequence, self._worth = array("q"), array("d")

    def tree(self, most_histories: int) -> GameTree:
        """Walk the whole tree and return it. Raise TooLarge, Inexact."""
        num_seats, limit = self._game.num_seats, self._game.step_limit
        nothing, unpaid = (0,) * num_seats, (0.0,) * num_seats
        # state, probability of its chance events, sequence of each seat, number of decisions so far,
        # return of each seat at its last decision
        stack: list[tuple[Any, float, tuple[int, ...], int, tuple[float, ...]]]
        stack = [(self._game.game.new_initial_state(), 1.0, nothing, 0, unpaid)]
        histories = 0
        while stack:
            state, chance, did, decisions, reported = stack.pop()
            histories += 1
            if histories == PROBE_AT:
                self._estimate(most_histories)
            if histories > most_histories:
                raise TooLarge(self._env_id, f"more than {most_histories:,}", most_histories)
            player = state.current_player()
            if player == TERMINAL:
                self._end(did, chance, state.returns())
            elif player == CHANCE:
                for outcome, probability in state.chance_outcomes():
                    if probability:
                        stack.append((state.child(outcome), chance * probability, did, decisions, reported))
            elif limit is not None and decisions >= limit:
                self._end(did, chance, unpaid if self._pays_at_the_end else state.returns())
            elif player >= 0:
                legal = state.legal_actions()
                paid = reported if self._pays_at_the_end else tuple(state.returns())
                first = self._decide(state, player, did[player], legal, paid[player] - reported[player])
                reported = reported[:player] + paid[player : player + 1] + reported[player + 1 :]
                before, after = did[:player], did[player + 1 :]
                last = len(legal) - 1
                for ordinal, action in enumerate(legal):
                    if ordinal < last:
                        child = state.child(action)
                    else:
                        child = state  # not needed any more
                        child.apply_action(action)
                    stack.append((child, chance, (*before, first + ordinal, *after), decisions + 1, reported))
            else:
                stack += self._together(state, chance, did, decisions, reported)
        return self._assembled(histories)

    def _estimate(self, most_histories: int) -> None:
        """Raise TooLarge now, instead of after minutes, if the tree is far too large."""
        rng = np.random.default_rng(0)
        size = estimated_histories(self._game.game.new_initial_state(), rng, PROBES)
        if size > FAR_BEYOND * most_histories:
            # a walk that reaches BEYOND_COUNTING alone contributes this much
            known = size < BEYOND_COUNTING / PROBES
            found = f"about {size:.0e}" if known else f"more than {BEYOND_COUNTING / PROBES:.0e}"
            raise TooLarge(self._env_id, found, most_histories)

    def _together(
        self, state: Any, chance: float, did: tuple[int, ...], decisions: int, reported: tuple[float, ...]
    ) -> list[tuple[Any, float, tuple[int, ...], int, tuple[float, ...]]]:
        """Return the stack entries that follow a simultaneous node; seats without actions do not decide."""
        paid = reported if self._pays_at_the_end else tuple(state.returns())
        ways: list[list[tuple[int, int]]] = []  # by seat: its actions, each with the sequence that follows
        reported_now = list(reported)
        for seat, parent in enumerate(did):
            legal = state.legal_actions(seat)
            if not legal:
                ways.append([(0, parent)])
                continue
            first = self._decide(state, seat, parent, legal, paid[seat] - reported[seat])
            reported_now[seat] = paid[seat]
            ways.append([(action, first + ordinal) for ordinal, action in enumerate(legal)])
            decisions += 1
        following = []
        for joint in itertools.product(*ways):
            actions, sequences = zip(*joint, strict=True)
            child = state.clone()
            child.apply_actions(actions)
            following.append((child, chance, sequences, decisions, tuple(reported_now)))
        return following

    def _decide(self, state: Any, seat: int, parent: int, legal: list[int], reward: float) -> int:
        """Note that `seat` must act, and return the first sequence of its actions."""
        key = (
            state.information_state_string(seat)
            if self._says_what_is_known
            else self._ask(state, seat, legal)
        )
        known = self._known[seat].get(key)
        if known is None:
            question = self._ask(state, seat, legal) if self._says_what_is_known else key
            known = self._known[seat][key] = _Known(self._num_labels, question, legal)
            self._seen_once.add(self._num_labels)
            self._num_labels += 1
        elif known.legal != legal:
            raise Inexact(
                f"env '{self._env_id}': an information state of seat {seat} has various legal actions, so "
                "there is no exact best response; train one instead (league exploit --train)"
            )
        elif known.label in self._seen_once:
            self._seen_once.remove(known.label)
            if self._ask(state, seat, legal) != known.question:
                raise Inexact(
                    f"env '{self._env_id}': an information state of seat {seat} has various observations, "
                    "so a policy has no single answer there; train a best response instead (league exploit "
                    "--train)"
                )
        self._seat.append(seat)
        self._parent.append(parent)
        self._label.append(known.label)
        self._question.append(known.question)
        self._reward.append(reward)
        first = self._next_sequence
        self._next_sequence = first + len(legal)
        return first

    def _ask(self, state: Any, seat: int, legal: list[int]) -> int:
        """Return the number of the question that a policy would be asked."""
        question = (self._game.seen_in(state, seat).tobytes(), tuple(legal))
        return self._questions.setdefault(question, len(self._questions))

    def _end(self, did: tuple[int, ...], chance: float, returns: Any) -> None:
        self._sequence.extend(did)
        self._worth.extend([chance * amount for amount in returns])

    def _assembled(self, histories: int) -> GameTree:
        seats, spec = self._game.num_seats, self._game.observation_specs[0]
        seen = np.frombuffer(bytearray().join(seen for seen, _ in self._questions), dtype=np.float32)
        masks = np.zeros((len(self._questions), self._game.action_specs[0].mask_width), dtype=np.bool_)
        for row, (_, legal) in enumerate(self._questions):
            masks[row, list(legal)] = True
        noted = (self._seat, self._parent, self._label, self._question)
        seat, parent, label, question = (np.array(column, dtype=np.int64) for column in noted)
        decisions = TreeDecisions(seat, parent, label, question, np.array(self._reward, dtype=np.float64))
        endings = Endings(
            np.array(self._sequence, dtype=np.int64).reshape(-1, seats),
            np.array(self._worth, dtype=np.float64).reshape(-1, seats),
        )
        return game_tree(Questions(seen.reshape(-1, *spec.shape), masks), decisions, endings, histories)
