"""Room: what the server needs of the code that plays matches. The command hands it over.

All methods return data for JSON, and raise Mistake with one line for the reader of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Room(Protocol):
    """Matches that are played by pages."""

    @property
    def style(self) -> str:
        """The style sheet of the pictures."""
        ...

    def about(self) -> dict[str, Any]:
        """Return the run, its game, the number of seats, and names of competitors."""
        ...

    def begin(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a match and return it."""
        ...

    def look(self, key: str) -> dict[str, Any]:
        """Return a match."""
        ...

    def go_on(self, key: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Play on, with an action of the person if one is due."""
        ...

    def hint(self, key: str) -> dict[str, Any]:
        """Return what a policy would do in the person's place."""
        ...

    def leave(self, key: str) -> dict[str, Any]:
        """End a match."""
        ...

    def recordings(self) -> list[dict[str, Any]]:
        """Return the newest recorded matches."""
        ...

    def playback(self, match_id: int) -> dict[str, Any]:
        """Return all steps of a recorded match."""
        ...
