"""Enums that name the likely member to who asks for one that there is not, as by its name in another case, or by the
name of one as if it were its value.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from enum import Enum, EnumType

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.special_methods import put_special_methods
from jbm_kafka.core.wrong_values import shown, wrong_value


class NamedMembers(EnumType):
    """Their metaclass."""


def _of_unknown(cls: NamedMembers, name: str) -> object:
    """Refuses names that there are not, and tells the likely member."""
    members: Mapping[str, object] = cls._member_map_
    if name in members:  # up to Python 3.11 this is how each is found
        return members[name]
    if name.startswith("_"):
        raise AttributeError(name, name=name, obj=cls)
    near = _near(cls, name)
    likely = f"; {near!r} is meant, probably" if near else ""
    raise AttributeError(f"{cls.__name__} has no {shown(name)}{likely}; it has {_names(cls)}", name=name, obj=cls)


_OTHER_WORDS = {"TRANSIENT": "NON_PERSISTENT"}
"""What other systems call one."""


def _near(cls: EnumType, name: str) -> str | None:
    if (other := _OTHER_WORDS.get(name.upper())) in cls.__members__:
        return other
    by_letters = {each.replace("_", ""): each for each in cls.__members__}
    near = difflib.get_close_matches(name.replace("_", "").upper(), by_letters, n=1)
    return by_letters[near[0]] if near else None


def _names(cls: EnumType) -> str:
    return ", ".join(each.name for each in cls)  # type: ignore[var-annotated]


def of_no_member(cls: type[Enum], value: object) -> InvalidSettingError:
    """What an enum's `_missing_` raises."""
    near = _near(cls, value) if isinstance(value, str) else None
    use = f"{cls.__name__}.{near}" if near else f"one of {_names(cls)}"
    return wrong_value(cls.__name__, value, f"use {use}")


put_special_methods(NamedMembers, {"__getattr__": _of_unknown})
