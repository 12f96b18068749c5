"""The fields of an action's form, from its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

WHICH = ("name", "subscription", "client_id")
"""Where an action works is not changed in its form."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field, as a template draws it."""

    name: str
    label: str
    help: str
    kind: Literal["hidden", "text", "number", "flag", "choice", "lines"]
    value: str
    choices: Sequence[str] = ()
    is_needed: bool = False


def fields_of(model: type[BaseModel], given: Mapping[str, Any]) -> list[FormField]:
    """In the model's order. `title` and `description` of a field are for people; `json_schema_extra={"lines": True}`
    makes a text of several lines."""
    return [_field(name, info, given) for name, info in model.model_fields.items()]


def _field(name: str, info: FieldInfo, given: Mapping[str, Any]) -> FormField:
    value = given.get(name, "" if info.is_required() or info.default is None else info.default)
    kinds = _without_none(info.annotation)
    choices: Sequence[str] = ()
    kind: Any = "text"
    if name in WHICH and (name in given or not info.is_required()):
        kind = "hidden"
    elif kinds is bool:
        kind = "flag"
        value = "true" if str(value).lower() in ("true", "on", "1") else ""
    elif kinds in (int, float):
        kind = "number"
    elif get_origin(kinds) is Literal:
        kind, choices = "choice", [str(each) for each in get_args(kinds)]
    elif isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("lines"):
        kind = "lines"
    label = info.title or name.replace("_", " ").capitalize()
    return FormField(name, label, info.description or "", kind, str(value), choices, info.is_required())


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        others = [each for each in get_args(annotation) if each is not NoneType]
        return others[0] if len(others) == 1 else str
    return annotation
