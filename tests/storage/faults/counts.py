"""How much is tried: little on every change, much by `make faults`, which sets LEAGUE_FAULTS=long."""

import os

LONG = os.environ.get("LEAGUE_FAULTS") == "long"


def tried(short: int, long: int) -> int:
    """Of the two, the number that this form of the tests wants."""
    return long if LONG else short


def figure(text: str) -> None:
    """Show one figure of the long form (pytest -s)."""
    if LONG:
        print(f"\n{text}", flush=True)
