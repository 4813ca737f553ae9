"""Play: matches shown move by move as text, between competitors or with a person in some seats.

Without a person everything is shown. A person sees only what their seat may see, and the moves of the
others after the match.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.competitors.names import bot_settings, load_snapshot, mixture_actor, resolve, role_of
from league.envs import registry
from league.envs.adapters.gymnasium.following import following
from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.rollout.prompter import Prompter
from league.rollout.requests import BotSource, MixtureSource
from league.rollout.seats import Seats
from league.rollout.snapshots import SnapshotSource
from league.watching.person import Ask, Person, Show
from league.watching.replay import recorded, team_of_seat
from league.watching.table import Table, Watched
from storage import open_reader
from storage.errors import Mistake

HUMAN = "human"


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
    Raise UnknownCompetitor, CorruptBlob, Mistake for a game that cannot be shown as text or has another
    number of seats, EOFError if a person ends the input.
    """
    reader = open_reader(run)
    config, env = reader.config(), reader.env()
    if envs := following(config):  # the env of each seat is that of its competitor
        given = [None if name == HUMAN else resolve(reader, name, env["id"]) for name in names]
        keys = [None if source is None else role_of(reader, source) for source in given]
        if len(keys) == envs.num_seats:
            env = {"id": envs.env_id(keys), "options": envs.options(envs.env_id(keys))}
    game = registry.make(env["id"], 1, step_limit=config["rollout"]["step_limit"], **env["options"])
    _require_text(game, env["id"])
    if len(names) != game.num_seats:
        raise Mistake(
            f"play: found {len(names)} competitors, '{env['id']}' has {game.num_seats} seats; "
            f"name who sits in each ('{HUMAN}' for yourself)"
        )
    sources = [None if name == HUMAN else resolve(reader, name, env["id"]) for name in names]
    actors: list[Actor] = []
    for seat, source in enumerate(sources):
        if source is None:
            actors.append(Person(game, seat, show, ask))
        elif isinstance(source, BotSource):
            bot = seated_bot(source.name, env["id"], game, bot_settings(config))
            _require_seat(source.name, seat, seat in bot.seats)
            actors.append(bot.actor)
        elif isinstance(source, MixtureSource):
            _require_seat(names[seat], seat, all(_sees(member, game, seat) for member in source.members))
            actors.append(mixture_actor(source))
        else:
            _require_seat(names[seat], seat, _sees(source, game, seat))
            policy = load_snapshot(source)
            actors.append(Watched(policy) if verbose else policy)
    seats = Seats(game, actors, [s.temperature if isinstance(s, SnapshotSource) else 1.0 for s in sources])
    rng = np.random.default_rng(seed)

    def answer(blocks: list[Decisions], rewards: npt.NDArray[np.float32]) -> list[npt.NDArray]:
        seats.rewarded(rewards)
        return [seats.decide(block, rng).action for block in blocks]

    table = Table(game, names, team_of_seat(config), show, delay, actors, guarded=HUMAN in names)
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
    found = next(recorded(run, f"match_id = {match_id}"), None)
    if found is None:
        raise Mistake(
            f"{run}: match {match_id} was not recorded action by action, expected one of: "
            'league sql RUN "SELECT match_id FROM matches JOIN recordings USING (seq)"'
        )
    game = found.make_game(1)
    matches, row = found.results.matches, int(found.recordings.row[0])
    _require_text(game, matches.env)
    prompter = Prompter(game, found.recordings)
    first = np.zeros(1, dtype=np.int64)
    prompter.begin(first, first)

    def answer(blocks: list[Decisions], _: npt.NDArray[np.float32]) -> list[npt.NDArray] | None:
        actions = prompter.answer(blocks)
        return None if prompter.ran_out(first)[0] else actions

    names = [seat.competitor for seat in matches[row].seats]
    table = Table(game, names, found.team_of_seat(), show, delay)
    table.play(int(matches.seed[row]), answer)


def _require_text(game: BatchedGame, env_id: str) -> None:
    if not game.renders:
        raise Mistake(
            f"play: '{env_id}' cannot be shown as text, expected a game that can: a native one, one of "
            "OpenSpiel's, or an env of another library whose render mode is 'ansi'"
        )


def _sees(source: SnapshotSource, game: BatchedGame, seat: int) -> bool:
    """Return whether a snapshot has the spaces of that seat."""
    spaces = game.observation_specs[seat], game.action_specs[seat]
    return (source.spec.observation, source.spec.action) == spaces


def _require_seat(name: str, seat: int, fits: bool) -> None:
    if not fits:
        raise Mistake(
            f"play: '{name}' cannot take seat {seat}, whose observations or actions differ from its own; "
            "give it another seat"
        )
