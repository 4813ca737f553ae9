"""Make league/yardsticks/data/connect_four.txt: 1,000 positions of Connect Four with solver scores.

    pip install bitbully          the solver, needed here alone: neither the package nor a test imports it
    python -m tests.bench.make_connect_four_positions > connect_four.txt

Positions come from random play of 1 to 30 plies, each number of plies equally likely, from a fixed seed.
Left out are finished games, positions with one legal move, and positions that were found before, mirrored
ones included. tests/league/yardsticks/test_stored_positions.py checks the file by the rules of the game
and by a search of its own.
"""

import random

import bitbully

POSITIONS = 1000
MOST_PLIES = 30
SEED = 20240
COLUMNS, ROWS = 7, 6

HEAD = f"""\
# {POSITIONS:,} positions of Connect Four from random play of 1 to {MOST_PLIES} plies, with a solver's scores.
# Each line: the columns that were played, a colon, and the score of each column for the side to move, by
# perfect play of both sides; a point is a full column. Above 0 it wins, below 0 it loses, at 0 it draws.
# The size is one more than the number of stones that the winner has left: early wins and late losses are
# best. Made by tests/bench/make_connect_four_positions.py, and the same whenever it is made."""


def wins(stones: set[tuple[int, int]], column: int, row: int) -> bool:
    """Return whether the stone at `column` and `row` is part of four in a line."""
    for x, y in ((1, 0), (0, 1), (1, 1), (1, -1)):
        length = 1
        for sign in (1, -1):
            step = 1
            while (column + sign * step * x, row + sign * step * y) in stones:
                length, step = length + 1, step + 1
        if length >= 4:
            return True
    return False


def random_game(plies: int, rng: random.Random) -> tuple[list[int], str] | None:
    """Return the moves and the position of random play, `None` if it is over or leaves one column."""
    moves: list[int] = []
    height = [0] * COLUMNS
    sides: tuple[set[tuple[int, int]], ...] = (set(), set())
    for ply in range(plies):
        column = rng.choice([c for c in range(COLUMNS) if height[c] < ROWS])
        sides[ply % 2].add((column, height[column]))
        if wins(sides[ply % 2], column, height[column]):
            return None
        height[column] += 1
        moves.append(column)
    if sum(h < ROWS for h in height) < 2:
        return None
    columns = ["".join("x" if (c, r) in sides[0] else "o" for r in range(height[c])) for c in range(COLUMNS)]
    return moves, min(",".join(columns), ",".join(columns[::-1]))


def main() -> None:
    """Print the file."""
    rng, solver = random.Random(SEED), bitbully.BitBully()
    found: dict[str, list[int]] = {}
    while len(found) < POSITIONS:
        game = random_game(rng.randint(1, MOST_PLIES), rng)
        if game is not None:
            found.setdefault(game[1], game[0])
    print(HEAD)
    for moves in sorted(found.values(), key=lambda moves: (len(moves), moves)):
        scores = solver.score_all_moves(bitbully.Board(moves))
        each = (str(scores[c]) if c in scores else "." for c in range(COLUMNS))
        print(f"{' '.join(map(str, moves))} : {' '.join(each)}")


if __name__ == "__main__":
    main()
