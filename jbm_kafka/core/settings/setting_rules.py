"""The rules for each address setting, as one table; the answer to a wrong value says what to write instead."""

import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType, NoneType

from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.durations import duration_fault
from jbm_kafka.core.plain_text import utf8_fault
from jbm_kafka.core.sentinels import SYSTEM_GENERATED, UnitMarker
from jbm_kafka.core.settings.addresses import address_fault

PARTITIONS_MAX = 10_000
"""More than any broker here is meant for: a typing error, most likely."""

Rule = Callable[[object], str | None]


def setting_fault(name: str, value: object) -> str | None:
    """Why the setting cannot have this value, with the remedy; None when it can."""
    return RULES[name](value)


def is_of_its_type(name: str, value: object) -> bool:
    """Return True if the setting can have values of this type at all."""
    return isinstance(value, TYPES[name]) and isinstance(value, bool) == (TYPES[name] == (bool,))


def _milliseconds(value: object) -> str | None:
    return duration_fault(value)


def _attempts(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return "it is an int"
    return None if value == -1 or value >= 1 else "it is at least 1, or -1 for no limit"


def _positive(value: object, most: float = math.inf) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return "it is an int"
    return None if 1 <= value <= most else f"it is at least 1{'' if most == math.inf else f' and at most {most}'}"


def _number(value: object, least: float, most: float) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "it is a number"
    if least <= value <= most and math.isfinite(value):
        return None
    if most == math.inf and not math.isfinite(value):
        return f"it is a finite number of at least {least:g}"
    return f"it is at least {least:g}" if most == math.inf else f"it is between {least:g} and {most:g}"


def _cap(value: object) -> str | None:
    if value is None:
        return None
    # 0 would read as "no limit" to some and as "no delay" to others.
    return "leave it out, or set None, for ten times the delay" if value in (0, timedelta()) else _milliseconds(value)


def _unit(value: object) -> str | None:
    if value is None or value is SYSTEM_GENERATED:
        return None
    if isinstance(value, str) and value:
        return utf8_fault(value)
    return "it is a name that is not empty, SYSTEM_GENERATED, or None"


def _one_of(*words: str) -> Rule:
    expected = " or ".join(repr(word) for word in words)
    return lambda value: None if isinstance(value, str) and value in words else f"it is {expected}"


def _routing(value: object) -> str | None:
    if value == "path-service":
        return "units keep their partition without it, when jbm-kafka admit-partitions adds some; leave it out"
    return _one_of("hash")(value)  # what is refused is not offered


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "max_delivery_attempts": _attempts,
        "redelivery_delay_ms": _milliseconds,
        "redelivery_delay_multiplier": lambda value: _number(value, 1, math.inf),
        "redelivery_collision_avoidance_factor": lambda value: _number(value, 0, 1),
        "max_redelivery_delay_ms": _cap,
        "dead_letter_address": address_fault,
        "expiry_address": address_fault,
        "on_dead_letter": _one_of("continue", "hold"),
        "default_unit_of_order": _unit,
        "duplicate_window_ms": _milliseconds,
        "duplicate_window_count": lambda value: None if value is None else _positive(value),
        "partitions": lambda value: _positive(value, PARTITIONS_MAX),
        "truncate": _one_of("settled", "never"),
        "routing": _routing,
        "record_deliveries": lambda value: None if isinstance(value, bool) else "it is True or False",
    }
)

TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "max_delivery_attempts": (int,),
        "redelivery_delay_ms": (int, timedelta),
        "redelivery_delay_multiplier": (int, float),
        "redelivery_collision_avoidance_factor": (int, float),
        "max_redelivery_delay_ms": (int, timedelta, NoneType),
        "dead_letter_address": (str, Queue, Topic, NoneType),
        "expiry_address": (str, Queue, Topic, NoneType),
        "on_dead_letter": (str,),
        "default_unit_of_order": (str, UnitMarker, NoneType),
        "duplicate_window_ms": (int, timedelta),
        "duplicate_window_count": (int, NoneType),
        "partitions": (int,),
        "truncate": (str,),
        "routing": (str,),
        "record_deliveries": (bool,),
    }
)
"""The types of each setting's values; True and False are of (bool,) alone, though Python counts them as int."""
