"""Broken games are named before anything trains: the seat, the first cause, the file and the line."""

import inspect
import re
import sys
from pathlib import Path

import gymnasium
import pytest

pytest.importorskip("pettingzoo")
sys.path.insert(0, str(Path(__file__).parent))  # games by import path, as a user's own

import broken_batched as batched
import broken_gymnasium as walks
import broken_pettingzoo as zoo

from league.envs import registry
from league.envs.registry import BadOption
from league.envs.trial import trial
from league.envs.trial.blame import place_of
from league.envs.trial.trial import GameBroken, require_sound


@pytest.fixture(autouse=True)
def _soon_endless(monkeypatch):
    """A match of 800 decisions is endless, not one of 10,000."""
    monkeypatch.setattr(trial, "MOST_DECISIONS", 800)


def env_id(game):
    """The id of a game class of these files; envs of gymnasium are registered."""
    if not issubclass(game, gymnasium.Env):
        return f"{game.__module__}:{game.__name__}"
    name = f"{game.__name__}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"{game.__module__}:{game.__name__}")
    return f"gymnasium:{name}"


CASES = [
    pytest.param(game, said, id=f"{game.__module__}.{game.__name__}")
    for table in (batched.FAULTS, walks.FAULTS, zoo.FAULTS)
    for game, said in table.items()
]


def test_there_are_enough_broken_games():
    assert len(CASES) >= 60


@pytest.mark.parametrize(("game", "said"), CASES)
def test_a_broken_game_is_named_with_seat_cause_file_and_line(game, said):
    with pytest.raises(GameBroken) as broken:
        require_sound(env_id(game), {}, step_limit=None, endless="refused")
    message = str(broken.value)
    assert message.startswith(f"env '{env_id(game)}': ")
    assert said in message
    assert re.search(rf"\({re.escape(sys.modules[game.__module__].__file__)}, line \d+, ", message), message


def test_the_place_of_a_class_is_looked_up_once_however_many_matches_crash(monkeypatch):
    class Own:
        pass

    looked = []
    monkeypatch.setattr(inspect, "getsourcelines", lambda each: looked.append(each) or ([], 7))
    assert {place_of(TypeError(), [Own]) for _ in range(3)} == {f" ({__file__}, line 7, class Own)"}
    assert looked == [Own]


@pytest.mark.parametrize("game", batched.UNMADE)
def test_a_game_that_cannot_be_made_is_named(game):
    with pytest.raises(BadOption) as broken:
        registry.make(env_id(game), 1)
    assert batched.UNMADE[game] in str(broken.value)
    assert Path(batched.__file__).name in str(broken.value)


@pytest.mark.parametrize(
    "game",
    [
        *(batched.Rush, walks.Walk, walks.Steps, walks.PaysAnArray),
        *(zoo.Turns, zoo.AecPaysArrays, zoo.Together, zoo.PaysArrays, zoo.TogetherTwice),
    ],
)
def test_a_sound_game_passes(game):
    require_sound(env_id(game), {}, step_limit=None, endless="refused")


def test_a_game_that_takes_no_step_limit_is_answered_with_the_line_that_does():
    with pytest.raises(BadOption, match=r"takes no step_limit, .* def __init__\(self, num_slots, \*, step"):
        require_sound(env_id(batched.HasNoLimit), {}, step_limit=None, endless="refused")


def test_a_game_whose_step_takes_longer_than_the_run_is_refused_after_one_step():
    with pytest.raises(GameBroken) as broken:
        require_sound(env_id(batched.Rush), {}, step_limit=None, endless="refused", most_seconds=0.0)
    assert re.search(
        r"a step takes \S+ s, and the run is to take 0 s in all \(stop.minutes\)", str(broken.value)
    )
    assert broken.value.certain


def test_an_endless_game_passes_with_a_limit_and_in_fragments():
    require_sound(env_id(batched.NeverEnds), {}, step_limit=20, endless="refused")
