"""Modes: how a competitor plays, as people write it and as a temperature.

    sample    1    as its policy would have it; it goes without saying
    greedy    0    the likeliest action
    t=0.5     0.5  of its probabilities to the power of 1 / 0.5

Who plays in another mode is another competitor: `main-0@120000:greedy`.
"""

from __future__ import annotations

import re

from storage.errors import Mistake

SAMPLE, GREEDY = 1.0, 0.0
LOWEST, HIGHEST = 0.001, 1000.0  # beyond, logits leave float32, and nothing tells it from greedy or random
_TEMPERATURE = re.compile(r"t=(\d+(?:\.\d*)?(?:e-?\d+)?|\.\d+)", re.IGNORECASE)


class BadMode(Mistake, ValueError):
    """No competitor can play so."""


def is_mode(text: str) -> bool:
    """Whether it says how somebody plays, rather than who."""
    return text in ("sample", "greedy") or text.startswith("t=")


def temperature_of(mode: str) -> float:
    """The temperature that `mode` stands for. Raises BadMode."""
    if mode == "sample":
        return SAMPLE
    if mode == "greedy":
        return GREEDY
    number = _TEMPERATURE.fullmatch(mode)
    if number is None:
        raise BadMode(f"mode '{mode}', expected one of: sample, greedy, t=0.5 (or another temperature)")
    temperature = float(number[1])
    if not LOWEST <= temperature <= HIGHEST:
        raise BadMode(
            f"mode '{mode}', expected a temperature from {LOWEST:g} to {HIGHEST:g}, or greedy for the "
            "likeliest action"
        )
    return temperature


def mode_of(temperature: float) -> str:
    """The one text for that temperature."""
    if temperature in (SAMPLE, GREEDY):
        return "sample" if temperature == SAMPLE else "greedy"
    return f"t={temperature!r}".removesuffix(".0")


def in_mode(name: str, temperature: float) -> str:
    """`name` as it goes by when it plays at that temperature."""
    return name if temperature == SAMPLE else f"{name}:{mode_of(temperature)}"
