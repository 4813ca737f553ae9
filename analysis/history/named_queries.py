"""Named queries: the files of the folder `queries`, one question each, used as `@name`.

A file begins with a comment of one line that states its question; the columns follow.
"""

from __future__ import annotations

import functools
from importlib.resources import files

from storage.errors import Mistake
from storage.suggestions import nearest


@functools.cache
def named_queries() -> dict[str, str]:
    """Return the SQL of each query, by name, in order of name."""
    found = [
        file for file in files("analysis.history").joinpath("queries").iterdir() if file.name.endswith(".sql")
    ]
    return {file.name.removesuffix(".sql"): file.read_text() for file in sorted(found, key=lambda f: f.name)}


def what_it_answers(name: str) -> str:
    """Return the first line of a named query, without its `--`."""
    return named_queries()[name].splitlines()[0].removeprefix("--").strip()


def expand(statement: str) -> str:
    """Return the SQL of `@name`, or any other statement unchanged.

    Raise Mistake for an unknown name, with a list of the known ones.
    """
    text = statement.strip(" \t\r\n;")
    if not text.startswith("@"):
        return statement
    name = text[1:]
    if name in named_queries():
        return named_queries()[name]
    known_queries = "; ".join(f"@{known}: {what_it_answers(known)}" for known in named_queries())
    if not name:
        raise Mistake(f"sql: found '@' without a name, expected one of these. {known_queries}")
    near = nearest(name, named_queries())
    hint = f", did you mean '@{near[0]}'?" if near else ", expected one of these."
    raise Mistake(f"sql: found no query '@{name}'{hint} {known_queries}")
