"""Play: matches shown move by move as text, between competitors or with a person in some seats.

Without a person everything is shown. A person sees only what their seat may see, and the moves of the
others after the match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.envs.base import Decisions
from league.models.policies.policy import Policy
from league.rollout.traces.transcript import Prompter
from league.watching.person import Ask, Person, Show
from league.watching.replay import Recorded, recorded
from league.watching.seating import HUMAN, require_text, seat_competitors
from league.watching.table import Table, Watched
from storage.errors import Mistake


def play(
    run: str | Path,
    names: Sequence[str],
    *,
    games: int = 1,
    seed: int = 0,
    delay: float = 0.0,
    verbose: bool = False,
    show: Show = print,
    ask: Ask = input,
) -> None:
    """Play the game of `run` with one of `names` in each seat: see `league.competitors.names`, or `human`.

    `delay`: seconds after each move; `verbose`: show the policies' probabilities and values.
    Raise as `seat_competitors`, and EOFError if a person ends the input.
    """
    seating = seat_competitors(run, names, lambda game, seat: Person(game, seat, show, ask))
    if verbose:
        watched = (Watched(actor) if isinstance(actor, Policy) else actor for actor in seating.actors)
        seating = replace(seating, actors=tuple(watched))
    game, seats = seating.game, seating.seats()
    rng = np.random.default_rng(seed)

    def answer(blocks: list[Decisions], rewards: npt.NDArray[np.float32]) -> list[npt.NDArray]:
        seats.rewarded(rewards)
        return [seats.decide(block, rng).action for block in blocks]

    table = Table(game, names, seating.team_of_seat, show, delay, seating.actors, guarded=HUMAN in names)
    for number in range(1, games + 1):
        if games > 1:
            show(f"--- game {number} of {games}")
        seats.begin(np.zeros(1, dtype=np.int64), np.arange(game.num_seats, dtype=np.int32)[None])
        table.play(int(rng.integers(2**63)), answer)
    if games > 1:
        table.show_totals()


def show_recorded(run: str | Path, match_id: int, *, delay: float = 0.0, show: Show = print) -> None:
    """Show a recorded match of `run` move by move.

    Raise Mistake if the match was not recorded, or if its game cannot be shown as text.
    """
    found = find_recorded(run, match_id)
    game = found.make_game(1)
    matches, row = found.results.matches, int(found.recordings.row[0])
    require_text(game, matches.env)
    prompter = Prompter(game, found.recordings)
    first = np.zeros(1, dtype=np.int64)
    prompter.begin(first, first)

    def answer(blocks: list[Decisions], _: npt.NDArray[np.float32]) -> list[npt.NDArray] | None:
        actions = prompter.answer(blocks)
        return None if prompter.ran_out(first)[0] else actions

    names = [seat.competitor for seat in matches[row].seats]
    table = Table(game, names, found.team_of_seat(), show, delay)
    table.play(int(matches.seed[row]), answer)


def find_recorded(run: str | Path, match_id: int) -> Recorded:
    """Return a recorded match of `run`. Raise Mistake if it was not recorded."""
    found = next(recorded(run, f"match_id = {match_id}"), None)
    if found is None:
        raise Mistake(
            f"{run}: match {match_id} was not recorded action by action, expected one of: "
            'league sql RUN "SELECT match_id FROM matches JOIN recordings USING (seq)"'
        )
    return found
