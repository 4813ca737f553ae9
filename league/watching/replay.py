"""Replay: recorded matches played again from their seeds and actions, and held against the ledger.

The game is the one that the run was configured with when the match was played. A match is the same
if outcome, score, rank, length and the reason of its end are, scores to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import yaml

from league.envs import registry
from league.envs.base import BatchedGame
from league.rollout.prompter import Prompter
from league.rollout.traces.outcomes import placed
from league.rollout.traces.transcript import spans
from storage import query
from storage.errors import Mistake
from storage.layout import LEDGER, require_run
from storage.ledger.ledger import read_frames
from storage.records import EndReason, Outcome, Recordings, ResultBatch
from storage.tables import columns

_TABLES = ("runs", "matches", "seats", "recordings")


class Difference(NamedTuple):
    """In what a match was another when it was played again."""

    match_id: int
    what: str
    recorded: Any
    replayed: Any


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of playing matches again."""

    matches: int
    identical: int
    crashed: int  # when they were recorded and not again: the same as far as they went
    differing: int
    first: tuple[Difference, ...]  # all of the first match that differs


@dataclass(frozen=True, slots=True)
class Recorded:
    """Matches that were recorded together, and how the run was configured then."""

    config: Mapping[str, Any]
    results: ResultBatch  # all that were played together
    recordings: Recordings  # of those wanted

    def make_game(self, most: int) -> BatchedGame:
        """The game that they were played in, for up to `most` at once. Raises UnknownEnv, BadOption."""
        env, rollout = self.config["env"], self.config["rollout"]
        slots = min(most, rollout["slots"])
        return registry.make(env["id"], slots, step_limit=rollout["step_limit"], **env["options"])

    def team_of_seat(self) -> npt.NDArray[np.int64] | None:
        """Return the team of each seat [num_seats]; `None` if each seat is its own team."""
        stored = self.results.matches.team_of_seat
        if stored is None:  # perhaps recorded before teams were stored
            return team_of_seat(self.config)
        return np.array(stored, dtype=np.int64)


def team_of_seat(config: Mapping[str, Any]) -> npt.NDArray[np.int64] | None:
    """The team of each seat [num_seats] of a league or tournament with that config; None: everyone for
    itself."""
    sizes = (config.get("matchmaking") or config).get("teams")
    return None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)


def replay(run: str | Path, where: str | None = None, limit: int | None = None) -> Replayed:
    """Play recorded matches of `run` again, also while it trains: all, or the first `limit` of those for
    which `where`, a condition in SQL on the columns of `matches`, holds.

    Raises NotARun, CorruptLedger, BadQuery; Mistake when no such match was recorded, UnknownEnv or
    BadOption when the run's game cannot be made here.
    """
    matches = crashed = differing = 0
    first: tuple[Difference, ...] = ()
    game, made_for = None, None
    for found in recorded(run, where, limit):
        if game is None or found.config is not made_for:
            game, made_for = found.make_game(limit or 2**31), found.config
        again = play_again(game, found)
        for i, row in enumerate(found.recordings.row.tolist()):
            differences = again.differences(i, found.results, row)
            if differences:
                differing += 1
                first = first or tuple(differences)
            elif found.results.reason[row] != again.reason[i]:
                crashed += 1
        matches += len(found.recordings)
    if not matches:
        which = "" if where is None else f" where {where}"
        raise Mistake(
            f"{run}: no match{which} was recorded action by action; "
            "set rollout.record before a run is trained"
        )
    return Replayed(matches, matches - crashed - differing, crashed, differing, first)


def recorded(run: str | Path, where: str | None = None, limit: int | None = None) -> Iterator[Recorded]:
    """The recorded matches of `run`, as `replay` chooses them, in the order of recording."""
    run = Path(run)
    require_run(run)
    wanted = None if where is None else _seqs(run, where)
    config: Mapping[str, Any] = {}
    left = math.inf if limit is None else limit
    for frame in read_frames(run / LEDGER, tables=_TABLES):
        if "runs" in frame.tables:
            config = yaml.safe_load(frame.tables["runs"]["config"][-1].as_py())
        if left <= 0:
            return
        if "recordings" not in frame.tables:
            continue
        results = columns.results_of(frame.tables)
        assert results.recordings is not None
        chosen = np.arange(len(results.recordings))
        if wanted is not None:
            seqs = frame.tables["recordings"]["seq"].to_numpy()
            chosen = np.flatnonzero(np.isin(seqs, wanted))
        chosen = chosen[: int(min(left, len(chosen)))]
        if len(chosen):
            left -= len(chosen)
            yield Recorded(config, results, _of(results.recordings, chosen))


def _of(recordings: Recordings, chosen: npt.NDArray[np.int64]) -> Recordings:
    start, size = recordings.offset[chosen], np.diff(recordings.offset)[chosen]
    offset = np.concatenate([[0], np.cumsum(size)])
    return Recordings(recordings.row[chosen], offset, recordings.action[spans(start, size)])


def _seqs(run: Path, where: str) -> npt.NDArray[np.int64]:
    """Of the recorded matches for which the condition holds. Raises BadQuery."""
    rows = query(run, f"SELECT seq FROM matches WHERE seq IN (SELECT seq FROM recordings) AND ({where}\n)")
    return rows["seq"].to_numpy()


@dataclass(frozen=True, slots=True)
class Again:
    """How k recorded matches went when they were played again."""

    score: npt.NDArray[np.float32]  # [k, S]
    outcome: npt.NDArray[np.int8]  # [k, S]
    rank: npt.NDArray[np.int8]  # [k, S]
    env_steps: npt.NDArray[np.int32]  # [k]
    reason: npt.NDArray[np.int8]  # [k]
    ran_out: npt.NDArray[np.bool_]  # [k]: they went on behind their last recorded action

    def differences(self, i: int, results: ResultBatch, row: int) -> list[Difference]:
        """Between match i and what was recorded in `row`. A match that crashed then and went on now is the
        same as far as it went."""
        match_id = int(results.matches.match_id[row])
        if results.reason[row] == EndReason.CRASH != self.reason[i]:
            if self.env_steps[i] >= results.env_steps[row]:
                return []
        elif self.ran_out[i]:
            return [Difference(match_id, "actions", "all that were taken", "more were due")]
        found = []
        for what in ("outcome", "score", "rank", "env_steps", "reason"):
            before, now = (np.atleast_1d(getattr(side, what)[at]) for side, at in ((results, row), (self, i)))
            if before.tobytes() != now.astype(before.dtype).tobytes():
                found.append(Difference(match_id, what, _told(what, before), _told(what, now)))
        return found


def _told(what: str, values: npt.NDArray) -> Any:
    """Values of one match as a person reads them."""
    kinds: dict[str, type[Outcome | EndReason]] = {"outcome": Outcome, "reason": EndReason}
    told = [kinds[what](v).name.lower() if what in kinds else v.item() for v in values]
    return told[0] if len(told) == 1 else tuple(told)


def play_again(game: BatchedGame, found: Recorded) -> Again:
    """Play the k matches of `found`, as many at once as the game has slots."""
    recordings, seeds = found.recordings, found.results.matches.seed[found.recordings.row]
    k, seats = len(recordings), game.num_seats
    total = np.zeros((k, seats), dtype=np.float32)
    forfeited, ran_out = np.zeros((k, seats), dtype=np.bool_), np.zeros(k, dtype=np.bool_)
    env_steps, reason = np.zeros(k, dtype=np.int32), np.zeros(k, dtype=np.int8)
    prompter = Prompter(game, recordings)
    score = np.zeros((game.num_slots, seats), dtype=np.float32)
    match_of = np.zeros(game.num_slots, dtype=np.int64)
    free = np.arange(game.num_slots)
    begun = 0
    while begun < k or game.active.any():
        free = free[: k - begun]
        if len(free):
            fresh = np.arange(begun, begun + len(free))
            begun += len(free)
            match_of[free], score[free] = fresh, 0.0
            prompter.begin(free, fresh)
            game.reset(free, seeds[fresh])
        transition = game.step(prompter.answer(game.due()))
        score += transition.rewards
        free = transition.ended
        ended = match_of[free]
        total[ended], forfeited[ended] = score[free], transition.forfeited
        env_steps[ended], reason[ended] = game.env_steps[free], transition.reason
        ran_out[ended] = prompter.ran_out(free)
    outcome, rank = placed(total, forfeited, found.team_of_seat())
    return Again(total, outcome, rank, env_steps, reason, ran_out)
