"""Turns the faults that pydantic found into lines for people: place, value and remedy, and never a secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from jbm_kafka.configuration.secret_names import is_secret
from jbm_kafka.configuration.value_places import Configuration, Path, ValuePlace
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.wrong_values import did_you_mean, shown, with_article

_TABLES = ("model_type", "dict_type", "model_attributes_type")


def fault_lines(error: ValidationError, places: Sequence[ValuePlace]) -> list[str]:
    """Returns a line for each wrong value."""
    found = (line for each in error.errors(include_url=False) for line in _lines(each, places))
    return list(dict.fromkeys(found))


def _lines(fault: ErrorDetails, places: Sequence[ValuePlace]) -> Iterator[str]:
    path: Path = tuple(part for part in fault["loc"] if part != "[key]")
    place = max(reversed(places), key=lambda each: each.depth(path))
    place = next(each for each in places if each.depth(path) == place.depth(path))
    where, cause = place.name_of(path), fault.get("ctx", {}).get("error")
    if isinstance(cause, JMSError):
        for line in str(cause).splitlines():
            yield f"{where}: {line}"
    else:
        yield _line(fault, path, where, cause)


def _line(fault: ErrorDetails, path: Path, where: str, cause: object) -> str:
    value, kind = fault["input"], fault["type"]
    if kind == "extra_forbidden":
        return f"{where}: there is no such setting{_near(path)}"
    if kind == "missing":
        return f"{where} is missing; write it there"
    if kind in _TABLES:
        key = ".".join(str(part) for part in path if isinstance(part, str))
        header = f"[[{key}]]" if isinstance(path[-1], int) else f"[{key}]"
        return f"{where} is {with_article(type(value))}: it is a table; write {header} and the settings below it"
    is_hidden = is_secret(".".join(map(str, path))) or not isinstance(value, str | int | float)
    told = with_article(type(value)) if is_hidden else shown(value)
    return f"{where} is {told}: {_rule(fault['msg'], cause)}"


def _rule(message: str, cause: object) -> str:
    """Returns pydantic's sentence in our words."""
    text = str(cause) if isinstance(cause, ValueError) else message
    for theirs, ours in (
        ("Input should be a valid boolean, unable to interpret input", "it is true or false"),
        ("Input should be a valid integer, unable to parse string as an integer", "it is a whole number"),
        ("Input should be a valid number, unable to parse string as a number", "it is a number"),
        ("Input should be a valid string", "it is a text"),
        ("Input should be a valid list", "it is a list"),
        ("Input should be a valid integer", "it is a whole number"),
        ("String should have at least 1 character", "it is empty; leave it out, or write one"),
        ("Input should be ", "it is "),
        ("greater than or equal to", "at least"),
        ("less than or equal to", "at most"),
    ):
        text = text.replace(theirs, ours)
    return text


def _near(path: Path) -> str:
    known = _names_at(path[:-1])
    suggestion = did_you_mean(str(path[-1]), known)
    return suggestion or f"; known are {', '.join(known)}"


def _names_at(path: Iterable[str | int]) -> list[str]:
    kind: Any = Configuration
    for part in path:
        kind = _without_none(kind)
        kind = kind.model_fields[part].annotation if _is_table(kind) else get_args(kind)[-1]
    return list(_without_none(kind).model_fields)


def _is_table(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _without_none(kind: Any) -> Any:
    while get_origin(kind) in (Union, UnionType, Annotated):
        kind = get_args(kind)[0]
    return kind
