"""Files of style and script that belong to the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def resource(name: str, package: str = "analysis.report") -> str:
    """Return the text of the file `name` in the folder of `package`."""
    return (files(package) / name).read_text(encoding="utf-8")
