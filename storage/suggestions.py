"""Suggestions: the known names nearest to one that is not known, for "did you mean"."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: object, known: Iterable[str], n: int = 1, *, cutoff: float = 0.6) -> list[str]:
    """Return at most `n` of `known`, the most similar to `name` first.

    `cutoff` is the least similarity in [0, 1] (`difflib.SequenceMatcher.ratio`); 0 admits every name.
    """
    return difflib.get_close_matches(str(name), list(known), n=n, cutoff=cutoff)


def or_near(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message: "; did you mean '...'?" with the nearest known name, or `otherwise`."""
    near = nearest(name, known)
    return f"; did you mean '{near[0]}'?" if near else otherwise


def near_or_some(name: object, known: Iterable[str]) -> str:
    """Return the end of a message: the three names nearest, or where none is near the first three."""
    names = list(known)
    near = nearest(name, names, n=3, cutoff=0.3)
    if near or not names:
        return f"nearest: {', '.join(near) or 'none'}"
    some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"there {'are' if len(names) > 1 else 'is'}: {some}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the remedy of a message: the nearest known name as a question, or else all known names."""
    names = list(known)
    near = nearest(name, names)
    return f"did you mean '{near[0]}'?" if near else f"expected one of: {', '.join(names)}"
