"""Modes: how a competitor draws its actions, as text and as a temperature.

    sample    1    by the probabilities of its policy; the default, and not part of a name
    greedy    0    the likeliest action
    t=0.5     0.5  by its probabilities to the power of 1 / 0.5

The same snapshot in two modes is two competitors: `main-0@120000` and `main-0@120000:greedy`.
"""

from __future__ import annotations

import re

from storage.errors import Mistake
from storage.suggestions import or_near

SAMPLE, GREEDY = 1.0, 0.0
FORMS = ("sample", "greedy", "average", "nash")  # what may follow a name and a colon, in letters
LOWEST, HIGHEST = 0.001, 1000.0  # beyond, logits overflow float32, and play is greedy or uniform
_TEMPERATURE = re.compile(r"t=(\d+(?:\.\d*)?(?:e-?\d+)?|\.\d+)", re.IGNORECASE)


class BadMode(Mistake, ValueError):
    """Text that is no mode."""


def is_mode(text: str) -> bool:
    """Return whether `text` has the form of a mode."""
    return text in ("sample", "greedy") or text.startswith("t=")


def temperature_of(mode: str) -> float:
    """Return the temperature of `mode`. Raise BadMode."""
    if mode == "sample":
        return SAMPLE
    if mode == "greedy":
        return GREEDY
    number = _TEMPERATURE.fullmatch(mode)
    if number is None:
        raise BadMode(
            f"mode '{mode}', expected one of: sample, greedy, t=0.5 (or another temperature), or a mixture: "
            f"average, nash{or_near(mode, FORMS)}"
        )
    temperature = float(number[1])
    if not LOWEST <= temperature <= HIGHEST:
        raise BadMode(
            f"mode '{mode}', expected a temperature from {LOWEST:g} to {HIGHEST:g}, or greedy for the "
            "likeliest action"
        )
    return temperature


def mode_of(temperature: float) -> str:
    """Return the text for a temperature; equal temperatures have equal texts."""
    if temperature in (SAMPLE, GREEDY):
        return "sample" if temperature == SAMPLE else "greedy"
    return f"t={temperature!r}".removesuffix(".0")


def in_mode(name: str, temperature: float) -> str:
    """Return the name of competitor `name` at that temperature."""
    return name if temperature == SAMPLE else f"{name}:{mode_of(temperature)}"
