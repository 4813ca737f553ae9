"""Engines as bots: of chess by UCI or XBoard's protocol, of go by GTP, in OpenSpiel's and PettingZoo's games.

An engine gets the whole match at each decision, so that it needs no memory of it.

    UCI  R. Huber and S. Meyer-Kahlen: Universal Chess Interface, 2006
    CECP T. Mann, H. G. Muller: Chess Engine Communication Protocol, version 2, 2009, which is XBoard's
    GTP  G. Farneback: Specification of the Go Text Protocol, version 2, draft 2, 2002
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec
from league.models.actor import Look
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.process_bot import START_SECONDS, Asked, LineFailed, LineProcess, ProcessBot
from league.models.bots.settings import SEARCH, EngineSettings
from storage.errors import Mistake
from storage.records import EndReason

USUAL_SEARCH = "movetime 100"  # milliseconds
START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
SHARE = 0.8  # of the seconds that are left, which a search may take
GAMES = "/usr/games"  # where Debian has engines, which not every PATH names
COLUMNS = "ABCDEFGHJKLMNOPQRST"  # of a board of go
PASS = "PASS"


def engine_bot(name: str, env_id: str, settings: EngineSettings, action: ActionSpec) -> ProcessBot:
    """Return the engine for `env_id`. Raise UnknownBot if it does not play it, or does not start."""
    kinds: Mapping[str, type[Uci | Xboard | Gtp]] = {"uci": Uci, "xboard": Xboard, "gtp": Gtp}
    make = kinds[settings.kind]
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
    def _match(look: Look) -> tuple[Any, int]:
        """Return the library's object of the match of the only row, and the seat."""
        if look.places is None:
            raise Mistake(
                "an engine cannot act on observations, because it gets the whole match; seat it in one"
            )
        native = look.places.game.native(int(look.places.slot[0]))
        return getattr(native, "unwrapped", native), int(look.places.seat[0])


class _OfChess(_Engine):
    plays, version = "chess", 6

    def _options_of(self, offered: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the options to set by their own names, in `offered` by lower case. Raise LineFailed."""
        found = [(key, value) for key, value in self._options.items() if key not in SEARCH]
        for key, _ in found:
            if key.lower() not in offered:
                raise LineFailed(f"it has no option {key}, expected one of {', '.join(offered.values())}")
        return [(offered[key.lower()], value) for key, value in found]

    def _played(self, look: Look) -> tuple[str, list[str], dict[str, int]]:
        """Return the first position as FEN, the moves since, and the actions of the legal moves."""
        board, seat = self._match(look)
        legal = np.flatnonzero(look.mask[0]).tolist()
        if hasattr(board, "moves_history"):  # of OpenSpiel
            import pyspiel

            here, played = board.board(), [move.to_lan() for move in board.moves_history()]
            named = {pyspiel.chess.action_to_move(action, here).to_lan(): action for action in legal}
            return board.start_fen(), played, named
        from pettingzoo.classic.chess.chess_utils import action_to_move

        here = board.board
        named = {action_to_move(here, action, seat).uci(): action for action in legal}
        return here.root().fen(), [move.uci() for move in here.move_stack], named

    def _search(self, look: Look) -> dict[str, str]:
        """Return the options of the search; by default the time that limits leave, if they do."""
        search = {key: self._options[key] for key in SEARCH if key in self._options}
        if not search and look.seconds is not None and np.isfinite(look.seconds[0]):
            return {"movetime": str(max(1, int(1e3 * SHARE * look.seconds[0])))}
        return search or dict([USUAL_SEARCH.split()])


class Uci(_OfChess):
    """Engine of chess that speaks UCI."""

    def _greet(self, process: LineProcess, seat: int) -> None:
        process.send("uci")
        offered: dict[str, str] = {}
        numbers: dict[str, tuple[int, int]] = {}
        while (line := process.line(START_SECONDS)) != "uciok":
            if line.startswith("option name "):
                name, _, kind = line.removeprefix("option name ").partition(" type ")
                offered[name.lower()] = name
                if bounds := re.fullmatch(r"spin\b.* min (-?\d+) max (-?\d+)", kind):
                    numbers[name] = int(bounds[1]), int(bounds[2])
        for name, value in self._options_of(offered):
            least, most = numbers.get(name, (0, -1))
            if name in numbers and not (re.fullmatch("-?[0-9]+", value) and least <= int(value) <= most):
                # an engine would say nothing, and play as without it
                raise LineFailed(f"its {name} is {value}, expected a whole number from {least} to {most}")
            process.send(f"setoption name {name} value {value}")
        process.send("ucinewgame\nisready")
        while process.line(START_SECONDS) != "readyok":
            pass

    def _question(self, look: Look, match: int) -> Asked:
        start, played, named = self._played(look)
        search = " ".join(f"{key} {value}" for key, value in self._search(look).items())

        def read(line: str) -> npt.NDArray | None:
            word, _, rest = line.partition(" ")
            return self._read(named, rest.partition(" ")[0]) if word == "bestmove" else None

        moves = f" moves {' '.join(played)}" if played else ""
        return f"position fen {start}{moves}\ngo {search}", read


class Xboard(_OfChess):
    """Engine of chess that speaks XBoard's protocol. Its moves may take whole seconds (`st`)."""

    def _greet(self, process: LineProcess, seat: int) -> None:
        process.send("xboard\nprotover 2")
        self._features: dict[str, str] = {}
        offered: dict[str, str] = {}
        while self._features.get("done") != "1":
            line = process.line(START_SECONDS)
            for key, value in re.findall(r'(\w+)=("[^"]*"|\S+)', line) if line.startswith("feature ") else ():
                self._features[key] = value
                if key == "option":
                    name = value.strip('"').partition(" -")[0]
                    offered[name.lower()] = name
        for name, value in self._options_of(offered):
            process.send(f"option {name}={value}")
        process.send("easy")

    def _question(self, look: Look, match: int) -> Asked:
        start, played, named = self._played(look)
        lines, search = ["new", "force"], self._search(look)
        if start != START:
            lines.append(f"setboard {start}")  # an engine that cannot says so
        word = "usermove " if self._features.get("usermove") == "1" else ""
        lines += [word + move for move in played]
        if "depth" in search:
            lines.append(f"sd {search['depth']}")
        if "movetime" in search:
            lines.append(f"st {math.ceil(float(search['movetime']) / 1e3)}")

        def read(line: str) -> npt.NDArray | None:
            word, _, move = line.partition(" ")
            if word in ("Error", "Illegal", "resign", "1-0", "0-1", "1/2-1/2"):
                raise LineFailed(f"it answered {line!r}, expected a move")
            return self._read(named, move.strip().lower()) if word == "move" else None

        return "\n".join([*lines, "go"]), read


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

    def _question(self, look: Look, match: int) -> Asked:
        state, _ = self._match(look)
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
