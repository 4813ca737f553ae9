"""OpenSpiel's games by name, and names that are none."""

import sys

import pytest

from league.envs import registry
from league.envs.adapters.openspiel.game import game_of
from league.envs.registry import UnknownEnv


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("leduc_pokr", "env 'openspiel:leduc_pokr': OpenSpiel has no 'leduc_pokr': did you mean leduc_poker"),
        ("zzz", "expected a game string such as kuhn_poker"),
        ("hex(size=5)", "'hex' has no parameter 'size'; its parameters: board_size"),
        ("hex(board_size=x)", "OpenSpiel refuses it: Wrong type for parameter board_size"),
        ("hex(board_size=5", "OpenSpiel refuses it: Missing closing bracket"),
        ("mfg_crowd_modelling", "it is a mean-field game"),
        ("tarok", "it draws its chance itself"),
        ("cribbage", "it has neither an information state tensor nor an observation tensor"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_sentence(name, message):
    with pytest.raises(UnknownEnv) as refused:
        registry.make(f"openspiel:{name}", 1)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_open_spiel_the_game_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    game_of.cache_clear()
    with pytest.raises(UnknownEnv) as refused:
        registry.make("openspiel:hex", 1)
    assert str(refused.value) == (
        "env 'openspiel:hex': open_spiel is not installed; pip install '.[openspiel]'"
    )
