"""The headers of a message that a bridge sends on, and the list of the places that it has passed (BRIDGE-7)."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

from jbm_kafka.codec.dead_letter import HOP_PROPERTIES
from jbm_kafka.codec.headers import (
    REPLY_TO_ADDRESS_HEADER,
    REPLY_TO_HEADER,
    parse_reply_to,
    property_of_header,
    utf8_or_none,
)
from jbm_kafka.codec.identity import foreign_message_id
from jbm_kafka.codec.property_header import Property, property_header
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER, SUBSCRIPTION_HEADER, Header, parse_count
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER
from jbm_kafka.ports import KafkaRecord

HOPS = "JBM_BRIDGED"
"""The property with the sources of the bridges that a message has passed, the first one first."""
HOPS_MAX = 16
"""A message that has passed so many bridges is refused by the next, whatever their names are."""
_BETWEEN = " > "
_HOPS_HEADER = property_header(HOPS, Property("string", ""))[0]
_TIMESTAMP = "JMSTimestamp"
_NOT_BRIDGED = frozenset(["JBMDuplicateID", TEMPORARY_HEADER, SUBSCRIPTION_HEADER])
"""The source has judged the first, by its own window. At the target all are sent at a time, and two that were a day
apart, which both count, would look like one. The others are about the source."""


class _Fate(Enum):
    """What becomes of a header."""

    KEPT = "kept"
    LEFT = "left"
    """Also what tells of a dead letter's hop: it is no letter at the target."""
    WRITTEN_ANEW = "written anew"


class PassedHeaders:
    """Those of a received record, read once: for each message this is what a bridge does most."""

    __slots__ = ("_kept", "_reply_header", "_timestamp_ms", "has_id", "hops", "message_id", "reply_to")

    def __init__(self, record: KafkaRecord, *, has_place: bool) -> None:
        """`has_place`: it is in Kafka, where its place is an id; from an AMQP server each delivery has another."""
        self._kept: list[Header] = []
        message_id: str | None = None
        timestamp_ms: int | None = None
        hops: str | None = None
        self.reply_to: bytes | None = None
        """Where answers go, as the record says it, be it by an address of AMQP that is none of ours; None: nowhere."""
        self._reply_header = REPLY_TO_HEADER
        for header in record.headers() or ():
            name, value = header
            fate = _fate(name)
            if fate is _Fate.KEPT:
                self._kept.append(header)
            elif fate is _Fate.LEFT or value is None:
                continue
            elif name == MESSAGE_ID_HEADER:
                message_id = utf8_or_none(value)
            elif name == _TIMESTAMP:
                timestamp_ms = parse_count(value)
            elif name in (REPLY_TO_HEADER, REPLY_TO_ADDRESS_HEADER):
                self.reply_to, self._reply_header = value, name
            else:
                hops = utf8_or_none(value)
        self._timestamp_ms = record.timestamp()[1] if timestamp_ms is None else timestamp_ms
        self.has_id = bool(message_id)
        """Its sender gave it one."""
        self.message_id: str = message_id or ""
        """As receivers at the source see it; "": nobody could know it again."""
        if has_place and not self.has_id:
            place = record.topic() or "", record.partition() or 0, record.offset() or 0
            self.message_id = foreign_message_id(*place)
        self.hops: tuple[str, ...] = tuple(hops.split(_BETWEEN)) if hops else ()
        """The sources of the bridges that the message has passed."""

    @property
    def answers_to(self) -> Destination | None:
        """The `reply_to` that can be read."""
        return None if self.reply_to is None else parse_reply_to(utf8_or_none(self.reply_to), [])

    def bridged(self, hop: str, reply_to: bytes | None) -> list[Header]:
        """Those for the target: with `hop`, the source; `reply_to`: where answers go, None: nowhere.

        Id and time of sending stand in headers: the record at the target may not tell them by itself.
        """
        headers = self._kept
        if self.message_id:
            headers.append((MESSAGE_ID_HEADER, self.message_id.encode()))
        if self._timestamp_ms > 0:
            headers.append((_TIMESTAMP, b"%d" % self._timestamp_ms))
        if reply_to is not None:
            headers.append((self._reply_header if reply_to is self.reply_to else REPLY_TO_HEADER, reply_to))
        passed = f"{_BETWEEN.join(self.hops)}{_BETWEEN}{hop}" if self.hops else hop
        headers.append((_HOPS_HEADER, passed.encode()))
        return headers


@lru_cache(maxsize=4096)
def _fate(name: str) -> _Fate:
    if name in _NOT_BRIDGED:
        return _Fate.LEFT
    known = property_of_header(name)[1]
    if name in (MESSAGE_ID_HEADER, _TIMESTAMP, REPLY_TO_HEADER, REPLY_TO_ADDRESS_HEADER) or known == HOPS:
        return _Fate.WRITTEN_ANEW
    return _Fate.LEFT if known in HOP_PROPERTIES else _Fate.KEPT
