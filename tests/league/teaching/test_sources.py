"""Parquet files of others are games if their rows fit the game; the first row that does not is named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from league.teaching import sources
from league.teaching.games import Spaces
from storage.errors import Mistake

SPACES = Spaces.of("tic_tac_toe", {})


def rows(**changes):
    """Two matches of two seats, with boards as lists of lists."""
    made = {
        "match": [5, 5, 5, 9, 9],
        "seat": [0, 1, 0, 0, 1],
        "observation": np.arange(5 * 18).reshape(5, 2, 9).tolist(),
        "action": [3, 1, 2, 0, 8],
        "outcome": ["win", "loss", "win", None, None],
        "player": ["a", "b", "a", "a", None],
    }
    return pa.table({name: value for name, value in (made | changes).items() if value is not None})


def read(tmp_path, table, **options):
    pq.write_table(table, tmp_path / "theirs.parquet", **options)
    return list(sources.table_games(tmp_path / "theirs.parquet", SPACES))


@pytest.mark.parametrize("at_a_time", [2, 3, 100])
def test_matches_come_whole_however_many_rows_are_read_at_a_time(tmp_path, monkeypatch, at_a_time):
    monkeypatch.setattr(sources, "ROWS", at_a_time)
    found = read(tmp_path, rows(), row_group_size=2)
    assert [games.episodes.match_id.tolist() for games in found] in ([[5, 5], [9, 9]], [[5, 5, 9, 9]])
    first = found[0]
    assert first.episodes.action[:3].tolist() == [3, 2, 1]
    assert first.episodes.observation.shape[1:] == (2, 3, 3)
    assert first.episodes.observation[1].ravel().tolist() == list(range(36, 54))
    assert first.episodes.reward[:3].tolist() == [0.0, 1.0, -1.0]  # of the outcome, at the end
    assert first.episodes.mask.all()
    assert found[-1].player[-2:].tolist() == ["a", ""]


def test_outcomes_may_be_what_a_seat_got(tmp_path):
    first, second = read(tmp_path, rows(outcome=[0.5, -2.0, 0.5, 0.0, np.nan]))
    assert [*first.outcome, *second.outcome] == ["win", "loss", "draw", ""]
    assert [*first.score, second.score[0]] == [0.5, -2.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"action": None}, "found no column action among match, seat"),
        ({"action": [3, 1, 2, 0, 9]}, r"row 4, match 9: action \[9\] is not legal"),
        ({"mask": [[True] * 9] * 4 + [[True] * 8 + [False]]}, r"row 4, match 9: action \[8\] is not legal"),
        ({"match": [5, 5, 9, 9, 5]}, "row 4: match 5 comes after match 9"),
        ({"observation": [[0.0] * 84] * 5}, "found observation of 84 numbers .*, expected 18"),
        ({"observation": ["x"] * 5}, "found observation of 1 numbers"),
    ],
)
def test_the_first_row_that_does_not_fit_is_named(tmp_path, changes, said):
    with pytest.raises(Mistake, match=said):
        read(tmp_path, rows(**changes))
