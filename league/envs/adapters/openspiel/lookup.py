"""OpenSpiel's games by name: `pyspiel.load_game`, with short messages.

Mistakes in a name are found here, because pyspiel would print the list of all its games.
"""

from __future__ import annotations

import importlib
from typing import Any

from storage.suggestions import nearest


def load(name: str) -> Any:
    """Return the `pyspiel.Game` of a game string.

    Raise LookupError with the nearest names, or with the reason why the game cannot be played in matches.
    """
    try:
        pyspiel = importlib.import_module("pyspiel")
        if "python_" in name:
            importlib.import_module("open_spiel.python.games")  # registers the games written in Python
    except ImportError as error:
        raise LookupError("open_spiel is not installed; pip install '.[openspiel]'") from error
    short = name.partition("(")[0]
    kinds = {kind.short_name: kind for kind in pyspiel.registered_games()}
    if short not in kinds:
        near = nearest(short, kinds, n=3, cutoff=0.5)
        remedy = f"did you mean {' or '.join(near)}?" if near else "expected a game string such as kuhn_poker"
        raise LookupError(f"OpenSpiel has no '{short}': {remedy}")
    accepted = kinds[short].parameter_specification
    try:
        for parameter in pyspiel.game_parameters_from_string(name):
            if parameter not in ("name", *accepted):
                offered = ", ".join(accepted) or "none"
                raise LookupError(f"'{short}' has no parameter '{parameter}'; its parameters: {offered}")
        game = pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise LookupError(f"OpenSpiel refuses it: {sentence(error)}") from error
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise LookupError("it is a mean-field game, expected one that is played by a number of seats")
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise LookupError(
            "it draws its chance itself, expected chance nodes, which a match's seed can decide"
        )
    if not (kind.provides_information_state_tensor or kind.provides_observation_tensor):
        raise LookupError("it has neither an information state tensor nor an observation tensor")
    return game


def sentence(error: Exception) -> str:
    """Return the library's message on one line."""
    return " ".join(str(error).split())
