"""Games of runs: matches that were recorded, and matches that competitors play for the purpose.

They are played again from their actions, so that what was seen need not have been stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.arena.arena import Arena
from league.arena.matches import drawn_seed
from league.competitors.names import name_of
from league.envs import registry
from league.envs.base import BatchedGame, Decisions, Transition, is_legal
from league.models.actor import Chosen
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.openings import Openings, TrainingOpenings
from league.rollout.seats import Taken
from league.rollout.traces.recorder import Recorder
from league.teaching.games import Games, Spaces
from league.watching.replay import Recorded, play_again, recorded
from storage import open_reader, query
from storage.arrays import Indices
from storage.errors import Mistake
from storage.records import EndReason, Outcome, Purpose

SLOTS = 1024  # matches at a time
MATCHES = 4096  # played in one request
_WORDS = np.array([outcome.name.lower() for outcome in Outcome], dtype=object)


class _Seen:
    """Decisions of all seats of k matches that are played again: not those of an opening, or illegal ones."""

    def __init__(self, game: BatchedGame, opening: Indices) -> None:
        """Look at no match yet. `opening` [k]: the number of first decisions of each that were random."""
        spec = PolicySpec(PolicySettings(), game.observation_specs[0], game.action_specs[0])
        self._game, self._opening = game, opening
        self.recorder = Recorder(game, "", 0, spec)
        self._learns = np.ones((game.num_slots, game.num_seats), np.bool_)

    def decided(self, blocks: Sequence[Decisions], actions: Sequence[npt.NDArray], match_of: Indices) -> None:
        for block, action in zip(blocks, actions, strict=True):
            slot, seat = block.slot, block.seat
            number = self._game.env_steps[slot] + np.arange(len(block)) - np.searchsorted(slot, slot)
            legal = is_legal(self._game.action_specs[0], block.mask, action)
            rows = np.flatnonzero(legal & (number >= self._opening[match_of[slot]]))
            seen, raw = block.observation[rows], action[rows]
            made = Chosen(raw, np.zeros(len(rows), np.float32), seen, raw)
            self.recorder.decided(
                Taken(slot[rows], seat[rows], block.mask[rows], made), match_of, self._learns
            )

    def stepped(self, transition: Transition, match_of: Indices) -> None:
        self.recorder.rewarded(transition.rewards)
        self.recorder.ended(transition, match_of, self._game.look)


def _seen(
    game: BatchedGame,
    found: Recorded,
    ratings: Mapping[str, float],
    openings: Openings | None,
    called: Mapping[str, str],
) -> Games:
    """Return what was seen in matches that did not crash; `called`: names of competitors that have others."""
    results, rows = found.results, found.recordings.row
    matches = results.matches.take(rows)
    opening = np.zeros(len(rows), np.int64)
    if openings is not None:
        opening[:] = openings.random_plies(matches.seed)
    seen = _Seen(game, opening)
    play_again(game, found, seen)
    made = seen.recorder.episodes(matches)
    place = {number: row for row, number in zip(rows.tolist(), matches.match_id.tolist(), strict=True)}
    row = np.array([place[number] for number in made.match_id.tolist()], dtype=np.int64)
    whole = np.flatnonzero(results.reason[row] != EndReason.CRASH)
    made, row = made.take(whole), row[whole]
    names = np.array([called.get(name, name) for name in matches.competitors], dtype=object)
    player = names[results.matches.seat[row, made.seat]]
    return Games(
        made,
        player=player,
        rating=np.array([ratings.get(name, np.nan) for name in player], np.float32),
        outcome=_WORDS[results.outcome[row, made.seat]],
        score=results.score[row, made.seat],
    )


def recorded_games(run: Path, where: str | None = None) -> tuple[Spaces, Iterator[Games]]:
    """Return the games of `run` that were recorded action by action, those of its own env.

    `where`: an SQL condition on the columns of `matches`. Raise as `league.watching.replay.recorded`, and
    Mistake if there is none.
    """
    env = open_reader(run).env()
    if env["id"] is None:
        raise Mistake(f"{run}: found games that were played elsewhere, expected some with all their actions")
    spaces, ratings = Spaces.of(env["id"], env["options"]), _ratings(run)

    def found() -> Iterator[Games]:
        game: BatchedGame | None = None
        for each in recorded(run, where):
            matches = each.results.matches
            if matches.env != env["id"]:
                continue
            game = each.make_game(SLOTS) if game is None else game
            drawn = TrainingOpenings.model_validate(each.config.get("opening") or {}).openings()
            yield _seen(game, each, ratings, drawn if matches.purpose == Purpose.TRAINING else None, {})
        if game is None:
            which = "" if where is None else f" where {where}"
            raise Mistake(
                f"{run}: no match of '{env['id']}'{which} was recorded action by action; set "
                "rollout.record before a run is trained, or name competitors that play now: league games "
                f"{run} best --to FILE"
            )

    return spaces, found()


def played_games(
    run: Path, names: Sequence[str], matches: int, *, seed: int = 0, plies: int = 0
) -> tuple[Spaces, Iterator[Games]]:
    """Return about so many games that competitors of `run` play now: one in all seats, or one for each team.

    `plies`: random first moves of each match, which are left out. Raise as `Arena.seat`, and Mistake for
    another number of competitors.
    """
    arena = Arena.of_runs(run, slots=SLOTS, record=1.0)
    agreed, ratings = arena.agreed, _ratings(run)
    names = list(names) * agreed.num_teams if len(names) == 1 else list(names)
    if len(names) != agreed.num_teams:
        raise Mistake(
            f"games: found {len(names)} competitors, expected one, which takes all seats, or "
            f"{agreed.num_teams}: one for each seat or team of '{agreed.env_id}'"
        )
    spaces = Spaces.of(agreed.env_id, agreed.env_options, agreed.game)
    openings = Openings(plies) if plies else None
    if openings is not None:
        openings.check(agreed.game)
    seated = replace(arena.seat(*names), openings=openings)
    table = arena.table("games", seed, Purpose.TOURNAMENT)
    called = {label: name_of(arena.find(name)) for label, name in zip(seated.names, names, strict=True)}

    def found() -> Iterator[Games]:
        game = registry.make(agreed.env_id, SLOTS, step_limit=agreed.step_limit, **agreed.env_options)
        size = MATCHES // table.games
        for first in range(0, -(-matches // table.games), size):
            pairing = np.tile(np.arange(agreed.num_teams), (size, 1))
            batch = table.pairs(seated.names, pairing, first)
            for results in arena.play(seated, batch, drawn_seed(seed, first)):
                assert results.recordings is not None
                each = Recorded({}, results, results.recordings)
                yield _seen(game, each, ratings, openings, called)

    return spaces, found()


def _ratings(run: Path) -> dict[str, float]:
    """Return the newest rating of each competitor of a run, its mu."""
    rows = query(run, "SELECT competitor, max_by(mu, seq) AS mu FROM ratings GROUP BY competitor")
    return dict(zip(rows["competitor"].to_pylist(), rows["mu"].to_pylist(), strict=True))
