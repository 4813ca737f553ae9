"""Games of OpenSpiel as lines of actions, and PGN of chess, which becomes such lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from league.envs import registry
from league.teaching.games import OUTCOMES, Games, Spaces, episodes_of
from storage.errors import Mistake

CHESS = "openspiel:chess"
CHUNK = 256  # games
_SHOWN = 60  # characters of a line in a message
_WHITE = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}  # what White gets


class Line(NamedTuple):
    """A game as actions in order of time, then of seats, those of chance among them."""

    where: str  # of the file, for messages
    actions: Sequence[int]
    players: Sequence[str] = ("", "")  # of two seats
    ratings: Sequence[float] = (np.nan, np.nan)
    returns: Sequence[float] | None = None  # None: it is played to its end; else it may be longer or shorter
    start: str | None = None  # the position that it begins with; None: that of the game


def state_games(spaces: Spaces, lines: Iterable[Line]) -> Iterator[Games]:
    """Yield the games of `lines`, CHUNK at a time. Raise Mistake for the first that is no game."""
    game = registry.make(spaces.env["id"], 1, **spaces.env["options"])
    numbered = enumerate(lines)
    while chunk := list(itertools.islice(numbered, CHUNK)):
        seats = [seat for number, line in chunk for seat in _seats_of(game, number, line)]
        steps = {
            name: np.array([value for seat in seats for value in seat[name]])
            for name in ("observation", "mask", "action", "reward")
        }
        of_each = {name: np.array([seat[name] for seat in seats]) for name in ("match", "seat")}
        offset = np.cumsum([0, *(len(seat["action"]) for seat in seats)])
        known = {name: np.array([seat[name] for seat in seats], dtype=kind) for name, kind in _KNOWN.items()}
        yield Games(episodes_of(spaces, offset, of_each["match"], of_each["seat"], steps), **known)


_KNOWN: dict[str, Any] = {"player": object, "rating": np.float32, "outcome": object, "score": np.float32}


def _seats_of(game: Any, number: int, line: Line) -> list[dict[str, Any]]:
    """Return the decisions of each seat that took one. Raise Mistake for an action that is not legal."""
    state = game.game.new_initial_state(*([] if line.start is None else [line.start]))
    pays = game.game.get_type().reward_model.name != "TERMINAL"
    columns = ("observation", "mask", "action", "reward")
    seats: list[dict[str, Any]] = [
        {"match": number, "seat": seat, **{name: [] for name in columns}} for seat in range(game.num_seats)
    ]
    paid = np.zeros(game.num_seats)

    def pay(returns: Sequence[float]) -> None:
        for own, gained in zip(seats, (np.array(returns) - paid).tolist(), strict=True):
            own["reward"][-1:] = [reward + gained for reward in own["reward"][-1:]]
        paid[:] = returns

    left = list(line.actions)
    while left and not state.is_terminal():
        due = range(game.num_seats) if state.is_simultaneous_node() else [state.current_player()]
        joint = []
        for seat in due:
            legal = [o for o, _ in state.chance_outcomes()] if seat < 0 else state.legal_actions(seat)
            if not legal or not left:
                joint.append(0)
                continue
            joint.append(left.pop(0))
            if joint[-1] not in legal:
                shown = ", ".join(map(str, legal[:12])) + ", ..." * (len(legal) > 12)
                ply = len(line.actions) - len(left)
                raise Mistake(
                    f"{line.where}, ply {ply}: {joint[-1]} is not legal there, expected one of {shown}"
                )
            if seat >= 0:
                mask = np.isin(np.arange(game.action_specs[0].mask_width), legal)
                taken = (game.seen_in(state, seat).copy(), mask, joint[-1], 0.0)
                for name, value in zip(columns, taken, strict=True):
                    seats[seat][name].append(value)
        state.apply_actions(joint) if len(due) > 1 else state.apply_action(joint[0])
        if pays or state.is_terminal():
            pay(state.returns())
    if line.returns is not None:
        pay(line.returns)
    elif left or not state.is_terminal():
        found = f"goes on with {left[0]} after its end" if left else "is not over"
        raise Mistake(f"{line.where}: the game {found}, expected the actions of a whole game")
    for seat, own in enumerate(seats):
        best = np.delete(paid, seat).max(initial=-np.inf) if len(seats) > 1 else 0.0
        own["outcome"] = OUTCOMES[1 - int(np.sign(paid[seat] - best))]
        own["score"] = paid[seat]
        own["player"], own["rating"] = (
            (line.players[seat], line.ratings[seat]) if len(seats) == 2 else ("", np.nan)
        )
    return [own for own in seats if own["action"]]


def history_lines(path: Path) -> Iterator[Line]:
    """Yield a game from each line of a text: its actions. Raise Mistake for another line."""
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if actions := [int(each) for each in re.split(r"[\s,;\[\]]+", text) if each]:
                    yield Line(f"{path}: line {number}", actions)
    except ValueError:  # of no numbers, and of no text
        raise Mistake(
            f"{path}: line {number}: expected the actions of a game, such as 3, 2, 4, as of "
            "pyspiel.State.history()"
        ) from None


def pgn_lines(path: Path, spaces: Spaces) -> Iterator[Line]:
    """Yield the games of a PGN that have moves and a result, as actions of `openspiel:chess`.

    Raise Mistake for a file that is no PGN, for a move that is not legal, and without python-chess.
    """
    try:
        import chess.pgn
    except ImportError:
        raise Mistake(
            f"{path}: a PGN is read by python-chess: pip install 'checkpoint-league[chess]'"
        ) from None

    class Strict(chess.pgn.GameBuilder):  # type: ignore[misc, type-arg, unused-ignore]
        def handle_error(self, error: Exception) -> None:
            ply = self.variation_stack[-1].ply() + 1
            raise Mistake(f"{where}, ply {ply}: {error}; expected legal moves of chess")

    game: Any = registry.make(spaces.env["id"], 1, **spaces.env["options"])
    found = False
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number in itertools.count(1):
                where = f"{path}: game {number}"
                read = chess.pgn.read_game(file, Visitor=Strict)
                if read is None:
                    break
                if read.headers.get("Result") in _WHITE and read.next() is not None:
                    found = True
                    yield _chess_line(where, game.game, read)
    except UnicodeDecodeError as error:
        raise Mistake(f"{path}: cannot be read ({error}), expected a PGN in UTF-8") from None
    if not found:
        raise Mistake(f"{path}: found no game with moves and a result, expected a PGN of whole games")


def _chess_line(where: str, game: Any, read: Any) -> Line:
    """Return a game of chess that python-chess has read as actions of OpenSpiel."""
    tags, fen, actions = read.headers, read.board().fen(), list[int]()
    state = game.new_initial_state(fen)
    colours = ["White", "Black"]
    if (state.current_player() == 0) != (" w " in fen):  # Black has the first seat
        colours.reverse()
    for move in read.mainline_moves():
        if state.is_terminal():  # it was played on beyond a draw
            break
        actions.append(state.parse_move_to_action(move.uci()))
        state.apply_action(actions[-1])
    elo = [tags.get(f"{colour}Elo", "") for colour in colours]
    gained = _WHITE[tags["Result"]]
    return Line(
        where,
        actions,
        [tags.get(colour, "") for colour in colours],
        [float(each) if each.isdigit() else np.nan for each in elo],
        [gained if colour == "White" else -gained for colour in colours],
        fen,
    )
