"""Playing: a hand of matches in the slots of a game, from one request's beginning to its end."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions, Transition
from league.episode import Episodes
from league.models.actor import Actor
from league.models.policies.policy import Policy
from league.models.spec import Precision
from league.rollout.guard import Guard, Patience
from league.rollout.hand import WAITS, MatchHand
from league.rollout.openings import OpeningMoves
from league.rollout.requests import LiveSource, Source
from league.rollout.seats import Seats
from league.rollout.snapshots import SnapshotSource
from league.rollout.traces.fingerprints import Fingerprints
from league.rollout.traces.recorder import Held, Recorder
from league.rollout.traces.results import OrderOfPlay, Results
from league.rollout.traces.transcript import MOST_NUMBERS, Transcript, chosen, usual_share
from storage.arrays import Indices
from storage.records import FORFEITS, ResultBatch

NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0)


class Playing:
    """Matches of a hand while they are played."""

    def __init__(
        self,
        game: BatchedGame,
        hand: MatchHand,
        actors: Sequence[Actor],
        learners: Mapping[int, LiveSource],
        rng: np.random.Generator,
        *,
        record: float | Literal["auto"] = 0.0,
        fingerprint: bool = False,
        keeps_memory: bool = False,
        overdue: Callable[[int], bool] | None = None,
        most_failures: Mapping[str, int] = {},
        precision: Precision = "float32",
    ) -> None:
        """Seat the `actors`, one for each source of the hand, and go on with the matches that have slots.

        `learners`: the players whose decisions are recorded, by their index among the sources.
        `keeps_memory`: whether episodes hold the memory that they begin with, as matches are cut or go on.
        `overdue(steps)`: whether to leave them after so many steps, as the run is over. `most_failures`: of
        competitors whose matches are left after as many forfeits. `precision`: of policies on the CPU.
        """
        matches = hand.matches
        self._game = game
        self._guard = Guard(game)
        self._patience = Patience(overdue)
        self._hand = hand
        self._actors = actors
        self._learners = learners
        self._rng = rng
        self._results = Results(matches, hand.started_at)
        usual = record == "auto"
        share = usual_share(matches.match_id) if record == "auto" else record
        self._transcript = Transcript(
            game, chosen(matches.seed, share), hand.actions, MOST_NUMBERS if usual else None
        )
        self._opening = None if hand.openings is None else OpeningMoves(game, hand.openings, matches.seed)
        self._fingerprints = Fingerprints(game, len(matches)) if fingerprint else None
        temperatures = [s.temperature if isinstance(s, SnapshotSource) else 1.0 for s in hand.sources]
        kept = {who: _recurrent(actors[who]) if keeps_memory else 0 for who in learners}
        self._seats = Seats(game, actors, temperatures, learners, any(kept.values()), precision)
        self._recorders = {
            who: Recorder(game, source.player, source.version, source.spec, kept[who])
            for who, source in learners.items()
        }
        self._score = np.zeros((game.num_slots, game.num_seats), dtype=np.float64)
        self._match_of = np.zeros(game.num_slots, dtype=np.int64)
        self._learns = np.zeros((game.num_slots, game.num_seats), dtype=np.bool_)
        self._waiting = np.flatnonzero(hand.slot == WAITS)
        self._most = {who: actor.most_matches for who, actor in enumerate(actors) if actor.most_matches}
        self._order = OrderOfPlay(matches.take(self._waiting), hand.age[self._waiting], self._most)
        self._free = np.setdiff1d(np.arange(game.num_slots), hand.slot)[: len(self._waiting)]
        self._most_failures, self._failed = most_failures, Counter[str]()
        self._left = np.zeros(len(hand), dtype=np.bool_)  # matches that are not played on
        self.failures: Counter[tuple[str, str]] = Counter()  # forfeits by competitor and cause
        under_way = np.flatnonzero(hand.slot != WAITS)
        self._seat(under_way, hand.slot[under_way])
        for who, held in hand.held:
            if who in self._recorders:
                self._recorders[who].go_on(held, hand.slot[held.match])

    def _seat(self, rows: Indices, slots: Indices) -> None:
        """Seat the matches in these rows [k] in these slots [k], each where it is in the hand."""
        hand = self._hand
        self._match_of[slots], self._learns[slots] = rows, hand.matches.learning[rows]
        self._score[slots] = hand.score[rows]
        self._seats.begin(slots, hand.matches.seat[rows], hand.memory[rows], hand.reward[rows])
        if self._opening is not None:
            self._opening.begin(slots, rows, hand.moves[rows])
            self._opening.leave_out(slots[~hand.opens[rows]])

    def run(self, steps: int | None = None) -> None:
        """Play until all matches are over, or until `steps` steps were made. Raise PlayStopped.

        With `steps` matches are cut in any case, so they are cut earlier once the run is over.
        """
        game, guard, made = self._game, self._guard, 0
        while steps is None or made < steps:
            if self._patience.ended(cut=made > 0 and steps is not None):
                break
            begun = self._order.begin(len(self._free), not game.active.any(), self._under_way())
            fresh = self._waiting[begun]
            if len(fresh):
                slots, self._free = np.split(self._free, [len(fresh)])
                self._seat(fresh, slots)
                self._results.began(fresh)
                guard.reset(slots, self._hand.matches.seed[fresh])
            if not guard.playing:
                break
            blocks = guard.due()
            transition = guard.step(blocks, [self._decide(block) for block in blocks])
            self._score += transition.rewards
            self._seats.rewarded(transition.rewards)
            for recorder in self._recorders.values():
                recorder.rewarded(transition.rewards)
            if len(transition.ended):
                self._end(transition)
            made += 1

    def _under_way(self) -> dict[int, int]:
        """Return the matches that are played now of each competitor that can play only so many."""
        if not self._most:
            return {}
        seat = self._hand.matches.seat[self._match_of[self._game.active]]
        return {who: int((seat == who).any(axis=1).sum()) for who in self._most}

    def _decide(self, block: Decisions) -> npt.NDArray:
        made, moves = NOTHING if self._opening is None else self._opening.make(block)
        action, taken, certain, failed = self._seats.decide(block, self._rng, made)
        learned = self._learns
        if len(made):
            action[made], certain[made] = moves, True
            failed = [each for each in failed if each[0] not in made]
            if self._learners:
                learned = learned.copy()
                learned[block.slot[made], block.seat[made]] = False
        for _, who, why in failed:
            self.failures[self._hand.matches.competitors[who], why.cause] += 1
        if self._fingerprints is not None:
            self._fingerprints.decided(block, action, certain, self._match_of)
        self._transcript.decided(block, action, self._match_of)
        for who, own in taken:
            self._recorders[who].decided(own, self._match_of, learned)
        return action

    def _end(self, transition: Transition) -> None:
        ended = transition.ended
        rows = self._match_of[ended]
        for who, recorder in self._recorders.items():
            recorder.ended(transition, self._match_of, functools.partial(self._seats.shown_to, who))
        self._results.ended(rows, self._score[ended], self._game.env_steps[ended], transition)
        self._seats.ended(ended, self._score[ended], transition.reason)
        if self._fingerprints is not None:
            self._fingerprints.ended(rows, self._score[ended].astype(np.float32), transition.reason)
        self._free = np.concatenate([self._free, ended])
        if self._most_failures and transition.forfeited.any():
            self._withdraw(rows, transition)

    def _withdraw(self, rows: Indices, transition: Transition) -> None:
        """Count the forfeits in these matches [k]; leave all matches of those that have failed too often."""
        matches = self._hand.matches
        failed = transition.forfeited & np.isin(transition.reason, FORFEITS)[:, None]
        gone = []
        for who, name in enumerate(matches.competitors):
            self._failed[name] += int((failed & (matches.seat[rows] == who)).any(axis=1).sum())
            if self._failed[name] >= self._most_failures.get(name, math.inf):
                gone.append(who)
        if not gone:
            return
        self._left |= np.isin(matches.seat, gone).any(axis=1)
        self._order.leave(self._left[self._waiting])
        slots = np.flatnonzero(self._game.active)
        slots = slots[self._left[self._match_of[slots]]]
        self._game.abandon(slots)
        self._free = np.concatenate([self._free, slots])

    # ------------------------------------------------------------------ what it leaves

    def actors(self) -> dict[Source, Actor]:
        """Return the actor of each source."""
        return dict(zip(self._hand.sources, self._actors, strict=True))

    def crashes(self) -> dict[str, int]:
        """Return the number of matches that crashed, by cause."""
        return self._guard.take_crashes()

    def results(self) -> ResultBatch:
        """Return the results of the matches that are over."""
        digest = None if self._fingerprints is None else self._fingerprints.digests()
        found = self._results.batch(self._transcript.recordings(), digest, self._game.draw_margin)
        over = self._results.finished
        return found if len(over) == len(found) else found.take(over)

    def cut(self) -> MatchHand:
        """Cut the episodes where they are, and return the unfinished matches."""
        game, hand = self._game, self._hand
        due = np.zeros((game.num_slots, game.num_seats), dtype=np.bool_)
        for block in self._guard.due():
            due[block.slot, block.seat] = True
        self._end(self._guard.crashed())  # those in which nothing can be decided now
        unfinished = np.setdiff1d(np.flatnonzero(~self._left), self._results.finished)
        if not len(unfinished):
            return hand.take(unfinished)
        held: list[tuple[int, Held]] = []
        for who, recorder in self._recorders.items():
            look = functools.partial(self._seats.shown_to, who)
            held.append((who, recorder.cut(due, self._match_of, look)))
        slots = np.flatnonzero(game.active)
        rows = self._match_of[slots]
        slot, moves, score = np.full(len(hand), WAITS, dtype=np.int64), hand.moves.copy(), hand.score.copy()
        slot[rows], score[rows] = slots, self._score[slots]
        if self._opening is not None:
            moves[rows] = self._opening.moves(slots)
        own_memory, own_reward = self._seats.left(slots)
        memory = np.zeros((len(hand), *own_memory.shape[1:]), dtype=np.float32)
        reward = np.zeros_like(hand.reward)
        memory[rows], reward[rows] = own_memory, own_reward
        now = replace(
            hand,
            slot=slot,
            moves=moves,
            started_at=self._results.started_at,
            score=score,
            memory=memory,
            reward=reward,
            actions=self._transcript.actions(),
            held=tuple(held),
        )
        return now.take(unfinished)

    def episodes(self) -> dict[str, Episodes]:
        """Return each learner's episodes, in the order of the matches; of each version apart."""
        parts: dict[str, list[Episodes]] = {}
        for who, recorder in self._recorders.items():
            player = self._learners[who].player
            parts.setdefault(player, []).append(recorder.episodes(self._hand.matches))
        return {player: Episodes.concatenate(own) for player, own in parts.items()}


def _recurrent(actor: Actor) -> int:
    """Return the size of the memory of an actor's network."""
    return actor.recurrent_size if isinstance(actor, Policy) else 0
