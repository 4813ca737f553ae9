"""Errors for games without a tree that can be walked."""

from __future__ import annotations

from storage.errors import Mistake


class Inexact(Mistake, ValueError):
    """No exact answer is available here; a trained best response gives a lower bound."""


class TooLarge(Inexact):
    """The game's tree has more histories, or numbers of another `unit`, than can be walked."""

    def __init__(
        self, env_id: str, found: str, most: int, unit: str = "histories", how: str = " to be walked one by one"
    ) -> None:
        super().__init__(
            f"env '{env_id}': its tree has {found} {unit}, expected at most {most:,}{how}; train a best "
            "response instead (league exploit --train)"
        )
