"""Parameters of tests that repeat one thing many times."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

VARIANTS = bool(os.environ.get("LEAGUE_LONG"))  # make test-variants


def mostly_long(values: Iterable[Any], short: int = 1, *, variant: bool = False) -> list[Any]:
    """Return the values; all but the first `short` are for `make test-long`, or for `make test-variants`."""
    marks = [pytest.mark.long, *([pytest.mark.variant] if variant else [])]
    return [
        value if number < short else pytest.param(value, marks=marks) for number, value in enumerate(values)
    ]
