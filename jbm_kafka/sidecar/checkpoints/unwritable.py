"""The errors of a send and of a commit to a partition without a leader (UNIT-11, decision 53).

A sender knows its units. The log must not tell them: there the same text goes without.
"""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.codec.identity import unit_name
from jbm_kafka.core.jms_errors import JMSError, OrderRolledBackError, TransactionRolledBackError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.ports import Outgoing


def what_is_missing(record: Outgoing) -> str:
    """Where it cannot be written, what that means for its unit, and what helps; the sentence goes on."""
    unit = "" if record.key is None else f", and unit {shown(unit_name(record.key))} is in it and goes nowhere else"
    return (
        f"partition {record.partition} has no leader, so nothing can be written there{unit}; bring a broker back that "
        f"has a replica of it (kafka-topics.sh --describe --topic {record.topic} tells which)"
    )


def without_leader(about: str, stuck: Sequence[Outgoing]) -> TransactionRolledBackError:
    """Return the error of a commit with these sends; an OrderError as well when one of them is in a unit."""
    record = next((each for each in stuck if each.key is not None), stuck[0])
    text = f"{about}: rolled back: {record.topic}: {what_is_missing(record)}, and do it again"
    if record.key is None:
        return TransactionRolledBackError(text, about=about, destination=record.topic, partition=record.partition)
    return OrderRolledBackError(
        text, about=about, destination=record.topic, unit=unit_name(record.key), partition=record.partition
    )


def without_unit(error: Exception) -> str:
    """Return what an error says, for the log: the unit that it is about may be a customer."""
    unit = error.values.get("unit") if isinstance(error, JMSError) else None
    unit = unit.decode(errors="replace") if isinstance(unit, bytes) else unit
    return str(error) if unit is None else str(error).replace(f"unit {shown(unit)}", "its unit")
