"""Enums that name the likely member to who asks for one that there is not, as by its name in another case."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import EnumType

from jbm_kafka.core.wrong_values import shown


class NamedMembers(EnumType):
    """Their metaclass."""


def _of_unknown(cls: NamedMembers, name: str) -> object:
    members: Mapping[str, object] = cls.__members__
    if name in members:  # up to Python 3.11 this is how each is found
        return members[name]
    if name.startswith("_"):
        raise AttributeError(name, name=name, obj=cls)
    by_letters = {each.replace("_", ""): each for each in members}
    near = difflib.get_close_matches(name.replace("_", "").upper(), by_letters, n=1)
    likely = f"; {by_letters[near[0]]!r} is meant, probably" if near else ""
    text = f"{cls.__name__} has no {shown(name)}{likely}; it has {', '.join(each.name for each in cls)}"  # type: ignore[var-annotated]
    raise AttributeError(text, name=name, obj=cls)


# By its name: a type checker would take a `__getattr__` that it sees for "any name is a member".
setattr(NamedMembers, "__getattr__", _of_unknown)  # noqa: B010
