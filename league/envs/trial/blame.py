"""Blame: the seat, the file and the line behind an error of a game, as one sentence.

The line that is named is the innermost one of the user's own code: that of the game's class, or else the
innermost one that belongs neither to this package nor to a library of games.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import traceback
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_LIBRARIES = frozenset(
    ["ale_py", "gymnasium", "minigrid", "mpe2", "numpy", "open_spiel", "pettingzoo", "pyspiel", "torch"]
)
MOST_OF_MESSAGE = 300  # characters of an error's own message


def own_classes(classes: Iterable[type]) -> list[type]:
    """Return the classes among these and their bases that are a user's own, the most derived first."""
    found = dict.fromkeys(base for each in classes for base in each.__mro__)
    return [
        base
        for base in found
        if base is not object
        and base.__module__.partition(".")[0] not in {*_LIBRARIES, "abc", "typing", "builtins"}
        and not _is_ours(_file_of(base))
    ]


def place_of(error: BaseException, classes: Iterable[type] = ()) -> str:
    """Return " (FILE, line N, in FUNCTION)" of an error in a game whose code is in these `classes`, or ""."""
    frames = traceback.extract_tb(error.__traceback__)
    own = own_classes(classes)
    files = {_file_of(each) for each in own}
    chosen = [frame for frame in frames if frame.filename in files]
    chosen = chosen or [frame for frame in frames if not _is_known(frame.filename)]
    if chosen:
        frame = chosen[-1]
        return f" ({frame.filename}, line {frame.lineno}, in {frame.name})"
    return defined_at(own)


def defined_at(classes: Sequence[type], *methods: str) -> str:
    """Return " (FILE, line N, in METHOD)" of the first of the methods that a user's own class defines.

    Without one, the place of the class; "" if no class is a user's own.
    """
    own = own_classes(classes)
    for method in methods:
        for each in own:
            found = vars(each).get(method)
            code = getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
            if code is not None:
                return f" ({code.co_filename}, line {code.co_firstlineno}, in {method})"
    return _place_of_class(own[0]) if own else ""


@functools.cache  # Python parses the whole file, which took longer than a match, at each crash
def _place_of_class(each: type) -> str:
    try:
        return f" ({_file_of(each)}, line {inspect.getsourcelines(each)[1]}, class {each.__name__})"
    except (OSError, TypeError):
        return ""


def sentence_of(error: BaseException) -> str:
    """Return the kind of an error and its message on one line."""
    message = " ".join(str(error).split())[:MOST_OF_MESSAGE]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def place_in(trace: str) -> str:
    """Return " (FILE, line N, in FUNCTION)" of the innermost frame of a user's own that `faulthandler` wrote.

    "" without one.
    """
    for file, line, name in re.findall(r'^  File "(.+)", line (\d+) in (.+)$', trace, re.MULTILINE):
        if not _is_known(file):
            return f" ({file}, line {line}, in {name})"
    return ""


def cause_of(error: BaseException, seats: Collection[int] = (), classes: Iterable[type] = ()) -> str:
    """Return one sentence on an error of a game: the seats that had just acted, the error, its place."""
    return f"{of_seats(seats)}{sentence_of(error)}{place_of(error, classes)}"


def of_seats(seats: Collection[int]) -> str:
    """Return "seat 1: ", "seats 0, 2: " or ""."""
    names = ", ".join(str(seat) for seat in sorted({int(seat) for seat in seats}))
    return f"seat{'s' if len(seats) > 1 else ''} {names}: " if names else ""


def _file_of(each: type) -> str:
    try:
        return inspect.getfile(each)
    except (OSError, TypeError):  # a class without a file, such as one of an interactive session
        return "<unknown>"


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE)


def _is_known(file: str) -> bool:
    """Return whether a file is of this package, of Python itself or of a library of games."""
    parts = Path(file).parts
    library = parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else ""
    return _is_ours(file) or library in _LIBRARIES or file.startswith((os.path.dirname(os.__file__), "<"))
