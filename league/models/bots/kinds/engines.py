"""Engines as bots: of chess by UCI, of go by GTP, in the games of OpenSpiel and PettingZoo.

An engine gets the whole match at each decision, so that it needs no memory of it.

    UCI  R. Huber and S. Meyer-Kahlen: Universal Chess Interface, 2006
    GTP  G. Farneback: Specification of the Go Text Protocol, version 2, draft 2, 2002
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec
from league.models.actor import Look
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.line_process import LineFailed, LineProcess
from league.models.bots.kinds.process_bot import START_SECONDS, Asked, ProcessBot
from league.models.bots.settings import EngineSettings
from storage.errors import Mistake
from storage.records import EndReason

SEARCH = ("depth", "nodes", "movetime")  # options of a search; others are of the engine
USUAL_SEARCH = "movetime 100"  # milliseconds
SHARE = 0.8  # of the seconds that are left, which a search may take
GAMES = "/usr/games"  # where Debian has engines, which not every PATH names
COLUMNS = "ABCDEFGHJKLMNOPQRST"  # of a board of go
PASS = "PASS"


def engine_bot(name: str, env_id: str, settings: EngineSettings, action: ActionSpec) -> ProcessBot:
    """Return the engine for `env_id`. Raise UnknownBot if it does not play it, or does not start."""
    make = {"uci": Uci, "gtp": Gtp}[settings.kind]
    library, _, game = env_id.partition(":")
    own = game.partition("(")[0].removeprefix("classic/").partition("_v")[0]
    if library not in ("openspiel", "pettingzoo") or own != make.plays:
        raise UnknownBot(
            f"bot '{name}' of kind {settings.kind} cannot play '{env_id}', expected {make.plays}: "
            f"openspiel:{make.plays} or pettingzoo:classic/{make.plays}_v{make.version}"
        )
    return make(name, settings, action)


class _Engine(ProcessBot):
    plays: str
    version: int  # of PettingZoo's game

    def __init__(self, name: str, settings: EngineSettings, action: ActionSpec) -> None:
        words = shlex.split(settings.command)
        path = os.pathsep.join([os.environ.get("PATH", ""), GAMES])
        words[0] = shutil.which(words[0], path=path) or words[0]
        self._options = {key: _shown(value) for key, value in settings.options.items()}
        super().__init__(name, words, settings.processes, action, None)

    def _read(self, named: Mapping[str, int], move: str) -> npt.NDArray:
        """Return the action of a move. Raise LineFailed for one that is not legal."""
        if move not in named:
            raise LineFailed(f"it played {move}, which is not legal there", EndReason.ILLEGAL_ACTION)
        return np.array(named[move], dtype=self._dtype)

    @staticmethod
    def _match(game: BatchedGame | None, slot: int) -> Any:
        """Return the library's object of a match."""
        if game is None:
            raise Mistake(
                "an engine cannot act on observations, because it gets the whole match; seat it in one"
            )
        native = game.native(slot)
        return getattr(native, "unwrapped", native)


class Uci(_Engine):
    """Engine of chess."""

    plays, version = "chess", 6

    def _greet(self, process: LineProcess, seat: int) -> None:
        process.send("uci")
        offered: dict[str, str] = {}
        while (line := process.line(START_SECONDS)) != "uciok":
            if line.startswith("option name "):
                name = line.removeprefix("option name ").partition(" type ")[0]
                offered[name.lower()] = name
        for key, value in self._options.items():
            if key in SEARCH:
                continue
            if key.lower() not in offered:
                raise LineFailed(f"it has no option {key}, expected one of {', '.join(offered.values())}")
            process.send(f"setoption name {offered[key.lower()]} value {value}")
        process.send("ucinewgame\nisready")
        while process.line(START_SECONDS) != "readyok":
            pass

    def _question(self, game: BatchedGame | None, slot: int, seat: int, look: Look, match: int) -> Asked:
        board = self._match(game, slot)
        legal = np.flatnonzero(look.mask[0]).tolist()
        if hasattr(board, "moves_history"):  # of OpenSpiel
            import pyspiel

            start, played = board.start_fen(), [move.to_lan() for move in board.moves_history()]
            here = board.board()
            named = {pyspiel.chess.action_to_move(action, here).to_lan(): action for action in legal}
        else:
            from pettingzoo.classic.chess.chess_utils import action_to_move

            here = board.board
            start, played = here.root().fen(), [move.uci() for move in here.move_stack]
            named = {action_to_move(here, action, seat).uci(): action for action in legal}
        search = [f"{key} {self._options[key]}" for key in SEARCH if key in self._options]
        if not search and look.seconds is not None and np.isfinite(look.seconds[0]):
            search = [f"movetime {max(1, int(1e3 * SHARE * look.seconds[0]))}"]

        def read(line: str) -> npt.NDArray | None:
            word, _, rest = line.partition(" ")
            return self._read(named, rest.partition(" ")[0]) if word == "bestmove" else None

        moves = f" moves {' '.join(played)}" if played else ""
        return f"position fen {start}{moves}\ngo {' '.join(search) or USUAL_SEARCH}", read


class Gtp(_Engine):
    """Engine of go."""

    plays, version = "go", 5

    def __init__(self, name: str, settings: EngineSettings, action: ActionSpec) -> None:
        if settings.options:
            raise UnknownBot(f"bot '{name}' of kind gtp: found options, expected them in its command")
        super().__init__(name, settings, action)

    def _greet(self, process: LineProcess, seat: int) -> None:
        process.send("protocol_version")
        while not (line := process.line(START_SECONDS)).startswith("="):
            if line.startswith("?"):
                raise LineFailed(f"found {line!r}, expected a version of GTP")
        process.line(START_SECONDS)  # each answer ends with an empty line

    def _question(self, game: BatchedGame | None, slot: int, seat: int, look: Look, match: int) -> Asked:
        state = self._match(game, slot)
        legal = np.flatnonzero(look.mask[0]).tolist()
        if hasattr(state, "history"):  # of OpenSpiel
            parameters = state.get_game().get_parameters()
            size, komi = parameters["board_size"], parameters["komi"]
            played = [_corner_first(action, size) for action in state.history()]
            named = {_corner_first(action, size): action for action in legal}
        else:
            size, komi = state._N, state._komi
            played = [_top_first(size, move.move) for move in state._go.recent]
            named = {_top_first(size, None if a == size * size else divmod(a, size)): a for a in legal}
        lines = [f"boardsize {size}", "clear_board", f"komi {komi}"]
        lines += [f"play {'BW'[number % 2]} {move}" for number, move in enumerate(played)]
        lines.append(f"genmove {'BW'[len(played) % 2]}")
        waits = len(lines)

        def read(line: str) -> npt.NDArray | None:
            nonlocal waits
            if line.startswith("?"):
                raise LineFailed(f"it answered {line!r} to {lines[len(lines) - waits]!r}")
            waits -= line.startswith("=")
            return None if waits or line[:1] != "=" else self._read(named, line[1:].strip().upper())

        return "\n".join(lines), read


def _corner_first(action: int, size: int) -> str:
    """Return the move of an action of OpenSpiel, which counts points from the lower left corner by rows."""
    row, column = divmod(action, size)
    return PASS if action == size * size else f"{COLUMNS[column]}{row + 1}"


def _top_first(size: int, point: tuple[int, int] | None) -> str:
    """Return the move at a (row, column) of PettingZoo, whose first row is the upper one; `None`: a pass."""
    return PASS if point is None else f"{COLUMNS[point[1]]}{size - point[0]}"


def _shown(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
