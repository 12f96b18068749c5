"""The messages of a queue that an operator means, in their order, with warnings about their units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal

from jbm_kafka.admin.cluster.admin_arguments import check_named, chosen_by
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.codec.record_values import record_timestamp_ms, record_value
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.jms_errors import InvalidSettingError, OrderError
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.arguments import checked_flag
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.provider import Seen

NAMED = 3
"""Units that a text names before it counts."""


@dataclass(frozen=True, slots=True)
class ChosenMessage:
    """One message of a queue, as it was when it was looked at."""

    partition: int
    """The number of the partition of the queue's Kafka topic."""
    offset: int
    """Its place in the partition."""
    unit: str | None
    """Its unit of order; None: it has none."""
    message_id: str
    """As `message.message_id`."""
    bytes: int
    """The size of its record, about."""
    sort_key: int = 0
    """Its place in the order that was asked for; its unit's earlier messages have none that is greater."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are meant: all for which all that is asked for is so."""

    unit: str | None = None
    ids: frozenset[str] | None = None
    selector: Selector | None = None

    def matches(self, record: KafkaRecord) -> bool:
        """Return True if it is meant. An id names every message that has it."""
        return (
            (self.unit is None or self.unit == unit_name(record.key()))
            and (self.ids is None or _id(record) in self.ids)
            and (self.selector is None or self.selector.matches(partial(record_value, record)))
        )


def choice_of(
    selector: str | None, unit: str | None, message_id: str | Collection[str] | None, *, everything: bool
) -> Choice:
    """Return what a caller gives, as it is used.

    Raises:
        InvalidSettingError: nothing is given, or `everything` and something else; or `everything` is not a bool.
        InvalidSelectorError: the selector is wrong; `position` tells the column.
    """
    check_named("unit", unit)
    ids = [message_id] if isinstance(message_id, str) else message_id
    if ids is not None and not (isinstance(ids, Collection) and all(isinstance(each, str) for each in ids)):
        raise wrong_type("message_id", message_id, "it is a str, several of them, or None for any")
    for each in ids or ():
        check_named("message_id", each)
    is_narrowed = any(given is not None for given in (selector, unit, ids))
    if checked_flag("everything", everything) == is_narrowed:
        remedy = (
            "everything=True means all messages, and unit, message_id or selector only some: give one or the other"
            if everything
            else "say which messages are meant: by unit, message_id or selector, or else everything=True"
        )
        raise InvalidSettingError(remedy, setting="everything", value=everything)
    return Choice(unit, None if ids is None else frozenset(ids), chosen_by(selector))


def _id(record: KafkaRecord) -> str:
    return message_id_of(record.headers(), record.topic() or "", record.partition() or 0, record.offset() or 0)


ORDERS: Mapping[str, Callable[[KafkaRecord], int]] = {
    "log": lambda record: 0,
    "sent": record_timestamp_ms,
    "priority": lambda record: -scan(record.headers()).priority,
}
"""Keys by which messages are ordered, the lowest first; equal ones stay as they are in the log."""


Order = Literal["log", "sent", "priority"]
"""One of them, for type checkers."""


def check_order(order: object) -> None:
    """Raises InvalidSettingError for an order that there is not."""
    if not (isinstance(order, str) and order in ORDERS):
        wrong = wrong_value if isinstance(order, str) else wrong_type
        raise wrong("order", order, f"it is {' or '.join(map(repr, ORDERS))}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The messages that are meant, as far as the limit goes, in the order asked for."""

    messages: Sequence[ChosenMessage]
    left_out: int
    """More are meant, beyond the limit."""
    split: Collection[str]
    """Units of which some are among them, and others are not."""

    @property
    def has_units(self) -> bool:
        """Some belong to a unit."""
        return any(message.unit is not None for message in self.messages)


def choose(seen: Iterable[Seen], choice: Choice, *, order: str, count: int | None) -> Chosen:
    """Return those of what a queue holds that are meant.

    Whatever the order, messages of one unit stay as they are: one that would come before an earlier one follows it.
    """
    key_of = ORDERS[order]
    latest: dict[tuple[int, bytes], int] = {}
    found: list[ChosenMessage] = []
    others: set[str] = set()
    for each in seen:
        record = each.record
        unit = unit_name(record.key())
        if not choice.matches(record):
            if unit is not None:
                others.add(unit)
            continue
        partition, sort_key = record.partition() or 0, key_of(record)
        if unit is not None:
            place = (partition, record.key() or b"")
            sort_key = latest[place] = max(sort_key, latest.get(place, sort_key))
        found.append(
            ChosenMessage(partition, record.offset() or 0, unit, _id(record), _size(record), sort_key=sort_key)
        )
    found.sort(key=lambda message: (message.sort_key, message.partition, message.offset))
    taken = found if count is None else found[:count]
    others.update(message.unit for message in found[len(taken) :] if message.unit is not None)
    units = {message.unit for message in taken if message.unit is not None}
    return Chosen(taken, len(found) - len(taken), units & others)


def _size(record: KafkaRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers() or ())
    return len(record.value() or b"") + len(record.key() or b"") + headers


def check_whole(chosen: Chosen, *, splits_units: bool) -> Sequence[str]:
    """Warnings of units that are split.

    Raises:
        OrderError: some are, and nobody asked for that.
    """
    if not chosen.split:
        return ()
    units = several(chosen.split)
    if splits_units:
        return (f"{units}: only some of the messages are moved, so order across the two queues is given up",)
    raise OrderError(
        f"{units}: only some of the messages would be moved, and others stay: choose whole units, or give up their "
        f"order with split_units=True (--split-units)",
        units=sorted(chosen.split),
    )


def several(units: Collection[str]) -> str:
    """These units, for people: a few of them, and how many more."""
    names = ", ".join(repr(unit) for unit in islice(sorted(units), NAMED))
    more = f" and {len(units) - NAMED} more" if len(units) > NAMED else ""
    return f"{'unit' if len(units) == 1 else 'units'} {names}{more}"
