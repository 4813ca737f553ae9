"""The names in a statement that may be those of tables, without parsing it as DuckDB does."""

from __future__ import annotations

import re
from collections.abc import Container

_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | \$\$.*?\$\$ | "((?:[^"]|"")*)" | --[^\n]* | /\*.*?\*/ | (\w+) | ([()])""",
    re.VERBOSE | re.DOTALL,
)
_TABLES = frozenset(
    ("from", "join", "pivot", "unpivot", "table", "describe", "summarize", "show", "into", "update")
)
_OTHERS = frozenset(
    (
        *("select", "where", "group", "order", "having", "qualify", "window", "limit", "offset"),
        *("union", "intersect", "except", "set", "values", "returning"),
    )
)


def tables_in(statement: str, known: Container[str]) -> set[str]:
    """Return the names, of those `known`, that the SQL `statement` has where a table may be.

    A name behind FROM counts until the next clause, in its parentheses, also where it is an alias: too many
    are found rather than one too few. A column of that name in another clause does not count. Names are
    lower case.
    """
    found: set[str] = set()
    reads = [False]  # whether names are those of tables, by parenthesis
    for token in _TOKEN.finditer(statement):
        quoted, word, parenthesis = token.groups()
        name = (quoted or word or "").lower()
        if parenthesis == "(":
            reads.append(reads[-1])
        elif parenthesis == ")":
            reads = reads[:-1] or [False]
        elif word and name in _TABLES:
            reads[-1] = True
        elif word and name in _OTHERS:
            reads[-1] = False
        elif reads[-1] and name in known:
            found.add(name)
    return found
