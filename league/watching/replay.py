"""Replay: recorded matches are played again from their seeds and actions, and compared with the ledger.

The game is the one that the run was configured with when the match was played. Two matches are identical
if outcome, score (to the bit), rank, length and the reason of their end are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import yaml

from league.envs import registry
from league.envs.adapters.gymnasium.seats import following
from league.envs.base import BatchedGame, Decisions, Transition
from league.rollout.settings import FEWEST_SLOTS
from league.rollout.traces.results import placed
from league.rollout.traces.transcript import Prompter, spans
from storage import query
from storage.arrays import Bools, Floats32, Indices
from storage.errors import BadQuery, Mistake
from storage.layout import LEDGER, require_run
from storage.ledger.ledger import read_frames, summed_until
from storage.records import FORFEITS, EndReason, Outcome, Recordings, ResultBatch
from storage.tables import columns

_TABLES = ("runs", "matches", "seats", "recordings")
FIRST = np.zeros(1, dtype=np.int64)  # the slot of a match that is watched


class Difference(NamedTuple):
    """Fact in which a replayed match differs from its record."""

    match_id: int
    what: str
    recorded: Any
    replayed: Any


@dataclass(frozen=True, slots=True)
class Replayed:
    """Counts of a replay."""

    matches: int
    identical: int
    crashed: int  # in the record and not in the replay; identical up to the crash
    differing: int
    first: tuple[Difference, ...]  # all differences of the first match that differs


@dataclass(frozen=True, slots=True)
class Recorded:
    """Matches that were recorded together, and the config of the run at that time."""

    config: Mapping[str, Any]
    results: ResultBatch  # of all matches that were played together
    recordings: Recordings  # of the selected matches

    def make_game(self, most: int) -> BatchedGame:
        """Return the game of the matches, for up to `most` at once. Raise UnknownEnv, BadOption."""
        env_id, rollout = self.results.matches.env, self.config["rollout"]
        slots = FEWEST_SLOTS if rollout["slots"] == "auto" else rollout["slots"]
        env = self.config["env"]
        options = env["options"]
        if env_id != env["id"] and (envs := following(self.config)):
            options = envs.options(env_id)
        else:
            env_id = env["id"]
        return registry.make(env_id, min(most, slots), step_limit=rollout["step_limit"], **options)

    def team_of_seat(self) -> Indices | None:
        """Return the team of each seat [num_seats]; `None` if each seat is its own team."""
        stored = self.results.matches.team_of_seat
        if stored is None:  # perhaps recorded before teams were stored
            return team_of_seat(self.config)
        return np.array(stored, dtype=np.int64)


def team_of_seat(config: Mapping[str, Any]) -> Indices | None:
    """Return the team of each seat [num_seats] by a config, or `None` if every seat plays for itself."""
    sizes = (config.get("matchmaking") or config).get("teams")
    return None if sizes is None else np.repeat(np.arange(len(sizes)), sizes)


def replay(run: str | Path, where: str | None = None, limit: int | None = None) -> Replayed:
    """Play recorded matches of `run` again and count the differences; the run may be in training.

    `where`: an SQL condition on the columns of `matches`, or `None` for all; `limit`: the greatest number.
    Raise NotARun, CorruptLedger, BadQuery, Mistake if no such match was recorded, UnknownEnv or BadOption
    if the run's game cannot be made here.
    """
    matches = crashed = differing = 0
    first: tuple[Difference, ...] = ()
    games: dict[str, BatchedGame] = {}  # by the id of their env
    made_for = None
    for found in recorded(run, where, limit):
        if found.config is not made_for:
            games, made_for = {}, found.config
        env_id = found.results.matches.env
        if env_id not in games:
            games[env_id] = found.make_game(limit or 2**31)
        again = play_again(games[env_id], found)
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
        if gone := summed_until(Path(run) / LEDGER):
            raise Mistake(
                f"{run}: no match{which} is recorded action by action since ledger frame {gone}; older "
                "matches were summed up (storage.retention), and their actions are gone: choose a newer one"
            )
        raise Mistake(
            f"{run}: no match{which} was recorded action by action; "
            "set rollout.record before a run is trained"
        )
    return Replayed(matches, matches - crashed - differing, crashed, differing, first)


def recorded(run: str | Path, where: str | None = None, limit: int | None = None) -> Iterator[Recorded]:
    """Yield the recorded matches of `run` in the order of recording; for `where` and `limit` see `replay`."""
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
            yield Recorded(config, results, _select(results.recordings, chosen))


def _select(recordings: Recordings, chosen: Indices) -> Recordings:
    start, size = recordings.offset[chosen], np.diff(recordings.offset)[chosen]
    offset = np.concatenate([[0], np.cumsum(size)])
    return Recordings(recordings.row[chosen], offset, recordings.action[spans(start, size)])


def _seqs(run: Path, where: str) -> Indices:
    """Return the sequence numbers of recorded matches that fulfil the condition. Raise BadQuery."""
    recorded = "SELECT seq FROM matches WHERE seq IN (SELECT seq FROM recordings)"
    try:
        rows = query(run, f"{recorded} AND ({where}\n)")
    except BadQuery as error:
        raise BadQuery(f"condition on matches '{where}': {error}") from None
    return rows["seq"].to_numpy()


@dataclass(frozen=True, slots=True)
class ReplayedResults:
    """Results of k recorded matches in their replay."""

    score: Floats32  # [k, S]
    outcome: npt.NDArray[np.int8]  # [k, S]
    rank: npt.NDArray[np.int8]  # [k, S]
    env_steps: npt.NDArray[np.int32]  # [k]
    reason: npt.NDArray[np.int8]  # [k]
    ran_out: Bools  # [k], the match went on after its last recorded action

    def differences(self, i: int, results: ResultBatch, row: int) -> list[Difference]:
        """Return the differences between match i and its record in `row`.

        A match that crashed in the record and goes on in the replay has none if it is as long.
        """
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
                found.append(Difference(match_id, what, _to_text(what, before), _to_text(what, now)))
        return found


def _to_text(what: str, values: npt.NDArray) -> Any:
    """Return values of one match in readable form."""
    kinds: dict[str, type[Outcome | EndReason]] = {"outcome": Outcome, "reason": EndReason}
    shown = [kinds[what](v).name.lower() if what in kinds else v.item() for v in values]
    return shown[0] if len(shown) == 1 else tuple(shown)


class Onlooker(Protocol):
    """What sees every step of matches that are played again; `match_of` [num_slots]: 0 to k - 1."""

    def decided(self, blocks: Sequence[Decisions], actions: Sequence[npt.NDArray], match_of: Indices) -> None:
        """See all actions of a step before the game makes it."""

    def stepped(self, transition: Transition, match_of: Indices) -> None:
        """See what the step led to."""


def play_again(game: BatchedGame, found: Recorded, onlooker: Onlooker | None = None) -> ReplayedResults:
    """Play the k matches of `found` again, as many at once as the game has slots."""
    recordings, seeds = found.recordings, found.results.matches.seed[found.recordings.row]
    k, seats = len(recordings), game.num_seats
    total = np.zeros((k, seats), dtype=np.float64)
    forfeited, ran_out = np.zeros((k, seats), dtype=np.bool_), np.zeros(k, dtype=np.bool_)
    env_steps, reason = np.zeros(k, dtype=np.int32), np.zeros(k, dtype=np.int8)
    prompter = Prompter(game, recordings)
    score = np.zeros((game.num_slots, seats), dtype=np.float64)
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
        blocks = game.due()
        actions = prompter.answer(blocks)
        if onlooker is not None:
            onlooker.decided(blocks, actions, match_of)
        transition = game.step(actions)
        if onlooker is not None:
            onlooker.stepped(transition, match_of)
        score += transition.rewards
        free = transition.ended
        ended = match_of[free]
        total[ended], forfeited[ended] = score[free], transition.forfeited
        env_steps[ended], reason[ended] = game.env_steps[free], transition.reason
        ran_out[ended] = prompter.ran_out(free)
    before = found.results.reason[recordings.row]
    given_up = np.isin(before, FORFEITS) & np.isin(
        reason, FORFEITS
    )  # no answer is recorded as no legal action
    reason = np.where(given_up, before, reason)
    outcome, rank = placed(total, forfeited, found.team_of_seat(), game.draw_margin)
    return ReplayedResults(total.astype(np.float32), outcome, rank, env_steps, reason, ran_out)


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A recorded match, and the game in which it is played again in slot 0."""

    game: BatchedGame
    env_id: str
    names: list[str]  # of the competitors, by seat
    seed: int
    team_of_seat: Indices | None
    prompter: Prompter

    def answer(self, blocks: list[Decisions]) -> list[npt.NDArray] | None:
        """Return the recorded actions of these decisions; `None` after the last one that was recorded."""
        actions = self.prompter.answer(blocks)
        return None if self.prompter.ran_out(FIRST)[0] else actions


def open_recorded(run: str | Path, match_id: int) -> OpenRecord:
    """Return a recorded match of `run`. Raise Mistake if it was not recorded, or cannot be shown as text."""
    found = next(recorded(run, f"match_id = {match_id}"), None)
    if found is None:
        raise Mistake(
            f"{run}: match {match_id} was not recorded action by action, expected one of: "
            'league sql RUN "SELECT match_id FROM matches JOIN recordings USING (seq)"'
        )
    game, matches, row = found.make_game(1), found.results.matches, int(found.recordings.row[0])
    require_text(game, matches.env)
    prompter = Prompter(game, found.recordings)
    prompter.begin(FIRST, FIRST)
    names = [seat.competitor for seat in matches[row].seats]
    return OpenRecord(game, matches.env, names, int(matches.seed[row]), found.team_of_seat(), prompter)


def require_text(game: BatchedGame, env_id: str) -> None:
    """Raise Mistake unless matches of `game` can be shown as text."""
    if not game.renders:
        raise Mistake(
            f"play: '{env_id}' cannot be shown as text, expected a game that can: a native one, one of "
            "OpenSpiel's, or an env of another library whose render mode is 'ansi'"
        )
