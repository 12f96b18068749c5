"""Values that do not change, told in their own words to who sets an attribute of one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import TypeVar

from jbm_kafka.core.likely_name import with_likely_name
from jbm_kafka.core.wrong_values import shown, with_article

T = TypeVar("T")


def told_frozen(cls: type[T]) -> type[T]:
    """The frozen dataclass, which says what it is and what to do instead.

    With slots Python's own refusal of a name that is no field fails by itself, with a TypeError about super().
    """
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]

    def refuse(self: object, name: str, value: object = None) -> None:
        kind = with_article(type(self))
        if name in names:
            text = f"{name} of {kind} cannot be changed; make a new one"
        else:
            text = with_likely_name(f"{kind} has no attribute {shown(name)}, and cannot be changed", name, names)
        raise FrozenInstanceError(text)

    # By their names: a type checker would take a `__setattr__` that it sees for "any name is an attribute".
    setattr(cls, "__setattr__", refuse)  # noqa: B010
    setattr(cls, "__delattr__", refuse)  # noqa: B010
    return cls
