"""Pausing a destination and letting it go on (decision 38)."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from jbm_kafka.codec.pause_record import Halt, Pause, decode_pause, encode_pause, pause_key
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.registry.registry_log import Changes, RegistryLog

FOLLOW_S = 3.0
"""Processes look every second whether there is news, and are some hundred milliseconds reading it."""
BY_MAX = 100
"""Characters of the operator's name, which stands in errors and logs of every process."""
What = Literal["production", "sending", "consumption", "receiving", "both"]
"""The part of a destination that is paused."""
BOTH = ("production", "consumption")
PARTS = {"sending": "production", "receiving": "consumption"}
"""The words of people and of the command, and JBoss's for the same: both are taken."""


def parts_of(what: object) -> tuple[str, ...]:
    """Return what is meant by "production", "consumption", "both", or by what people call them."""
    if what == "both":
        return BOTH
    if isinstance(what, str) and (part := PARTS.get(what, what)) in BOTH:
        return (part,)
    wrong = wrong_value if isinstance(what, str) else wrong_type
    raise wrong("what", what, "it is 'production' or 'sending', 'consumption' or 'receiving', or 'both'")


def operator_name(by: object) -> str:
    """The operator's name as given; without one, user and host of this process.

    Raises:
        InvalidSettingError: it is no short line that can be shown at any terminal.
    """
    if by is None:
        return "".join(each for each in me() if each.isprintable())[:BY_MAX]
    if not isinstance(by, str):
        raise wrong_type("by", by, "it is a str with the operator's name, or None")
    if not by.strip() or len(by) > BY_MAX or not by.isprintable():
        raise wrong_value("by", by, f"it is 1 to {BY_MAX} characters that can be printed, on one line")
    return plain_text(by)


def me() -> str:
    """User and host of this process, for people."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


def change(registry: RegistryLog, destination: Queue | Topic, halts: Mapping[str, Halt | None]) -> Pause:
    """Record what is paused, and what is not any more; what was paused before keeps its operator and its time.

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    key = pause_key(destination.name)

    def changed(values: Mapping[bytes, bytes]) -> Changes:
        value = values.get(key)
        before = Pause() if value is None else decode_pause(value)
        after = before
        for part, halt in halts.items():
            kept = getattr(before, part) if halt is not None else None
            after = replace(after, **{part: kept or halt})
        return {} if after == before else {key: encode_pause(after)}

    registry.update(changed)
    found = registry.get(key)
    return Pause() if found is None else decode_pause(found)
