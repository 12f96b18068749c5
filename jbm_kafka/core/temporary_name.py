"""The names of temporary destinations: whose it is, and where it is read (decision 33)."""

from __future__ import annotations

import re
from dataclasses import dataclass

TEMPORARY_TOPIC = "jbm.temporary"
"""Carries the messages of all of them; also the name by which their address settings are looked up."""
TEMPORARY_HEADER = "JBMTemporary"
"""Says which temporary destination a record is for."""

_FORM = re.compile(r"([0-9a-f]{13})-(c[0-9a-f]{4,32})\.([0-9]{1,12})@([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TemporaryName:
    """The parts of a temporary destination's name; `str` gives the name."""

    process: str
    """The end of its holder's group (decision 28): while that has a member, the process lives."""
    connection_id: str
    number: int
    """The number among the connection's temporary destinations."""
    partition: int
    """The partition of `jbm.temporary` that the process reads."""

    def __str__(self) -> str:
        return f"{self.process}-{self.connection_id}.{self.number}@{self.partition}"


def parse_temporary_name(name: str) -> TemporaryName | None:
    """Return what the name says; None when nothing of ours made it."""
    found = _FORM.fullmatch(name)
    if found is None:
        return None
    return TemporaryName(found[1], found[2], int(found[3]), int(found[4]))


def settings_name(name: str) -> str:
    """Return the name by which a destination's address settings are looked up: temporary ones have them in common."""
    return TEMPORARY_TOPIC if "@" in name else name
