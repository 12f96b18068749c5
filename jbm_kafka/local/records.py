"""What a persistent channel writes of a message: one record, always its whole state."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from jbm_kafka.core.entries import Entry, Held, Position
from jbm_kafka.core.jms_errors import CorruptRecordError


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message a channel holds."""

    offset: int
    """Its place among all messages the channel ever took."""
    message_id: str
    attempts: int = 0
    due_at_ms: int = 0
    delay_ms: int = 0
    reason: str = ""
    receiver_id: str | None = None
    """The receiver that has it in hand."""
    is_acknowledged: bool = False
    """That receiver acknowledged it before its delivery was recorded."""

    @property
    def key(self) -> str:
        """The record's key; keys sort as offsets do."""
        return record_key(self.offset)

    def encode(self) -> bytes:
        """The record's value."""
        return json.dumps(asdict(self)).encode()


_MESSAGE = "message|"


def record_key(offset: int) -> str:
    """The key of the record of the message in this place."""
    return f"{_MESSAGE}{offset:019d}"


def decode_records(records: Mapping[str, bytes]) -> Iterator[MessageRecord]:
    """The messages of a channel, in arrival order.

    Raises:
        CorruptRecordError: no channel wrote one of the records.
    """
    for key in sorted(key for key in records if key.startswith(_MESSAGE)):
        try:
            record = MessageRecord(**json.loads(records[key]))
        except (ValueError, TypeError) as fault:
            raise CorruptRecordError(f"record {key!r} is no message of a channel: {fault}") from fault
        if record.key != key:
            raise CorruptRecordError(f"record {key!r} holds the message at {record.offset}")
        yield record


def recovery_entries(name: str, records: Sequence[MessageRecord], units: Mapping[int, bytes | None]) -> list[Entry]:
    """What to apply to an empty channel before it fetches these messages again."""
    first = records[0].offset if records else 0
    end = records[-1].offset + 1 if records else 0
    position = Position(topic_id=name, checkpoint_id="", watermark=first, fetched=end, offered=0, truncated=0)
    remembered = [
        Held(each.offset, each.attempts, each.due_at_ms, each.delay_ms, units[each.offset], each.reason)
        for each in records
        if each.attempts or each.due_at_ms
    ]
    return [position, *remembered]
