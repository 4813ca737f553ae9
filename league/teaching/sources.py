"""Where stored games come from: a run folder, a PGN, histories of OpenSpiel, a Parquet file of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from league.teaching.games import Games, Spaces
from league.teaching.played import recorded_games
from league.teaching.states import CHESS, history_lines, pgn_lines, state_games
from league.teaching.tables import table_games
from storage.errors import Mistake

KINDS = (".parquet", ".pgn", ".txt")


def games_of(
    source: Path, env: tuple[str, Mapping[str, Any]] | None, where: str | None = None
) -> tuple[Spaces, Iterator[Games]]:
    """Return the games of a source, which is a run folder or a file of one of KINDS.

    `env`: id and options of their game; a run knows its own. `where`: of a run, see `recorded_games`. Raise
    Mistake for a source that is no such thing, or of another game.
    """
    if source.is_dir():
        return recorded_games(source, where)
    kind = source.suffix.lower()
    if not source.is_file() or kind not in KINDS:
        found = "a file of another kind" if source.is_file() else "nothing there"
        raise Mistake(
            f"{source}: found {found}, expected a run folder or a file of games: .parquet, .pgn, or .txt "
            "with a history of OpenSpiel in each line"
        )
    if where is not None:
        raise Mistake(f"--where: found it beside {source}, expected a run whose matches it selects")
    if kind == ".pgn" and env is None:
        env = (CHESS, {})
    if env is None:
        raise Mistake(f"{source}: does not say of which game it is, expected --env ID beside it")
    spaces = Spaces.of(*env)
    if kind == ".parquet":
        return spaces, table_games(source, spaces)
    wanted = CHESS if kind == ".pgn" else "openspiel:"
    if not spaces.env["id"].startswith(wanted):
        raise Mistake(f"{source}: found env '{spaces.env['id']}', expected {wanted} for a file {kind}")
    lines = pgn_lines(source, spaces) if kind == ".pgn" else history_lines(source)
    return spaces, state_games(spaces, lines)
