import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from analysis.tournaments.exports import export, match_records
from analysis.tournaments.tournament import verdict
from storage.errors import Mistake
from storage.records import Outcome, Recordings
from tests.analysis.played_tournaments import duel, place, snapshots, store

pytestmark = pytest.mark.slow

A, B, C = snapshots(3)
a, b, c = (entrant.competitor for entrant in (A, B, C))


def recorded_duel():
    """Two pairs; of the first, the second game with its moves."""
    results = duel(a, b, [(1.0, 0.5), (0.0, 0.0)])
    moves = Recordings(np.array([1]), np.array([0, 3]), np.array([3.0, 2.0, 6.0], np.float32))
    return dataclasses.replace(results, recordings=moves)


@pytest.fixture
def run(tmp_path):
    return store(tmp_path / "run", (A, B), [recorded_duel()])


def test_a_match_is_a_row_with_its_seats_result_times_and_moves(run):
    frame = match_records(run)
    assert frame["match_id"].tolist() == [0, 1, 2, 3]
    assert frame["pair"].tolist() == [0, 0, 1, 1]
    assert frame["seed"].tolist() == [0, 0, 1, 1]
    assert frame["competitor_0"].tolist() == [a, b, a, b]
    assert frame["competitor_1"].tolist() == [b, a, b, a]
    assert frame["result"].tolist() == ["1-0", "1/2-1/2", "0-1", "1-0"]
    assert frame["outcome_0"].tolist() == ["win", "draw", "loss", "win"]
    assert frame["rank_1"].tolist() == [1, 0, 0, 1]
    assert frame["score_0"].tolist() == [1.0, 0.5, 0.0, 1.0]
    assert frame["reason"].tolist() == ["finished"] * 4
    assert frame["env_steps"].tolist() == [20] * 4
    assert frame["started_at"].iloc[1] == pd.Timestamp(1.7e9 + 0.25, unit="s")
    assert frame["seconds"].tolist() == [0.5] * 4
    assert frame["moves"].tolist() == [None, [3.0, 2.0, 6.0], None, None]


def test_matches_come_batch_after_batch_with_moves_or_without(tmp_path):
    later = duel(b, a, [(1.0, 0.5)], first=4)
    frame = match_records(store(tmp_path / "run", (A, B), [later, recorded_duel()]))
    assert frame["match_id"].tolist() == [4, 5, 0, 1, 2, 3]
    assert frame["pair"].tolist() == [2, 2, 0, 0, 1, 1]
    assert [moves is not None for moves in frame["moves"]] == [False, False, False, True, False, False]


def test_of_more_than_two_the_result_is_the_place_of_each(tmp_path):
    results = place([[0.0, 2.0, 2.0], [1.0, 5.0, 3.0]], [(a, b, c), (c, a, b)])
    frame = match_records(store(tmp_path / "run", (A, B, C), [results]))
    assert frame["result"].tolist() == ["3-1-1", "3-1-2"]
    assert frame["pair"].tolist() == [0, 0], "of six games"


def test_two_who_forfeit_have_both_lost(tmp_path):
    results = duel(a, b, [(1.0, 1.0)])
    results = dataclasses.replace(results, outcome=np.full((2, 2), Outcome.FORFEIT, np.int8))
    assert match_records(store(tmp_path / "run", (A, B), [results]))["result"].tolist() == ["0-0", "0-0"]


def test_a_tournament_without_a_match_has_no_rows(tmp_path):
    assert len(match_records(store(tmp_path / "run", (A, B)))) == 0


def test_parquet_and_json_give_the_rows_back(run, tmp_path):
    frame = match_records(run)
    export(frame, tmp_path / "matches.parquet")
    back = pd.read_parquet(tmp_path / "matches.parquet")
    assert back.drop(columns="moves").to_dict("list") == frame.drop(columns="moves").to_dict("list")
    assert back["moves"].iloc[1].tolist() == [3.0, 2.0, 6.0]
    assert back["moves"].iloc[0] is None
    export(frame, tmp_path / "matches.json")
    (first, second, *_) = json.loads((tmp_path / "matches.json").read_text())
    assert second["moves"] == [3.0, 2.0, 6.0]
    assert first["moves"] is None
    assert first["started_at"].startswith("2023-11-14T22:13:20")


def test_csv_has_lists_as_json_text(run, tmp_path):
    export(match_records(run), tmp_path / "matches.csv")
    back = pd.read_csv(tmp_path / "matches.csv")
    assert json.loads(back["moves"].iloc[1]) == [3.0, 2.0, 6.0]
    assert back["result"].tolist() == ["1-0", "1/2-1/2", "0-1", "1-0"]


def test_seeds_and_numbers_lose_no_digit(tmp_path):
    frame = pd.DataFrame({"seed": [2**62 + 1], "elo": [12.345678901234], "high": [np.inf], "low": [np.nan]})
    for ending in ("csv", "json", "parquet"):
        export(frame, tmp_path / f"table.{ending}")
    assert pd.read_parquet(tmp_path / "table.parquet").equals(frame)
    assert json.loads((tmp_path / "table.json").read_text()) == [
        {"seed": 2**62 + 1, "elo": 12.345678901234, "high": None, "low": None}
    ]
    assert (tmp_path / "table.csv").read_text() == f"seed,elo,high,low\n{2**62 + 1},12.345678901234,inf,\n"


def test_the_table_of_a_tournament_is_exported_as_it_is(run, tmp_path):
    table = verdict(run).table
    export(table, tmp_path / "table.PARQUET")
    assert pd.read_parquet(tmp_path / "table.PARQUET")["competitor"].tolist() == table["competitor"].tolist()
    export(verdict(run).pairings, tmp_path / "pairings.json")
    assert json.loads((tmp_path / "pairings.json").read_text())[0]["games"] == 4


def test_another_ending_and_a_missing_folder_are_mistakes(run, tmp_path):
    frame = match_records(run)
    with pytest.raises(
        Mistake, match=r"table.xlsx: ends with '.xlsx', expected one of: .csv, .parquet, .json"
    ):
        export(frame, tmp_path / "table.xlsx")
    with pytest.raises(Mistake, match=r"there is no folder .*gone; make it, or choose another"):
        export(frame, tmp_path / "gone" / "table.csv")


def test_an_export_replaces_the_file_that_was_there(run, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    export(match_records(run), path)
    assert path.read_text().startswith("match_id,pair,seed")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["table.csv"]
