"""Errors for games without a tree that can be walked."""

from __future__ import annotations

from storage.errors import Mistake


class Inexact(Mistake, ValueError):
    """No exact answer is available here; a trained best response gives a lower bound."""


class TooLarge(Inexact):
    """The game's tree has `found` histories, or numbers of another `unit`, and may have `most`."""

    def __init__(self, env_id: str, found: str, most: int, unit: str = "") -> None:
        walked = " to be walked one by one" if not unit else ""
        super().__init__(
            f"env '{env_id}': its tree has {found} {unit or 'histories'}, expected at most {most:,}{walked}; "
            "train a best response instead (league exploit --train)"
        )
