"""Runs whose newest snapshots are placed: what is recorded, and that nothing else is changed."""

from __future__ import annotations

import pytest
import torch

import analysis
import league
from league.training import round_robin
from storage import query
from storage.archive import open_reader

pytestmark = pytest.mark.slow

torch.set_num_threads(1)
SMALL = {
    "league": {"freeze_every": 2000, "players": {"main": 1}, "preset": "pfsp"},
    "stop": {"env_steps": 10_000},
}


def frozen(run):
    return [(one.snapshot_id, one.blob_hash) for one in open_reader(run).snapshots()]


def standings(run):
    table = query(run, "SELECT competitor, mu, sigma, games FROM ratings ORDER BY ALL")
    return table.to_pylist()


@pytest.fixture(scope="module")
def placed(tiny, tmp_path_factory):
    made = tiny(evaluation={"placing": 0.2}, **SMALL)
    return league.train(made, tmp_path_factory.mktemp("placing") / "run")


def test_training_and_ratings_are_the_same_with_and_without_it(placed, tiny, tmp_path):
    without = league.train(tiny(evaluation={"placing": 0}, **SMALL), tmp_path / "without")
    assert frozen(without) == frozen(placed)
    assert standings(without) == standings(placed)
    played = "SELECT count(*) AS n FROM matches WHERE match_type = 'round_robin'"
    assert query(without, played)["n"][0].as_py() == 0
    assert query(placed, played)["n"][0].as_py() > 0


def test_the_newest_snapshot_has_played_when_the_run_ends_within_the_share(placed):
    newest = open_reader(placed).snapshots()[-1].snapshot_id
    games = "SELECT count(*) AS n FROM seats WHERE competitor = ?".replace("?", f"'{newest}'")
    assert query(placed, games)["n"][0].as_py() >= 16
    (row,) = query(
        placed,
        "SELECT sum(env_steps) FILTER (match_type = 'round_robin') AS own,"
        " sum(env_steps) FILTER (match_type <> 'round_robin') AS others,"
        " bool_and(purpose = 'evaluation') FILTER (match_type = 'round_robin') AS kept FROM matches",
    ).to_pylist()
    assert 0 < int(row["own"]) <= 0.2 * int(row["others"])
    assert row["kept"]
    with analysis.open_run(placed) as history:
        place = next(place for place in history.order().places if place.competitor == newest)
    assert place.games >= 16


def test_a_share_without_room_for_a_whole_request_is_used(tiny, tmp_path):
    run = league.train(tiny(evaluation={"placing": 0.02}, **SMALL), tmp_path / "run")
    (row,) = query(
        run, "SELECT count(*) AS n, sum(env_steps) AS steps FROM matches WHERE match_type = 'round_robin'"
    ).to_pylist()
    assert 16 <= row["n"] < 128  # matches of a whole request of eight pairs
    assert row["steps"] <= 0.02 * 10_000


@pytest.mark.parametrize("runners", [0, pytest.param(1, marks=pytest.mark.alone)])
def test_the_last_snapshot_has_played_however_small_the_share_and_busy_the_runners(tiny, tmp_path, runners):
    made = tiny(evaluation={"placing": 0.001}, runners=runners, **SMALL)
    run = league.train(made, tmp_path / "run")
    newest = open_reader(run).snapshots()[-1]  # by the end of training, or a schedule that fell on it
    learned = query(run, "SELECT max(env_steps) AS steps FROM updates WHERE player = 'main-0'")
    assert newest.env_steps == learned["steps"][0].as_py()
    played = f"SELECT count(*) AS n FROM seats WHERE competitor = '{newest.snapshot_id}'"
    assert query(run, played)["n"][0].as_py() >= 16


@pytest.mark.long
@pytest.mark.variant
def test_a_resumed_run_goes_on_with_new_ids(placed, tiny, tmp_path):
    made = tiny(evaluation={"placing": 0.2}, **SMALL)
    half = {**made, "stop": {"env_steps": 5_000}}
    run = league.train(half, tmp_path / "run")
    league.train(made, run, resume=True)
    ids = query(run, "SELECT match_id FROM matches")["match_id"].to_pylist()
    assert len(set(ids)) == len(ids)
    assert min(ids) < -128


@pytest.mark.long
@pytest.mark.variant
def test_ctrl_c_ends_it(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(round_robin, "stopping", lambda: True)
    run = league.train(tiny(evaluation={"placing": 0.02}, **SMALL), tmp_path / "run")
    ended = "SELECT count(*) AS n FROM matches WHERE match_type = 'round_robin'"
    assert query(run, ended)["n"][0].as_py() == 0
    assert query(run, "SELECT state FROM ends")["state"].to_pylist() == ["trained"]


def test_where_matches_take_long_the_last_snapshot_plays_few_of_them(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(round_robin, "LEAST_SECONDS", 0.0)  # as if all matches took long
    made = tiny(evaluation={"placing": 1e-6}, **SMALL | {"stop": {"minutes": 0.02}})
    run = league.train(made, tmp_path / "run")
    played = query(run, "SELECT count(*) AS n FROM matches WHERE match_type = 'round_robin'")
    assert played["n"][0].as_py() == 2  # one seed of one pair, in both orders
