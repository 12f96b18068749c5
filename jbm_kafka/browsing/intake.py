"""From fetched records to references: the hottest loop of the sidecar's intake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from jbm_kafka.codec.bodies import BODY_HEADER, body_kind
from jbm_kafka.codec.one_header import last_value
from jbm_kafka.codec.record_values import record_value
from jbm_kafka.codec.scan import DECIDING_HEADERS, MESSAGE_ID_HEADER, Header, scan
from jbm_kafka.core.channel.duplicate_window import Identified
from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY, Reference
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import KafkaRecord

SENDER_HEADER = "JBMSender"
"""The sender of a message to a topic: `<client id>/<connection id>`."""


_NOBODY: Final[Mapping[int, bytes]] = MappingProxyType({})


class Intake(NamedTuple):
    """The records that were fetched of one partition."""

    references: list[Reference]
    mean_body_bytes: int
    identified: Sequence[Identified]
    """The messages that have a duplicate id."""
    addressed: Mapping[int, bytes]
    """The messages that only one subscription of the topic has, by offset: its full name (decision 51)."""


def references_by_partition(records: Sequence[KafkaRecord]) -> Mapping[int, Intake]:
    """References and the rough size of a body by partition, in the order fetched. An empty key is no unit."""
    rows: dict[int, list[Reference]] = {}
    identified: dict[int, list[Identified]] = {}
    addressed: dict[int, dict[int, bytes]] = {}
    current: int | None = None
    mine: list[Reference]
    for record in records:
        priority, expiration_ms, delivery_time_ms, delay_ms, kind = DEFAULT_PRIORITY, 0, 0, 0, None
        is_plain = True
        # `scan` and `body_kind` in one: the headers are in the processor's cache now, and never again as cheap.
        found = record.headers()
        # What is known to be a list is gone through without iterators and unpacking: a tenth of this loop.
        headers = cast("list[Header]", found if isinstance(found, list) else list(found or ()))
        for header in headers:
            name = header[0]
            # Most are properties or the id, and a set would hash each name. Compiled, the first character is compared
            # in a tenth of the time that `startswith` takes.
            if not name or name[0] != "J" or name == MESSAGE_ID_HEADER:
                continue
            if name == BODY_HEADER:
                kind = header[1]
            elif is_plain and name in DECIDING_HEADERS:
                priority, expiration_ms, delivery_time_ms, duplicate_id, subscription = scan(headers)
                is_plain = False
                if delivery_time_ms:
                    delay_ms = _delay_ms(record, delivery_time_ms)
                if subscription is not None:
                    addressed.setdefault(cast(int, record.partition()), {})[cast(int, record.offset())] = subscription
                if duplicate_id:
                    _identify(identified, record, duplicate_id)
        partition = record.partition()
        if partition != current:  # records come in runs
            assert partition is not None
            current, mine = partition, rows.setdefault(partition, [])
        offset = record.offset()
        assert offset is not None
        unit = record.key() or None
        mine.append(Reference(offset, unit, priority, expiration_ms, delivery_time_ms, record, kind, delay_ms))
    return {
        partition: Intake(
            references, _mean_body_bytes(references), identified.get(partition, ()), addressed.get(partition, _NOBODY)
        )
        for partition, references in rows.items()
    }


def reference_of(record: KafkaRecord) -> Reference:
    """One reference, for records that come back from the held store."""
    headers = record.headers()
    scanned = scan(headers)
    return Reference(
        offset=cast(int, record.offset()),
        unit=record.key() or None,
        priority=scanned.priority,
        expiration_ms=scanned.expiration_ms,
        delivery_time_ms=scanned.delivery_time_ms,
        record=record,
        body_kind=body_kind(headers),
        delivery_delay_ms=_delay_ms(record, scanned.delivery_time_ms),
    )


def _delay_ms(record: KafkaRecord, delivery_time_ms: int) -> int:
    """How long after its sending it may go, by the clock that stamped both; 0: not known."""
    return max(0, delivery_time_ms - record.timestamp()[1])


def without_others(
    references: list[Reference], addressed: Mapping[int, bytes], subscription: Subscription | None
) -> list[Reference]:
    """But for those that only another subscription of the topic has. A queue has all."""
    if subscription is None or not addressed:
        return references
    others = {offset for offset, address in addressed.items() if not subscription.is_meant(address)}
    return [each for each in references if each.offset not in others]


def is_for_another(record: KafkaRecord, subscription: Subscription | None) -> bool:
    """Return True if only another subscription of the topic has it."""
    if subscription is None:
        return False
    only = scan(record.headers()).subscription
    return only is not None and not subscription.is_meant(only)


def is_its_own(record: KafkaRecord, subscription: Subscription | None, has: Callable[[Reference], bool] | None) -> bool:
    """Return True if the queue, or the subscription with what `what_it_has` says of it, has the message."""
    if subscription is None:
        return True
    return not is_for_another(record, subscription) and (has is None or has(reference_of(record)))


def what_it_has(subscription: Subscription) -> Callable[[Reference], bool] | None:
    """Return True if a message is for this subscription: its selector chooses it, and `no_local` does not leave it out.

    None: everything is.
    """
    selector, no_local = parse_selector(subscription.selector), subscription.no_local
    if selector is None and not no_local:
        return None

    def has(reference: Reference) -> bool:
        if no_local and _is_from(reference, subscription.leaves_out):
            return False
        return selector is None or selector.matches(partial(record_value, cast(KafkaRecord, reference.record)))

    return has


def _is_from(reference: Reference, senders: Callable[[bytes], bool]) -> bool:
    """Return True if one of these sent it, by the sender in its headers."""
    sender = last_value(cast(KafkaRecord, reference.record).headers(), SENDER_HEADER)
    return sender is not None and senders(sender)


def _identify(found: dict[int, list[Identified]], record: KafkaRecord, duplicate_id: bytes) -> None:
    partition, offset = cast(int, record.partition()), cast(int, record.offset())
    _, sent_at_ms = record.timestamp()
    found.setdefault(partition, []).append(Identified(offset, record.key() or None, duplicate_id, max(sent_at_ms, 0)))


def _mean_body_bytes(references: Sequence[Reference]) -> int:
    # The first tells for all: bodies of one batch are alike, and looking at each costs as much as the rest here.
    value = cast(KafkaRecord, references[0].record).value()
    return 0 if value is None else len(value)
