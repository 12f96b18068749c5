"""Numbers among Kafka's properties. librdkafka takes what a text begins with: 10s would be ten milliseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS

_NUMBER = re.compile(r"\.(ms|bytes|kbytes|messages|size|count|level)$")
"""How the names of those end whose values are numbers. None of them is a secret."""
_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LINGER = ("linger.ms", "queue.buffering.max.ms")
"""Two names of one, the only number that may have a fraction."""
_POLL = "max.poll.interval.ms"


def number_fault(settings: Mapping[str, object], session_timeout_ms: int | None) -> tuple[str, str] | None:
    """The property whose number is wrong, and what it should be; None when none is.

    `session_timeout_ms`: that of the groups that are joined with them; None: none is.
    """
    for name, value in settings.items():
        if not _NUMBER.search(name):
            continue
        text = str(value).strip()
        if name in _LINGER:
            if not _DECIMAL.fullmatch(text):
                return name, f"it is a number of milliseconds below {RECORD_TIMEOUT_MS}, as in 5"
            # librdkafka refuses to make such a transactional producer, and that would show at the first commit.
            if float(text) >= RECORD_TIMEOUT_MS:
                return name, (
                    "that is as long as a record in a transaction may take to be written; use less than "
                    f"{RECORD_TIMEOUT_MS}"
                )
        elif not _WHOLE.fullmatch(text):
            unit = " of milliseconds" if name.endswith(".ms") else ""
            return name, f"it is a whole number{unit}, as in 5{'000' if unit else ''}"
        elif name == _POLL and session_timeout_ms is not None and int(float(text)) < session_timeout_ms:
            return name, (
                f"it is at least `session_timeout_ms`, which is {session_timeout_ms}; raise the one, or lower the "
                "other, which is an argument of ConnectionFactory"
            )
    return None
