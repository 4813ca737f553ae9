"""Recorded matches, opened one at a time to be shown. Nothing here needs torch: no policy plays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.rollout.traces.transcript import Prompter
from league.watching.replay import recorded
from storage.arrays import Indices
from storage.errors import Mistake

FIRST = np.zeros(1, dtype=np.int64)  # the slot of a match that is watched


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
