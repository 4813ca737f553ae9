"""Positions with the scores of a perfect player: what a file holds, and which moves are good.

A file has a position on each line: the actions from the start, a colon, and a score for each action of the
game, with a point for one that is not legal there. Behind a # is a comment.

    3 3 2 : -2 -2 1 0 . 0 -3

A score is of the side to move, by perfect play. Above 0 it wins, below 0 it loses, at 0 it draws; the higher
the better. So -1, 0 and 1 will do, and finer scores also tell early wins from late ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from storage.arrays import Bools, Floats, Indices
from storage.errors import Mistake

STORED = ("connect_four",)  # games whose positions are in this package
MOST_BYTES = 64 * 2**20  # of a file
_EXPECTED = "expected actions, a colon and a score for each action, such as: 3 3 2 : -2 -2 1 0 . 0 -3"


@dataclass(frozen=True, slots=True)
class Positions:
    """n positions of a game in which each decision is one of A actions."""

    name: str
    actions: tuple[tuple[int, ...], ...]  # [n], from the start of the match
    score: Floats  # [n, A], NaN for an action that is not legal

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def plies(self) -> Indices:
        """Number of actions before each position [n]."""
        return np.array([len(line) for line in self.actions], dtype=np.int64)

    @property
    def legal(self) -> Bools:
        """Which actions are legal [n, A]."""
        return ~np.isnan(self.score)

    @property
    def best(self) -> Bools:
        """Which actions have the best score [n, A]."""
        return np.asarray(self.score == self._top())

    @property
    def kept(self) -> Bools:
        """Which actions keep a win a win, and a draw a draw; in a lost position all legal ones [n, A]."""
        return np.asarray(np.sign(self.score) == np.sign(self._top()))

    @property
    def decisive(self) -> Bools:
        """In which positions the choice decides between win, draw and loss [n]."""
        return np.asarray((self.legal & ~self.kept).any(axis=1))

    def _top(self) -> Floats:
        return np.nanmax(self.score, axis=1, keepdims=True)


def stored(env_id: str) -> Positions:
    """Return the positions of a game that are in this package. Raise Mistake for a game without any."""
    if env_id not in STORED:
        raise Mistake(
            f"positions: none are stored for '{env_id}', only for {', '.join(STORED)}; give a file of "
            "your own"
        )
    text = (files("league.yardsticks") / "data" / f"{env_id}.txt").read_text(encoding="utf-8")
    return parse(text.splitlines(), "positions", env_id)


def read(path: str | Path) -> Positions:
    """Return the positions in a file, which are called as the file is. Raise Mistake if it cannot be read."""
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Mistake(f"positions {path}: found more than {MOST_BYTES // 2**20} MiB; leave some out")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Mistake(f"positions {path}: cannot be read ({reason}), expected a text file") from None
    return parse(text.splitlines(), path.name, str(path))


def parse(lines: Iterable[str], name: str, where: str) -> Positions:
    """Return the positions of these lines. Raise Mistake, naming `where` and the line."""
    actions: list[tuple[int, ...]] = []
    scores: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        before, colon, after = text.partition(":")
        found = f"positions {where}: line {number}: found '{text[:60]}'"
        try:
            moves = tuple(int(word) for word in before.split())
            score = [np.nan if word == "." else float(word) for word in after.split()]
        except ValueError:
            raise Mistake(f"{found}, {_EXPECTED}") from None
        if not colon or not score or min(moves, default=0) < 0 or any(map(np.isinf, score)):
            raise Mistake(f"{found}, {_EXPECTED}")
        if scores and len(score) != len(scores[0]):
            raise Mistake(
                f"{found} with {len(score)} scores, expected {len(scores[0])} as on the lines above"
            )
        if sum(not np.isnan(value) for value in score) < 2:
            raise Mistake(f"{found} with less than two legal actions, expected a choice; leave it out")
        actions.append(moves)
        scores.append(score)
    if not actions:
        raise Mistake(f"positions {where}: found no position, {_EXPECTED}")
    return Positions(name, tuple(actions), np.array(scores, dtype=np.float64))
