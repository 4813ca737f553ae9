"""What the keys of a config mean: `league config reference`, `explain`, and the comments of `config show`."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from league.config.reference import Key, keys, reference
from league.config.settings import Settings
from league.rules.matchmaking import branches
from league.rules.roles import RoleSettings
from league.tournament.settings import TournamentSettings
from storage.errors import Mistake
from storage.suggestions import nearest

WIDTH = 110  # characters of a comment


def explain(asked: str) -> list[Key]:
    """Return the key with this path, a section with its keys, or all keys whose paths end so.

    Names of roles, players and bots may be in the path, and numbers of entries: "league.roles.main.share".
    Raise Mistake if there is no such key.
    """
    wanted = _parts(asked)
    known = [(key, _parts(key.path)) for key in all_keys()]
    found: list[Key] = []
    for path in (wanted, _elsewhere(wanted)):
        section = [part for part in path if part != "[]"]
        found = found or [
            key
            for key, parts in known
            if _alike(parts, path)
            or (len(parts) > 1 and _alike([part for part in parts[:-1] if part != "[]"], section))
        ]
    if not found and wanted:
        found = [key for key, parts in known if _alike(parts[-len(wanted) :], wanted)]
    if found:
        return found
    names = {name for key, parts in known for name in (key.path, parts[-1])}
    near = nearest(asked, sorted(names), n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else "league config reference prints all keys"
    raise Mistake(f"found no key '{asked}' in configs of leagues and tournaments; {remedy}")


def with_comments(text: str) -> str:
    """Return a config's YAML, as `Settings.to_yaml` writes it, with the meaning of each key above it."""
    known: dict[tuple[str, ...], Key] = {}
    for key in all_keys():
        known.setdefault(tuple(_parts(key.path)), key)
    lines = text.splitlines()
    for number, path in reversed([*_places(yaml.compose(text, yaml.SafeLoader))]):
        paths = (path, _elsewhere(path))
        found = next((known[each] for one in paths for each in known if _alike(each, one)), None)
        if found is not None:
            said = re.sub(r"(: see|^See) `.*", "", found.meaning)
            if found.type not in ("section", "mapping to section"):
                said += f" ({found.type}; default {found.default})"
            indent = " " * (len(lines[number]) - len(lines[number].lstrip(" ")))
            width = max(40, WIDTH - len(indent))
            lines[number:number] = [f"{indent}# {part}" for part in textwrap.wrap(said, width)]
    return "\n".join(lines) + "\n"


def _parts(path: str) -> list[str]:
    """Return the parts of a path; an entry of a list is a part of its own, "[]"."""
    spaced = re.sub(r"\[[^\]]*\]", ".[]", path.strip())
    return [part for part in spaced.split(".") if part]


def _elsewhere(path: Sequence[str]) -> Sequence[str]:
    """Return the path of the section that settings of a role or a player differ from: `learner`, `policy`."""
    own = len(path) > 3 and path[0] == "league" and path[1] in ("roles", "members")
    return path[3:] if own and path[3] in ("learner", "policy", "env") else path


def _alike(known: Sequence[str], asked: Sequence[str]) -> bool:
    """Return whether two paths are one; "<name>" fits any name, and "[]" the number of an entry."""
    return len(known) == len(asked) and all(
        mine == theirs or mine == "<name>" or (mine == "[]" and theirs.isdecimal())
        for mine, theirs in zip(known, asked, strict=True)
    )


def _places(node: yaml.Node | None, above: tuple[str, ...] = ()) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the line and the path of each key in a YAML of blocks, in order of lines."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key.start_mark.line, (*above, key.value)
            yield from _places(value, (*above, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _places(value, (*above, "[]"))


_HEAD = """# All keys of a config

Made by `league config reference --out configs/REFERENCE.md`: do not edit. A key is written
`section.key` on the command line: `--set learner.lr=1e-3`. `[]` means each entry of a list, `<name>`
each key of a mapping. `null` means that the setting is off or is derived.
"""


def _inside() -> dict[str, Any]:
    """Return the classes in a league's config that its annotations do not show."""
    return {
        "league.roles": RoleSettings,
        "league.roles.<name>.opponents.branches": branches.BRANCHES,
    }


@functools.cache
def all_keys() -> tuple[Key, ...]:
    """Return all keys of a league's config, then those of a tournament's that it does not have."""
    found = list(keys(Settings, _inside()))
    known = {key.path for key in found}
    return (*found, *(key for key in keys(TournamentSettings) if key.path not in known))


def page() -> str:
    """Return the Markdown of all keys of a league's and of a tournament's config."""
    return "\n".join(
        [
            _HEAD,
            "## League: `league train CONFIG`\n",
            reference(Settings, _inside()),
            "## Tournament: `league tournament CONFIG`\n",
            reference(TournamentSettings),
        ]
    )
