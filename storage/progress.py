"""How far something is that takes long."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Told what is done, how much of it, and out of how much."""
