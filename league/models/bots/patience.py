"""Patience: how long code and processes that are not ours are waited for, if they have no limit."""

from __future__ import annotations

import numpy as np

from league.models.actor import Look
from storage.arrays import Floats
from storage.incidents import SILENT

SECONDS = 120.0  # for a decision, and for those that a function makes at once: alone each has as long


def waited_for(look: Look) -> Floats:
    """Return the seconds [n] after which each decision has failed: those that are left, or patience's."""
    left = np.full(len(look), np.inf) if look.seconds is None else look.seconds
    return np.where(left < np.inf, left, SECONDS)


def silent(look: Look) -> str:
    """Return what a bot did that did not answer in these seconds."""
    if look.seconds is not None and bool((look.seconds < np.inf).all()):
        return f"{SILENT} in time"
    return f"{SILENT} for {SECONDS:g} s, and `limits: {{move_seconds: ...}}` gives it more or less"
