"""Patience: how long a bot in a process of its own is waited for, if it has no limit."""

from __future__ import annotations

import numpy as np

from league.models.actor import Look
from storage.arrays import Floats
from storage.incidents import SILENT

SECONDS = 120.0  # for one decision
SECONDS_EACH = 2.0  # for each of those that are asked for at once, if that is more


def waited_for(look: Look) -> Floats:
    """Return the seconds [n] after which each decision has failed: those that are left, or patience's."""
    most = max(SECONDS, SECONDS_EACH * len(look))
    return (
        np.full(len(look), most)
        if look.seconds is None
        else np.where(look.seconds < np.inf, look.seconds, most)
    )


def silent(look: Look) -> str:
    """Return what a bot did that did not answer in these seconds."""
    if look.seconds is not None and bool((look.seconds < np.inf).all()):
        return f"{SILENT} in time"
    seconds = waited_for(look).max()
    return f"{SILENT} for {seconds:g} s, and `limits: {{move_seconds: ...}}` gives it more or less"
