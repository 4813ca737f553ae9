"""Parquet files of others are games if their rows fit the game; the first row that does not is named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from league.teaching import sources
from league.teaching.games import Spaces, write_games
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
    "kind",
    [
        pa.list_(pa.uint8()),
        pa.large_list(pa.float64()),
        pa.list_view(pa.int64()),
        pa.list_(pa.int8(), 18),
        pa.fixed_shape_tensor(pa.int8(), [2, 3, 3]),
    ],
)
def test_observations_may_be_lists_of_any_kind(tmp_path, kind):
    boards = np.arange(5 * 18).reshape(5, 18)
    plain = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
    column = pa.array(boards.tolist(), plain)
    if isinstance(kind, pa.ExtensionType):
        column = pa.ExtensionArray.from_storage(kind, column)
    first, _ = read(tmp_path, rows(observation=column))
    assert first.episodes.observation.reshape(3, 18).tolist() == boards[[0, 2, 1]].tolist()


def test_what_is_known_of_a_seat_may_be_in_any_of_its_rows(tmp_path):
    words = pa.array([None, "loss", "win", None, None]).dictionary_encode()  # as pandas writes categories
    first, _ = read(tmp_path, rows(outcome=words, player=[None, 7, 3, 3, None]))
    assert first.outcome.tolist() == ["win", "loss"]
    assert first.player.tolist() == ["3", "7"]
    assert first.episodes.reward.tolist() == [0.0, 1.0, -1.0]


def test_a_file_of_ours_says_of_which_game_it_is_and_another_is_refused(tmp_path):
    path, again = tmp_path / "theirs.parquet", tmp_path / "ours.parquet"
    pq.write_table(rows(), path)
    card = write_games(again, SPACES, sources.table_games(path, SPACES), "theirs")
    spaces, games = sources.games_of(again, None)
    assert write_games(tmp_path / "copy.parquet", spaces, games, "ours")["hash"] == card["hash"]
    with pytest.raises(Mistake, match="games of 'tic_tac_toe', expected those of 'connect_four'"):
        sources.games_of(again, ("connect_four", {}))


def test_a_damaged_file_is_one_clear_line(tmp_path):
    path = tmp_path / "theirs.parquet"
    pq.write_table(rows(), path, compression="zstd")
    whole = bytearray(path.read_bytes())
    for damaged in (whole[:-20], whole[:4] + bytes(80) + whole[84:], b""):
        path.write_bytes(damaged)
        with pytest.raises(Mistake, match=r"theirs.parquet: cannot be read: .*expected a Parquet file"):
            list(sources.games_of(path, ("tic_tac_toe", {}))[1])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"action": None}, "found no column action among match, seat"),
        ({"action": [3, 1, 2, 0, 9]}, r"row 4, match 9: action \[9\] is not legal"),
        ({"mask": [[True] * 9] * 4 + [[True] * 8 + [False]]}, r"row 4, match 9: action \[8\] is not legal"),
        ({"match": [5, 5, 9, 9, 5]}, "row 4: match 5 comes after match 9"),
        ({"observation": [[0.0] * 84] * 5}, "row 0: found observation of 84 numbers, expected 18"),
        ({"observation": [[0] * 18, [0] * 17, [0] * 19] + [[0] * 18] * 2}, "row 1: found observation of 17"),
        ({"observation": [[0] * 36, None] + [[0] * 18] * 3}, "row 0: found observation of 36"),
        ({"observation": ["x"] * 5}, "found observation of 1 numbers"),
        ({"observation": [[0] * 18] * 4 + [[300] * 18]}, "row 4: found observation .*, expected int8"),
        ({"observation": [[0.5] * 18] * 5}, "row 0: found observation"),
        ({"action": [3, 1, 2.5, 0, 8]}, "row 2: found action 2.5, expected int64"),
        ({"action": [3, 1, 2, None, 8]}, "row 3: found action None"),
        ({"match": ["a", "a", "a", "b", "b"]}, "row 0: found match a, expected int64"),
        ({"match": [5, 5, None, 9, 9]}, "row 2: found match None"),
        ({"seat": [0, 1, 0, 0, 2]}, "row 4: found seat 2, expected 0 to 1"),
        ({"seat": [0, None, 0, 0, 1]}, "row 1: found seat None"),
        (
            {"outcome": ["win", "lost", "win", None, None]},
            "row 1: found outcome lost, expected win, draw, loss",
        ),
        ({"outcome": [True, False, True, None, None]}, "row 0: found outcome true"),
        ({"player": [["a"]] * 5}, "found player of list"),
        ({"rating": ["high"] * 5}, "row 0: found rating high"),
        ({"score": [1.0, -np.inf, 1.0, 0.0, 0.0]}, "row 1: found score -inf"),
        ({"reward": [1.0, 0.0, np.inf, 0.0, 0.0]}, "row 2: found reward inf"),
    ],
)
def test_the_first_row_that_does_not_fit_is_named(tmp_path, changes, said):
    with pytest.raises(Mistake, match=said):
        read(tmp_path, rows(**changes))
