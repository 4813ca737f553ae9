"""Import paths: parts that a user plugs in as `module:Name`, and what is shown of errors in their code.

A policy's spec travels with its snapshots, so its import paths may come from a stranger, and importing
executes code. Such a path is imported only after `trust` has admitted it: because a config that the user
runs names it, or `--trust`, the variable LEAGUE_TRUST, or a program of the user's.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from storage.errors import Failure, Mistake, WeightsMismatch
from storage.suggestions import or_near

TRUST = "LEAGUE_TRUST"
"""Environment variable: import paths that are trusted by all commands, with commas between."""

_TRUSTED: set[str] = set()

RAISED = (Exception, SystemExit)
"""What code that is not ours may raise. A `sys.exit()` in it would end a run silently, and as a success."""


class OwnCodeFailed(Failure):
    """Code of a user's own raised an error, or returned what cannot be used."""


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
    except RAISED as error:  # while it is imported
        reason = why_not_imported(error)
        if isinstance(error, ModuleNotFoundError) and error.name == module_name.partition(".")[0]:
            reason += "; run the command in the folder of that module, or set PYTHONPATH to the folder"
        raise ValueError(f"'{path}': module '{module_name}' cannot be imported: {reason}") from error
    if not hasattr(module, name):
        raise ValueError(f"'{path}': module '{module_name}' has no '{name}'{or_near(name, dir(module))}")
    return getattr(module, name)


def why_not_imported(error: BaseException) -> str:
    """Return what a module raised while it was imported."""
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"


def import_callable(path: str, expected: str) -> Callable[..., Any]:
    """Import the function or class at `path`. Raise ValueError if it is not found, or is not `expected`."""
    found = import_path(path)
    if not callable(found):
        raise ValueError(f"'{path}' is {found!r}, expected {expected}")
    return found


def takes(call: Callable[..., Any], given: int, options: Mapping[str, Any]) -> bool:
    """Return whether `call` accepts `given` positional arguments and these keyword arguments, if it says."""
    with contextlib.suppress(ValueError):  # it has no signature, as functions of numpy's have none
        try:
            inspect.signature(call).bind(*[None] * given, **options)
        except TypeError:
            return False
    return True


@contextlib.contextmanager
def running(where: str, path: str, kind: type[Exception] = OwnCodeFailed) -> Iterator[None]:
    """Run code of the part at `path`, which the config names at `where`. A part of ours has no import path.

    What it raises becomes a `kind`: one sentence with the place in the config, the error, and the file and
    line of the user's code. Failures and mistakes of ours, which are sentences already, pass.
    """
    try:
        yield
    except (Failure, Mistake):
        raise
    except RAISED as error:
        if not is_import_path(path):
            raise
        place = line_of(error, path)
        name = "" if _is_ours(error) else f"{type(error).__name__}: "
        message = " ".join(str(error).split()) or "no message"
        raise kind(f"{where} {path}: {name}{message}{place}".strip()) from error


def path_of(call: Callable[..., Any]) -> str:
    """Return "module:name" of a function of the user's own; "" for one of ours."""
    module = str(getattr(call, "__module__", ""))
    return "" if module.partition(".")[0] == __package__ else f"{module}:{getattr(call, '__name__', '')}"


def _is_ours(error: BaseException) -> bool:
    """Return whether a check of ours raised this error, so that its message is a sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error) is ValueError and Path(frames[-1].filename).is_relative_to(Path(__file__).parent)


def line_of(error: BaseException, path: str) -> str:
    """Return the newest file and line of a traceback in the module of `path`, in parentheses, or ""."""
    module = sys.modules.get(path.partition(":")[0])
    file = getattr(module, "__file__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""


def trust(*paths: str) -> None:
    """Allow this process to import these paths ("module:Name"), which its user has named.

    Never call it with a path from a snapshot: that may be foreign code, and importing executes it.
    """
    _TRUSTED.update(paths)


def require_trust(setting: str, path: str) -> None:
    """Raise WeightsMismatch unless `path`, found as `setting` of a spec, was admitted by `trust`."""
    if path not in _TRUSTED and path not in os.environ.get(TRUST, "").split(","):
        raise WeightsMismatch(
            f"{setting} '{path}' is code, found in a snapshot's spec but not in a config that you "
            f"run, so it was not imported; if you trust it, give --trust {path}, or once for all commands of "
            f"a shell: export {TRUST}={path}; in Python: league.extend.trust('{path}')"
        )
