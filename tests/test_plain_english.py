"""The form of our English: verbs first in functions, no poetic words, no persons where there are things."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("league", "storage", "analysis")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("*/*.md")),
    *sorted(ROOT.glob("tests/bench/*.md")),
]
PAGES += sorted((ROOT / "configs").glob("*.y*ml"))

NOT_FIRST = re.compile(
    r"(A|An|All|Also|And|Any|As|At|Both|But|By|Each|Either|Every|For|From|Here|How|If|In|It|Its|Neither|No|None"
    r"|Nothing|Of|On|One|Only|Or|Other|Same|So|Such|That|The|Their|Them|These|They|This|Those|To|Under|What"
    r"|Whatever|When|Where|Whether|Which|Who|Whose|Why|With|Without)[,:;.]?"
)
"""Words that no imperative sentence begins with."""

BANNED = re.compile(
    r"\b(nobody|somebody|everybody|whoever|whom|whomever|anew|befits?|told|tells|lies|stands|as it were"
    r"|(?<!there )(?-i:(?:is|are) none))\b",
    re.IGNORECASE,
)
"""Dated or poetic words, and persons in place of things."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods that are no property and no validator of settings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "__init__":  # says what its parameters are
                continue
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if not any("property" in decorator or decorator.endswith(".setter") for decorator in decorators):
                yield node


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment and each string of several words, docstrings included, with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def badly_begun(source: str) -> list[str]:
    """Return the functions whose docstring does not begin with a verb."""
    found = []
    for node in functions(ast.parse(source)):
        first = (ast.get_docstring(node) or "Return").split()[0]
        if not re.fullmatch(r"[A-Z][a-z-]+[,:;.]?", first) or NOT_FIRST.fullmatch(first):
            found.append(f"{node.lineno} {node.name}: {first}")
    return found


def banned(source: str) -> list[str]:
    return [f"{line}: {match[0]}" for line, text in texts(source) for match in BANNED.finditer(text)]


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_of_functions_begin_with_a_verb(package):
    found = {
        str(path.relative_to(ROOT)): bad
        for path in FILES
        if path.is_relative_to(ROOT / package) and (bad := badly_begun(path.read_text()))
    }
    assert found == {}


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_no_banned_word_is_in_a_docstring_comment_help_or_message(package):
    found = {
        str(path.relative_to(ROOT)): bad
        for path in FILES
        if path.is_relative_to(ROOT / package) and (bad := banned(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_banned_word_is_in_a_page_or_config(page):
    assert [match[0] for match in BANNED.finditer(page.read_text())] == []


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ('def f():\n    """What it is."""', True),
        ('def f():\n    """[n]: one each."""', True),
        ('def f():\n    """Return what it is."""', False),
        ('@property\ndef f():\n    """The thing."""', False),
        ("def f(): ...", False),
    ],
)
def test_a_docstring_in_another_form_is_found(source, bad):
    assert bool(badly_begun(source)) is bad


def test_a_banned_word_is_found_wherever_it_is_read():
    assert len(banned('"""It lies there."""\nx = 1  # nobody knows\nraise ValueError("whoever did")')) == 3
    assert banned("lies = 1") == []
