"""Values of `jbm.events`: what one checkpoint did to one channel partition, as Avro `ChannelEvents`."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.entries import UNIT_BYTES_MAX, ChannelEvents, MessageEvent, MessageFate, OffsetRange
from jbm_kafka.core.jms_errors import CorruptRecordError

PORTION_BYTES = 256 * 1024
"""About how large a record becomes at most; any topic takes that."""
_RANGE_BYTES = 20
_MESSAGE_BYTES = 64
"""The fixed part of an event about one message."""


def in_portions(events: ChannelEvents) -> Iterator[ChannelEvents]:
    """The same events as several whose records every topic takes: one checkpoint may settle any number of messages."""
    if len(events.acknowledged) * _RANGE_BYTES + sum(map(_bytes_of, events.messages)) <= PORTION_BYTES:
        yield events
        return
    ranges = PORTION_BYTES // _RANGE_BYTES
    for begin in range(0, len(events.acknowledged), ranges):
        yield replace(events, acknowledged=events.acknowledged[begin : begin + ranges], messages=())
    portion: list[MessageEvent] = []
    size = 0
    for event in events.messages:
        size += _bytes_of(event)
        if portion and size > PORTION_BYTES:
            yield replace(events, acknowledged=(), messages=tuple(portion))
            portion, size = [], _bytes_of(event)
        portion.append(event)
    if portion:
        yield replace(events, acknowledged=(), messages=tuple(portion))


def encode_events(events: ChannelEvents) -> tuple[bytes, bytes]:
    """Key and value of the events' record."""
    fields = {
        "group": events.group,
        "topic": events.topic,
        "partition": events.partition,
        "checkpoint_id": events.checkpoint_id,
        "at_ms": events.at_ms,
        "acknowledged": [{"first": each.first, "last": each.last} for each in events.acknowledged],
        "messages": [_message_fields(each) for each in events.messages],
    }
    return events.group.encode(), codec("ChannelEvents").encode(fields)


def decode_events(value: bytes) -> ChannelEvents:
    """The events of a record's value.

    Raises:
        CorruptRecordError: `encode_events` of this or an older version did not make the value.
    """
    fields = codec("ChannelEvents").decode(value)
    fields["acknowledged"] = tuple(OffsetRange(**each) for each in fields["acknowledged"])
    fields["messages"] = tuple(_read_message(each) for each in fields["messages"])
    return ChannelEvents(**fields)


def _bytes_of(event: MessageEvent) -> int:
    return _MESSAGE_BYTES + min(len(event.unit or b""), UNIT_BYTES_MAX) + len(event.target or "") + len(event.reason)


def _message_fields(event: MessageEvent) -> dict[str, Any]:
    unit, reason = event.unit, event.reason
    if unit is not None and len(unit) > UNIT_BYTES_MAX:
        reason = f"{reason} (its unit of {len(unit)} bytes is left out)"
        unit = None
    return {
        "fate": event.fate.value,
        "offset": event.offset,
        "unit": unit,
        "attempts": event.attempts,
        "target": event.target,
        "reason": reason,
    }


def _read_message(fields: dict[str, Any]) -> MessageEvent:
    try:
        fate = MessageFate(fields["fate"])
    except ValueError:
        raise CorruptRecordError(f"ChannelEvents: fate {fields['fate']!r} is not known; a newer version's?") from None
    return MessageEvent(**{**fields, "fate": fate})
