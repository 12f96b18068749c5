"""What a bridge records of the messages that it has taken on: key `batch|<number>`, value their marks, 12 bytes each.

A mark is a digest of where a message is in Kafka, and of its id or else its topic's; of one that an AMQP server gave,
of its id and body, for the next delivery has another place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.codec.one_header import header_text
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports import KafkaRecord

MARK_BYTES = 12
_BATCH = b"batch|"
_FORMAT = b"\x01"


def placed_mark(record: KafkaRecord, topic_id: Callable[[], str]) -> bytes:
    """The mark of a message in Kafka. Its id tells it from one at the same place of a topic that was made anew, and
    where it has none that topic's id does, which a process hears of late."""
    named = header_text(record.headers(), MESSAGE_ID_HEADER) or topic_id()
    place = f"{record.partition()}\0{record.offset()}\0{named}"
    return hashlib.blake2b(place.encode(), digest_size=MARK_BYTES).digest()


def named_mark(record: KafkaRecord) -> bytes | None:
    """The mark of a message without a place; None: it has no id, and nobody could know it again."""
    message_id = header_text(record.headers(), MESSAGE_ID_HEADER)
    if not message_id:
        return None
    # With the body, for an id is not always one message's, and one that is taken for another would be lost.
    return hashlib.blake2b(message_id.encode() + b"\0" + (record.value() or b""), digest_size=MARK_BYTES).digest()


def batch_key(number: int) -> bytes:
    """The key of a batch's record."""
    return _BATCH + b"%d" % number


def batch_value(marks: Sequence[bytes]) -> bytes:
    """The value of a batch's record."""
    return _FORMAT + b"".join(marks)


def recorded_batches(records: Mapping[bytes, bytes]) -> dict[int, Sequence[bytes]]:
    """The batches of these records, by number.

    Raises:
        CorruptRecordError: one is of a form that this version does not know.
    """
    found: dict[int, Sequence[bytes]] = {}
    for key, value in records.items():
        if not key.startswith(_BATCH):
            continue
        number, marks = key.removeprefix(_BATCH), value[1:]
        if not number.isdigit() or value[:1] != _FORMAT or len(marks) % MARK_BYTES:
            raise CorruptRecordError(f"a bridge's record {key!r} is of a form that this version does not know")
        found[int(number)] = [marks[at : at + MARK_BYTES] for at in range(0, len(marks), MARK_BYTES)]
    return found
