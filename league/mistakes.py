"""Validation errors of pydantic as sentences: where, found, expected, remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from league.section import USE
from storage.suggestions import did_you_mean, or_near

PREFIX = "Value error, "  # of pydantic's messages
_KIND = re.compile(r"constrained-\w+|literal\[.*\]|int|float|str|bool")  # of a value, in a place of pydantic
FEW_KEYS = 8  # of a group, which a message about it lists
_UNKNOWN_KEY = "unknown_key"  # of a part that was checked by its own settings


def explain(error: ValidationError, settings: type[BaseModel], where: str = "") -> str:
    """Return all mistakes against `settings` on one line; an unknown key comes with the nearest known one.

    `where` is the place of these settings in larger ones.
    """
    problems: list[str] = []
    alternatives: dict[str, int] = {}  # places in `problems`, by path: a value may be one of several kinds
    meant = list(_of_the_member_meant(error, settings))
    locations = [item["loc"] for item, _ in meant]
    for item, place in meant:
        own = item["loc"]
        if item["type"] == "too_short" and any(own == loc[: len(own)] != loc for loc in locations):
            continue  # its parts are wrong, and were left out for that
        path, keys = ".".join(part for part in (where, place.path) if part), place.keys
        if item["type"] == "extra_forbidden":
            problems.append(f"unknown key '{path}'{place.remedy(item['loc'][-1])}")
        elif item["type"] == _UNKNOWN_KEY:
            problems.append(f"unknown key '{path}'; {item['ctx']['remedy']}")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            inside = re.split(r"[.:]", message, maxsplit=1)[0] in keys
            problems.append(f"{path}{'.' if inside else ': '}{message}" if path else message)
        elif item["type"] == "missing":
            problems.append(f"{path}: missing, expected a value")
        elif item["type"] in ("model_type", "model_attributes_type", "dict_type"):
            among = f": {', '.join(place.keys)}" if 0 < len(place.keys) <= FEW_KEYS else ""
            problems.append(f"{path}: found {item['input']!r}, expected a group of settings{among}")
        else:
            path = path.removesuffix(f".{own[-1]}") if _KIND.fullmatch(str(own[-1])) else path
            if path in alternatives:
                problems[alternatives[path]] += f", or {item['msg'].removeprefix('Input should be ')}"
            else:
                alternatives[path] = len(problems)
                problems.append(f"{path}: {_found(item)}")
    return "; ".join(" ".join(problem.split()) for problem in problems)


def placed(error: ValidationError, settings: type[BaseModel], *where: str) -> list[InitErrorDetails]:
    """Return the mistakes against `settings` as those of larger settings that hold them at `where`.

    A validator raises them by `ValidationError.from_exception_data`. An unknown key keeps its remedy,
    which the annotations of the larger settings do not show.
    """
    moved = []
    for item, place in _of_the_member_meant(error, settings):
        kind: str | PydanticCustomError = item["type"]
        if kind == "extra_forbidden":
            remedy = place.remedy(item["loc"][-1]).removeprefix("; ")
            kind = PydanticCustomError(_UNKNOWN_KEY, "unknown key; {remedy}", {"remedy": remedy})
        elif kind == _UNKNOWN_KEY:
            kind = PydanticCustomError(_UNKNOWN_KEY, "unknown key; {remedy}", item["ctx"])
        moved.append(
            InitErrorDetails(
                type=kind, loc=(*where, *item["loc"]), input=item["input"], ctx=item.get("ctx", {})
            )
        )
    return moved


def _found(item: Any) -> str:
    message = item["msg"]
    if item["type"] in ("tuple_type", "list_type"):
        return f"found {item['input']!r}, expected a list"
    if item["type"] == "too_short":
        return f"found {item['input']!r}, expected {item['ctx']['min_length']} or more"
    known = re.findall(r"'([^']*)'", item["ctx"]["expected"]) if item["type"] == "literal_error" else ()
    return f"found {item['input']!r}; {message[0].lower()}{message[1:]}{or_near(item['input'], known)}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a mistake in the settings."""

    path: str
    keys: list[str]  # of the innermost group on the way
    choice: str | None = None  # path of the setting on the way that is a value or a group
    as_group: bool = False  # whether it is a mistake only if a group was meant
    kind: str | None = None  # of the innermost group, where it is one of several
    kinds: Mapping[str, Any] = field(default_factory=dict)  # the settings of each

    def remedy(self, key: object) -> str:
        """Return the end of a message about a key that is not known here."""
        others = [kind for kind, model in self.kinds.items() if key in model.model_fields]
        if others:
            named = [kind if kind != USE else "one of your own" for kind in others]
            known = ", ".join(named[:-1]) + " or " * (len(named) > 1) + named[-1]
            return f" of kind {self.kind}, expected only with {known}; leave it out"
        return f"; {did_you_mean(key, self.keys)}"


def _of_the_member_meant(error: ValidationError, settings: type[BaseModel]) -> list[tuple[Any, _Place]]:
    """Return all mistakes; for a setting that is a value or a group, only those against what was given."""
    found = [(item, _place(item["loc"], settings)) for item in error.errors()]
    group_given = {
        place.choice: isinstance(item["input"], Mapping) for item, place in found if not place.as_group
    }
    return [
        (item, place)
        for item, place in found
        if place.choice is None or place.as_group == group_given.get(place.choice, True)
    ]


def _place(location: tuple[Any, ...], settings: type[BaseModel]) -> _Place:
    """Follow a location of pydantic into the settings; it also has a part for each member of a union."""
    model: Any = settings
    path: list[str] = []
    choice, as_group = None, False
    members: list[Any] = []
    kinds: dict[str, Any] = {}  # members by their `kind`; the kind follows the key, if there is one
    keyed = False
    kind: str | None = None
    of_kind: dict[str, Any] = {}
    for part in location:
        if kinds and not keyed:
            model, kind, of_kind, kinds = kinds.get(str(part)), str(part), kinds, {}
            continue
        if members:
            chosen = [member for member in members if member.__name__ == _member_name(part)]
            choice, as_group, members = ".".join(path), bool(chosen), []
            model = chosen[0] if chosen else None
            continue
        path.append(str(part))
        if keyed:
            keyed = False
            continue
        fields = getattr(model, "model_fields", {})
        if part not in fields:  # a key of a mapping, whose values have this model; or unknown
            continue
        annotation: Any = fields[part].annotation
        kind, of_kind = None, {}
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        groups = [arg for arg in inner if hasattr(arg, "model_fields")]
        kinds = _by_kind(annotation)
        keyed = bool(kinds) and get_origin(annotation) in (dict, tuple)
        if groups and len(inner) > 1 and not kinds and get_origin(annotation) in (Union, UnionType):
            members = groups
        else:
            model = annotation if hasattr(annotation, "model_fields") else (groups or [None])[0]
    keys = sorted(getattr(model, "model_fields", {}))
    return _Place(".".join(path), keys, choice, as_group, kind, of_kind)


def _member_name(part: Any) -> str:
    """Return the class's name in pydantic's name of a member: "Ramp" in "function-after[check(), Ramp]"."""
    return re.sub(r"^function-\w+\[.*, (\w+)\]$", r"\1", str(part))


def _by_kind(annotation: Any) -> dict[str, Any]:
    """Return the members of the union in `annotation` by their `kind`; empty if there is no such union."""
    members = get_args(annotation)
    if not members or not all({"kind", USE} & getattr(m, "model_fields", {}).keys() for m in members):
        return {kind: member for inner in members for kind, member in _by_kind(inner).items()}
    return {
        kind: member
        for member in members
        for kind in (
            (USE,) if USE in member.model_fields else get_args(member.model_fields["kind"].annotation)
        )
    }
