"""Bots of every kind sit in a league's pools: played, learned from and rated like all others."""

import sys
import types

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import analysis
import league
from league.config.file import ConfigError
from league.envs import registry
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.archive import Archive, open_reader
from storage.records import MAIN, LivePlayer
from storage.upkeep.exports import export_snapshot

ENV = "openspiel:tic_tac_toe"


def first_legal(observation, mask, rng):
    return mask.argmax(axis=1)


@pytest.fixture
def bots(tmp_path, monkeypatch):
    """Settings of one bot of each kind, and whatever files they need."""
    monkeypatch.setitem(sys.modules, "my_bots", types.SimpleNamespace(first_legal=first_legal))
    spec = PolicySpec.for_game(
        PolicySettings(hidden=(8,), memory={"kind": "gru", "size": 4}), registry.make(ENV, 1)
    )
    with Archive.create(tmp_path / "old", f"env: {{id: '{ENV}', options: {{}}}}\n", {"seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        weights = initial_weights(spec, 0)
        archive.add_snapshot("main-0", MAIN, 5, 1, None, weights, spec.to_json(), "mlp", "test")
    reader = open_reader(tmp_path / "old")
    export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "champion")
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["seen"], ["row"]),
            helper.make_node("MatMul", ["row", "weight"], ["out"]),
        ],
        "net",
        [helper.make_tensor_value_info("seen", TensorProto.FLOAT, ["n", *spec.observation.shape])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 9])],
        [numpy_helper.from_array(np.ones((spec.observation.size, 9), np.float32), "weight")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "net.onnx")
    return {
        "searcher": {"kind": "mcts", "simulations": 100},
        "lowest": {
            "kind": "openspiel",
            "bot": "fixed_action_preference",
            "parameters": {"actions": "8:7:6:5:4:3:2:1:0"},
        },
        "champion": {"kind": "export", "folder": str(tmp_path / "champion")},
        "net": {"kind": "onnx", "file": str(tmp_path / "net.onnx"), "mode": "greedy"},
        "first": {"use": "my_bots:first_legal"},
    }


def settings_with(tiny, bots, opponents):
    branches = {"self_play": {"share": 0.3}, "bots": {"share": 0.7}}
    roles = {"main": {"opponents": {"branches": branches, "bots": dict.fromkeys(opponents, 1)}}}
    return tiny(
        ENV,
        league={"preset": "none", "players": {"main": 1}, "roles": roles},
        bots=bots,
        stop={"env_steps": 1500},
        matchmaking={"distinct_opponents": 16},
    )


@pytest.mark.slow
def test_bots_of_every_kind_are_played_learned_from_and_rated(tiny, bots, tmp_path):
    names = ["random", *bots]
    run = league.train(settings_with(tiny, bots, names), tmp_path / "run")
    with analysis.open_run(run) as history:
        ratings = history.leaderboard().set_index("competitor")
        forfeits = history.sql("SELECT count(*) AS n FROM seats WHERE outcome = 'forfeit'")["n"][0]
        won = history.sql(
            "SELECT competitor, avg((outcome = 'win')::INT) AS share FROM seats GROUP BY 1"
        ).set_index("competitor")["share"]
    assert (ratings.loc[names, "games"] > 5).all()
    assert forfeits == 0
    assert won["searcher"] > 0.6  # of a main that has hardly begun to learn


@pytest.mark.slow
def test_a_run_with_searching_and_remembering_bots_repeats_itself(tiny, bots, tmp_path):
    settings = settings_with(tiny, bots, ["searcher", "champion"])
    seats = []
    for name in ("first", "second"):
        run = league.train(settings, tmp_path / name)
        with analysis.open_run(run) as history:
            seats.append(history.sql("SELECT seq, seat, competitor, score FROM seats ORDER BY ALL"))
    assert seats[0].equals(seats[1])
    assert len(seats[0]) > 100


def test_a_bot_that_cannot_play_is_refused_before_anything_is_written(tiny, bots, tmp_path):
    bots["champion"]["folder"] = str(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"champion.*gone.*no such file, expected a folder made by"):
        league.train(settings_with(tiny, bots, ["champion"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
