"""Settings of bots survive a config, and mistakes are reported with their place."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from league.models.bots.scripted import Bots
from league.models.bots.settings import settings_in
from storage.errors import Mistake

GIVEN = {
    "mcts_100": {"kind": "mcts", "simulations": 100},
    "lowest": {"kind": "openspiel", "bot": "fixed_action_preference", "parameters": {"actions": "3:1"}},
    "champion": {"kind": "export", "folder": "exports/main-0", "mode": "greedy"},
    "net": {"kind": "onnx", "file": "/somewhere/net.onnx"},
    "taker": {"use": "my.module:choose"},
}


class Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    bots: Bots = {}


def test_settings_of_every_kind_come_back_from_a_resolved_config():
    config = Config.model_validate({"bots": GIVEN})
    again = Config.model_validate(config.model_dump(mode="json"))
    assert again == config
    assert [settings.kind for settings in again.bots.values()] == [
        "mcts",
        "openspiel",
        "export",
        "onnx",
        "my.module:choose",
    ]


def test_relative_paths_are_kept_whole_so_that_a_resumed_run_finds_them(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    bots = Config.model_validate({"bots": GIVEN}).model_dump(mode="json")["bots"]
    monkeypatch.chdir("/")
    again = Config.model_validate({"bots": bots}).bots
    assert Path(again["champion"].folder) == tmp_path / "exports" / "main-0"
    assert again["net"].file == "/somewhere/net.onnx"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "random",
            {"kind": "mcts", "simulations": 1},
            "'random' is the name of a built-in bot; choose another name",
        ),
        ("one_ply", {"kind": "mcts", "simulations": 1}, "'one_ply' is the name of a built-in bot"),
        (
            "net:greedy",
            {"kind": "mcts", "simulations": 1},
            "'net:greedy' is not a valid name of a bot, expected letters",
        ),
        ("b", {"kind": "alphazero"}, "found 'alphazero'; expected mcts, openspiel, export"),
        ("b", {"simulations": 3}, "expected mcts, openspiel, export"),
        ("b", {"kind": "mcts"}, "Field required"),
        ("b", {"kind": "mcts", "simulations": 0}, "greater than or equal to 1"),
        ("b", {"kind": "mcts", "simulations": 5, "uct_c": float("nan")}, "greater than or equal to 0|finite"),
        ("b", {"use": "choose"}, "should match pattern"),
        ("b", {"kind": "export", "folder": ""}, "at least 1 character"),
        ("b", {"kind": "export", "folder": "x", "mode": "argmax"}, "'sample' or 'greedy'"),
        ("b", {"kind": "onnx", "file": "x", "threads": 3}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_refused(name, settings, message):
    with pytest.raises(ValidationError, match=message):
        Config.model_validate({"bots": {name: settings}})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("program:", "command: found nothing, expected a command, such as: ./bot --level 3"),
        ("program: ", "command: found nothing"),
        ("uci:?depth=1", "command: found nothing"),
        ("gtp:gnugo 'x", 'command: found "gnugo \'x", expected a command (No closing quotation)'),
        ("uci:stockfish?depth=x", "options.depth: found 'x', expected a whole number above 0"),
        ("uci:stockfish?nodes=0", "options.nodes: found '0', expected a whole number above 0"),
        ("xboard:fairymax?movetime=", "options.movetime: found '', expected a whole number above 0"),
        ("xboard:fairymax?nodes=5", "options.nodes: XBoard's protocol has no nodes, expected depth"),
    ],
)
def test_a_name_without_a_command_or_with_no_such_search_is_one_line(name, said):
    with pytest.raises(Mistake) as refused:
        settings_in(name)
    assert str(refused.value).startswith(f"'{name}': {said}")
    assert "\n" not in str(refused.value)
