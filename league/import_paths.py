"""Import paths: parts that a user plugs in as `module:Name`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from storage.suggestions import nearest


def is_import_path(name: str) -> bool:
    """Return whether `name` is the import path of a user's own part."""
    return ":" in name


def import_path(path: str) -> Any:
    """Import the object at `path` ("module:Name"). Raise ValueError if it or its module is not found."""
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise ValueError(f"'{path}': expected 'module:Name'")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything while it is imported
        reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"'{path}': module '{module_name}' cannot be imported: {reason}") from error
    if not hasattr(module, name):
        near = nearest(name, dir(module))
        remedy = f"; did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"'{path}': module '{module_name}' has no '{name}'{remedy}")
    return getattr(module, name)


def import_callable(path: str, expected: str) -> Callable[..., Any]:
    """Import the function or class at `path`. Raise ValueError if it is not found, or is not `expected`."""
    found = import_path(path)
    if not callable(found):
        raise ValueError(f"'{path}' is {found!r}, expected {expected}")
    return found
