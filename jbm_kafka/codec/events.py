"""Values of `jbm.events`: what one checkpoint did to one channel partition, as Avro `ChannelEvents`."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.channel.entries import (
    UNIT_BYTES_MAX,
    ChannelEvents,
    DeliveryRun,
    MessageEvent,
    MessageFate,
    OffsetRange,
)
from jbm_kafka.core.jms_errors import CorruptRecordError

PORTION_BYTES = 256 * 1024
"""About how large a record becomes at most; any topic takes that."""
_RANGE_BYTES = 20
_RUN_BYTES = 64
"""With its session, which it may be alone to have."""
_MESSAGE_BYTES = 96
"""The fixed part of an event about one message."""


def in_portions(events: ChannelEvents) -> Iterator[ChannelEvents]:
    """The same events as several whose records every topic takes: one checkpoint may settle any number of messages."""
    if _size_of(events) <= PORTION_BYTES:
        yield events
        return
    empty = replace(events, acknowledged=(), messages=(), deliveries=())
    ranges, runs = PORTION_BYTES // _RANGE_BYTES, PORTION_BYTES // _RUN_BYTES
    # Before what became of the messages: whoever reads on from anywhere knows that they were given.
    for begin in range(0, len(events.deliveries), runs):
        yield replace(empty, deliveries=events.deliveries[begin : begin + runs])
    for begin in range(0, len(events.acknowledged), ranges):
        yield replace(empty, acknowledged=events.acknowledged[begin : begin + ranges])
    portion: list[MessageEvent] = []
    size = 0
    for event in events.messages:
        size += _bytes_of(event)
        if portion and size > PORTION_BYTES:
            yield replace(empty, messages=tuple(portion))
            portion, size = [], _bytes_of(event)
        portion.append(event)
    if portion:
        yield replace(empty, messages=tuple(portion))


def encode_events(events: ChannelEvents) -> tuple[bytes, bytes]:
    """Key and value of the events' record."""
    from_ms = min([run.at_ms for run in events.deliveries], default=0)
    sessions: dict[tuple[str, str], int] = {}
    deliveries = [
        {
            "first": run.first,
            "count": run.count,
            "attempt": run.attempt,
            "session": sessions.setdefault((run.session, run.mode), len(sessions)),
            "after_ms": run.at_ms - from_ms,
        }
        for run in events.deliveries
    ]
    fields = {
        "group": events.group,
        "topic": events.topic,
        "partition": events.partition,
        "checkpoint_id": events.checkpoint_id,
        "at_ms": events.at_ms,
        "acknowledged": [{"first": each.first, "last": each.last} for each in events.acknowledged],
        "messages": [_message_fields(each) for each in events.messages],
        "topic_id": events.topic_id,
        "sessions": [{"id": session, "mode": mode} for session, mode in sessions],
        "deliveries_from_ms": from_ms,
        "deliveries": deliveries,
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
    sessions, from_ms = fields.pop("sessions"), fields.pop("deliveries_from_ms")
    fields["deliveries"] = tuple(_read_run(each, sessions, from_ms) for each in fields["deliveries"])
    return ChannelEvents(**fields)


def _size_of(events: ChannelEvents) -> int:
    ranges, runs = len(events.acknowledged) * _RANGE_BYTES, len(events.deliveries) * _RUN_BYTES
    return ranges + runs + sum(map(_bytes_of, events.messages))


def _read_run(fields: dict[str, int], sessions: list[dict[str, str]], from_ms: int) -> DeliveryRun:
    if not 0 <= fields["session"] < len(sessions):
        raise CorruptRecordError(f"ChannelEvents: session {fields['session']} of {len(sessions)}")
    session = sessions[fields["session"]]
    return DeliveryRun(
        first=fields["first"],
        count=fields["count"],
        attempt=fields["attempt"],
        session=session["id"],
        mode=session["mode"],
        at_ms=from_ms + fields["after_ms"],
    )


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
        "at_ms": event.at_ms,
        "due_at_ms": event.due_at_ms,
        "delay_ms": event.delay_ms,
        "max_delivery_attempts": event.max_delivery_attempts,
        "on_dead_letter": event.on_dead_letter,
    }


def _read_message(fields: dict[str, Any]) -> MessageEvent:
    try:
        fate = MessageFate(fields["fate"])
    except ValueError:
        raise CorruptRecordError(f"ChannelEvents: fate {fields['fate']!r} is not known; a newer version's?") from None
    return MessageEvent(**{**fields, "fate": fate})
