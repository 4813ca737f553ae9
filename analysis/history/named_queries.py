"""Named queries: the files of the folder `queries`, one question each, used as `@name`.

A file begins with a comment of one line that states its question; the columns follow. What no SQL can
answer is a frame of `History`.
"""

from __future__ import annotations

import functools
from importlib.resources import files

from storage.errors import Mistake
from storage.suggestions import nearest

_AROUND = " \t\r\n;"
FRAMES = {"strengths": "How strong is each snapshot, and when was it frozen? Elo by all games of the run."}
"""Methods of `History` that are asked like named queries, and what they answer."""


@functools.cache
def named_queries() -> dict[str, str]:
    """Return the SQL of each query, by name, in order of name."""
    found = [
        file for file in files("analysis.history").joinpath("queries").iterdir() if file.name.endswith(".sql")
    ]
    return {file.name.removesuffix(".sql"): file.read_text() for file in sorted(found, key=lambda f: f.name)}


def answers() -> dict[str, str]:
    """Return what each named query and each frame answers, by name, in order of name."""
    firsts = {name: sql.splitlines()[0].removeprefix("--").strip() for name, sql in named_queries().items()}
    return dict(sorted((firsts | FRAMES).items()))


def frame_of(statement: str) -> str | None:
    """Return the method of `History` that `@name` asks, or `None`: it is SQL."""
    name = statement.strip(_AROUND).removeprefix("@")
    return name if name in FRAMES and name != statement.strip(_AROUND) else None


def expand(statement: str) -> str:
    """Return the SQL of `@name`, or any other statement unchanged.

    Raise Mistake for an unknown name, with a list of the known ones.
    """
    text = statement.strip(_AROUND)
    if not text.startswith("@"):
        return statement
    name = text[1:]
    if name in named_queries():
        return named_queries()[name]
    known_queries = "; ".join(f"@{known}: {what}" for known, what in answers().items())
    if not name:
        raise Mistake(f"sql: found '@' without a name, expected one of these. {known_queries}")
    near = nearest(name, answers())
    hint = f", did you mean '@{near[0]}'?" if near else ", expected one of these."
    raise Mistake(f"sql: found no query '@{name}'{hint} {known_queries}")
