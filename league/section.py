"""Base classes of the sections of a config."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from league.import_paths import is_import_path
from storage.suggestions import nearest

_OWN_PATH = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
OwnPath = Annotated[str, Field(pattern=_OWN_PATH.pattern)]
"""Import path of a part of the user's own: "module:Name"."""
USE = "use"  # the key of such a path
FOLDER_NAME = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$"  # neither "." nor "..", which are other folders


def is_own_path(text: str) -> bool:
    """Return whether `text` is an `OwnPath`."""
    return _OWN_PATH.match(text) is not None


MOST = 2**63  # beyond it a count or a time is a slip, and neither a column of the ledger nor a clock takes it
TIMES = ("seconds", "minutes", "hours")


class SettingsGroup(BaseModel):
    """Group of settings: immutable, of finite numbers, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, given: Any) -> Any:
        """Raise ValueError for `true` and `yes` in place of a number, which pydantic would take for 1."""
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if isinstance(value, bool) and name in cls.model_fields:
                kinds = _members(cls.model_fields[name].annotation)
                if kinds & {int, float} and not kinds & {bool, Any}:
                    raise ValueError(f"{name}: found {value}, expected a number")
        return given

    @model_validator(mode="after")
    def _numbers_have_a_size(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            sized = isinstance(value, int) or (isinstance(value, float) and name.endswith(TIMES))
            if sized and abs(value) >= MOST:
                raise ValueError(f"{name}: found {str(value)[:24]}, expected a number below 2^63")
        return self


def _members(annotation: Any) -> set[Any]:
    """Return all types that an annotation is made of."""
    inner = get_args(annotation)
    return {annotation} if not inner else set().union(*map(_members, inner))


class Kind(SettingsGroup):
    """One of several groups of settings that take the same place; `kind` says which."""

    kind: str


class OwnPart(SettingsGroup):
    """A part of the user's own: its import path, and settings of its own beside it.

    They are checked when its code is imported; settings that are only read import no code.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    use: OwnPath = Field(description="Import path, module:Name; keys beside it are settings of its own")

    @property
    def kind(self) -> str:
        """The import path, where parts of ours have their kind."""
        return self.use

    @property
    def options(self) -> dict[str, Any]:
        """The settings beside the path."""
        return dict(self.model_extra or {})


class StoredPart(OwnPart):
    """A part of the user's own that is stored with snapshots."""

    @model_validator(mode="after")
    def _survives_json(self) -> Self:
        try:
            if json.loads(json.dumps(self.model_extra, allow_nan=False)) == self.model_extra:
                return self
        except (TypeError, ValueError, RecursionError):
            pass
        raise ValueError("expected settings that JSON can hold: numbers, strings, lists, tables by name")


def by_kind(default: str, known: Sequence[str], own: bool = True) -> Callable[[Any], Any]:
    """Return a validator that writes a setting out as a group: `{kind: ...}`, or `{use: module:Name}`.

    A name alone is short for the group with that kind; a group without a kind has the `default`. Raises
    ValueError for a kind that is not `known`, and for a part of the user's own where there are none (`own`).
    """

    def written_out(given: Any) -> Any:
        if isinstance(given, str):
            given = {USE if own and is_import_path(given) else "kind": given}
        if isinstance(given, BaseModel):
            return given
        if not isinstance(given, Mapping):
            raise ValueError(f"found {given!r}, expected one of {', '.join(known)}, or a group of settings")
        if USE in given and own:
            if "kind" in given:
                raise ValueError(f"found kind {given['kind']} beside use {given[USE]}, expected one of both")
            return given
        kind = given.get("kind", default)
        if kind not in known:
            near = nearest(kind, known)
            remedy = f"did you mean '{near[0]}'?" if near else f"expected {', '.join(known)}"
            yours = " (or {use: module:Name} for your own)" if own else ""
            raise ValueError(f"found {repr(kind) if kind else 'no kind'}; {remedy}{yours}")
        return {"kind": kind, **given}

    return written_out


def kind_of(given: Any) -> str | None:
    """Return the tag of a group that `by_kind` has written out, or of the settings made from it."""
    if isinstance(given, Mapping):
        return USE if USE in given else given.get("kind")
    return USE if isinstance(given, OwnPart) else getattr(given, "kind", None)


def used(given: Any) -> Any:
    """Return a part of the user's own as a group: an import path alone is short for `{use: module:Name}`."""
    if isinstance(given, str) and not is_import_path(given):
        raise ValueError(f"found '{given}', expected 'module:Name'")
    return {USE: given} if isinstance(given, str) else given


Used = Annotated[OwnPart, BeforeValidator(used)]
"""A setting that is always a part of the user's own."""


class Default(Kind):
    """The part that is there without one of your own."""

    kind: Literal["default"] = "default"


DefaultOrOwn = Annotated[
    Annotated[Default, Tag("default")] | Annotated[OwnPart, Tag(USE)],
    Discriminator(kind_of),
    BeforeValidator(by_kind("default", ("default",))),
]
"""A setting that may be a part of the user's own."""


def leaves(fields: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return every setting by its path of keys, such as "learner.lr"."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, Mapping) and value:
            found |= leaves(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found


def on_top(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with `changes`: a group that names no kind changes the one that is there."""
    result = dict(base)
    for key, value in changes.items():
        there = base.get(key)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            named = [bool({"kind", USE} & group.keys()) for group in (there, value)]
            value = {**there, **value} if named == [True, False] else value
        result[key] = value
    return result


class StoredPolicy(SettingsGroup):
    """A policy that is stored: a snapshot of a run, or an exported folder."""

    run: str | None = Field(default=None, description="Run folder to take a snapshot from")
    snapshot: str | None = Field(
        default=None,
        description="Snapshot in that run (id or unique prefix), or a player, for its newest snapshot",
    )
    folder: str | None = Field(
        default=None, description="Folder made by `league snapshots RUN export ID DIR`"
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.run is None) == (self.folder is None) or (self.run is None) != (self.snapshot is None):
            raise ValueError(f"found {self.source}, expected run and snapshot, or folder alone")
        return self

    @property
    def source(self) -> str:
        """The source as messages show it."""
        given = ((name, getattr(self, name)) for name in ("run", "snapshot", "folder"))
        return ", ".join(f"{name} {value}" for name, value in given if value is not None) or "nothing"
