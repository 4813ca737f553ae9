"""Reference of config keys as Markdown: every section with its keys, types, defaults and meanings.

The pages are rendered from the settings classes alone, so they hold for any of them. A part of the user's own
that has no key but its path has no section.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from league.section import USE, Default, OwnPart

Model = type[BaseModel]
Inside = Mapping[str, Model | Mapping[str, Model]]

_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_LENGTHS = {"min_length": "at least {} of them", "max_length": "at most {} of them"}
_NAMES = {str: "text", int: "integer", float: "number", bool: "true or false", Any: "anything"}


@dataclass(frozen=True, slots=True)
class _Group:
    """A section of the reference: a settings class and its place in a config."""

    path: str  # "" for the config itself
    model: Model
    choice: str = ""  # such as "kind: mcts", where several classes share a place


class Key(NamedTuple):
    """A key of a config, as Markdown describes it."""

    path: str  # such as "league.roles.<name>.freeze.max_steps"
    choice: str  # such as "kind: mcts", where the key is of one of several classes
    type: str
    default: str
    meaning: str


def keys(settings: Model, inside: Inside | None = None) -> Iterator[Key]:
    """Yield all keys of `settings`, nested ones after their sections; `inside` as for `reference`."""
    for _, own in _sections(_Group("", settings), inside or {}, ()):
        yield from own


def reference(settings: Model, inside: Inside | None = None) -> str:
    """Return the Markdown of all keys of `settings`, nested sections included.

    `inside` adds what annotations do not show: the class of the values of an untyped mapping, by its
    path ("league.roles"), or the class of each value by its key ({"pfsp": Pfsp, ...}).
    """
    parts = []
    for group, own in _sections(_Group("", settings), inside or {}, ()):
        title = f"`{group.path}`" if group.path else "Top level"
        title += f", `{group.choice}`" if group.choice else ""
        lines = [f"### {title}", "", _summary(group.model), "", "| key | type | default | meaning |"]
        lines.append("|---|---|---|---|")
        for key in own:
            cells = (f"`{key.path.rpartition('.')[2]}`", key.type, key.default, key.meaning)
            escaped = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
            lines.append("| " + " | ".join(escaped) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(dict.fromkeys(parts)) + "\n"  # kinds that share a key have one section for it


def _sections(group: _Group, inside: Inside, above: tuple[Model, ...]) -> Iterator[tuple[_Group, list[Key]]]:
    """Yield `group` with its keys and, depth first, those below it; a class inside itself is opened once."""
    if group.model in above:
        return
    own: list[Key] = []
    further: list[_Group] = []
    for name, field in group.model.model_fields.items():
        path = f"{group.path}.{name}" if group.path else name
        below = _below(path, field.annotation, inside)
        kind = "mapping to section" if path in inside else _type(field)
        own.append(Key(path, group.choice, kind, _default(field), _meaning(field, below)))
        further += below
    yield group, own
    for each in further:
        yield from _sections(each, inside, (*above, group.model))


def _below(path: str, annotation: Any, inside: Inside) -> list[_Group]:
    """Return the groups that a key with this annotation holds."""
    given = inside.get(path)
    if isinstance(given, Mapping):
        return [_Group(f"{path}.{name}", model) for name, model in given.items()]
    # a part of your own has no key but its path, which is in the description of its place
    models = (
        [given]
        if given is not None
        else [
            model
            for model in _models(annotation)
            if model is not Default and not (issubclass(model, OwnPart) and set(model.model_fields) == {USE})
        ]
    )
    within = path + _place_inside(annotation)
    if len(models) == 1:
        return [_Group(within, models[0])]
    return [_Group(within, model, _kind(model)) for model in models]


def _models(annotation: Any) -> Iterator[Model]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0])
    elif get_origin(annotation) is not Literal:
        for arg in get_args(annotation):
            yield from _models(arg)


def _place_inside(annotation: Any) -> str:
    """Return how the values of a mapping or a list are addressed: ".<name>" or "[]"."""
    origin = get_origin(annotation)
    if origin in (Annotated, Union, UnionType):
        return next(filter(None, map(_place_inside, get_args(annotation))), "")
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return ".<name>"
    return "[]" if origin in (tuple, list) else ""


def _kind(model: Model) -> str:
    """Return the discriminator of a class that shares its place with others, such as "kind: mcts"."""
    field = model.model_fields.get("kind")
    kinds = get_args(field.annotation) if field is not None else ()
    if issubclass(model, OwnPart):
        return f"{USE}: module:Name"
    return f"kind: {' or '.join(kinds)}" if kinds else model.__name__


def _type(field: FieldInfo) -> str:
    bounds = list(_bounds(field.metadata))
    return ", ".join([_type_name(field.annotation), *bounds])


def _type_name(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        shown = next(
            (m.json_schema_input_type for m in args[1:] if hasattr(m, "json_schema_input_type")), Any
        )
        bounds = [bound for m in args[1:] for bound in _bounds(getattr(m, "metadata", [m]))]
        return ", ".join([_type_name(args[0] if shown in (Any, PydanticUndefined) else shown), *bounds])
    if annotation is NoneType:
        return "`null`"
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in args)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type_name(arg) for arg in args))
    if origin in (tuple, list):
        items = [arg for arg in args if arg is not Ellipsis]
        return "list of " + " and ".join(
            dict.fromkeys(f"({n})" if " " in n else n for n in map(_type_name, items))
        )
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return f"mapping to {_type_name(args[1])}"
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "section"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _bounds(metadata: list[Any]) -> Iterator[str]:
    for item in metadata:
        for name, sign in _BOUNDS.items():
            if (bound := getattr(item, name, None)) is not None:
                yield f"{sign} {bound}"
        for name, text in _LENGTHS.items():
            if (bound := getattr(item, name, None)) is not None:
                yield text.format(bound)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        if field.default_factory in (dict, list, tuple):
            return f"`{json.dumps(field.default_factory())}`"
        return "see meaning"
    if isinstance(field.default, BaseModel):
        kind = getattr(field.default, "kind", None)
        return f"`{kind}`" if kind else "its defaults"
    default = field.default
    return f"`{json.dumps(default)}`"


def _meaning(field: FieldInfo, below: list[_Group]) -> str:
    text = (field.description or (_summary(below[0].model) if len(below) == 1 else "")).rstrip(".")
    if not below:
        return text
    places = dict.fromkeys(f"`{group.path}`" for group in below)
    return f"{text}: see {', '.join(places)}" if text else f"See {', '.join(places)}"


def _summary(model: Model) -> str:
    """Return the first paragraph of the class's docstring."""
    return " ".join((inspect.getdoc(model) or "").partition("\n\n")[0].split())
