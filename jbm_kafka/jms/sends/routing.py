"""Which unit a message is sent with, and which partition that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from jbm_kafka.client.partition_choice import partition_of
from jbm_kafka.codec.identity import GROUP_ID, unit_name
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import MessageFormatError, OrderError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.sentinels import NO_UNIT, SYSTEM_GENERATED, UNSET, UnitMarker
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.wrong_values import no_utf8, shown
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports.provider import TopicInfo

UnitOfOrder = str | UnitMarker | None
"""As an application gives it: a name, NO_UNIT, SYSTEM_GENERATED, or None for what the defaults say."""
CACHED_UNITS = 10_000
"""Some 300 bytes each, of each producer."""


class Unit:
    """A unit of order as the application names it and as the log does; both None: no unit."""

    __slots__ = ("key", "name", "partition", "topic")

    def __init__(self, name: str | None, key: bytes | None) -> None:
        self.name = name
        self.key = key
        self.topic: TopicInfo | None = None
        """Where it was sent last."""
        self.partition = 0
        """Its partition there; good for as long as the topic is what it was."""


_NONE: Final = Unit(None, None)
# A constant that is final costs compiled code no look-up; these are asked for every message.
_UNSET: Final = UNSET
_NO_UNIT: Final = NO_UNIT
_SYSTEM_GENERATED: Final = SYSTEM_GENERATED


class Routing:
    """The routes of one producer's messages."""

    def __init__(
        self,
        *,
        settings_of: Callable[[str], ResolvedSettings],
        default_unit: UnitOfOrder,
        system_unit: str,
        without_unit: str,
        place_unit: Callable[[str, bytes], int],
    ) -> None:
        """`default_unit`: the factory's; `without_unit`: a name of the session's, whose hash is the partition of its
        messages without a unit, so that they stay in order (ORDER-1); `place_unit`: the provider's."""
        self._settings_of = settings_of
        self._place_unit = place_unit
        self._default_unit = default_unit
        self._system_unit = system_unit
        self._without_unit = without_unit.encode()
        self._turn = 0
        self._units: dict[str, Unit] = {}
        """The units of the latest messages by name."""

    def unit(
        self,
        given: object,
        of_producer: object,
        message: Message,
        properties: Mapping[str, object],
        target: Destination,
    ) -> Unit:
        """The unit by precedence (UNIT-10): send, producer, JMSXGroupID, destination, factory.

        Before the defaults comes the one that a message was sent with before: sent again it stays in order.

        Raises:
            OrderError: a name is invalid; or it was assigned to a message that was never sent, where it would be lost.
        """
        for candidate in (given, of_producer):
            if candidate is _NO_UNIT:
                return _NONE
            if candidate is not _UNSET and candidate is not None:
                return self._named(candidate)
        before = message.unit_of_order
        if message.destination is None and before is not None:
            raise OrderError(
                f"unit_of_order of the message is {shown(before)}, which no send looks at: give it to the send, as "
                f"send(message, unit_of_order=…), or to the producer",
                value=before,
            )
        group = properties.get(GROUP_ID)
        if group is None and message._known_properties != {}:  # most messages are sent as they were made, without any
            group = message.properties.get(GROUP_ID)
        if isinstance(group, str) and group:
            return self._of_group(group, message)
        if before is not None:
            return self._named(before)
        for default in (self._settings_of(target.name).default_unit_of_order, self._default_unit):
            if default is NO_UNIT:
                return _NONE
            if default is not None:
                return self._named(default)
        return _NONE

    def partition(self, info: TopicInfo, unit: Unit, duplicate_id: str | None, *, spread: bool) -> int:
        """Where the record goes: all of a unit to one partition, and all of a session's without a unit too."""
        key = unit.key
        if key is not None and unit.topic is info:
            return unit.partition
        if spread and key is None and duplicate_id is None:
            self._turn += 1
            return self._turn % info.partitions
        repeated = _utf8("duplicate_id", duplicate_id) if key is None and duplicate_id is not None else None
        found = partition_of(info, key, repeated, self._without_unit)
        if key is None:
            assert found is not None, info
            return found
        unit.partition = self._place_unit(info.topic, key) if found is None else found
        unit.topic = info
        return unit.partition

    def _of_group(self, group: str, message: Message) -> Unit:
        """A received message that is sent on keeps its key, also one that is no text and only shows as `0x…`."""
        received = message.kafka
        if received is not None and received.key and group == unit_name(received.key):
            return Unit(group, received.key)
        return self._named(group)

    def _named(self, unit: object) -> Unit:
        if unit is _SYSTEM_GENERATED:
            unit = self._system_unit
        if not isinstance(unit, str) or not unit:
            raise wrong_unit(unit)
        unit = plain_text(unit)
        known = self._units.get(unit)
        if known is None:
            if len(self._units) >= CACHED_UNITS:
                self._units.clear()
            known = self._units[unit] = Unit(unit, _utf8("unit_of_order", unit))
        return known


def checked_unit(unit: object) -> UnitOfOrder:
    """The unit; OrderError when it cannot be one, nor stand for one."""
    if not (unit is None or isinstance(unit, UnitMarker) or (isinstance(unit, str) and unit)):
        raise wrong_unit(unit)
    return unit


def wrong_unit(unit: object) -> OrderError:
    """The error for a value that cannot be a unit."""
    rule = "it is a str that is not empty, None, NO_UNIT or SYSTEM_GENERATED"
    return OrderError(f"unit_of_order is {shown(unit)}: {rule}", value=unit)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise MessageFormatError(f"{name} is {shown(text)}: {no_utf8(fault)}", value=text) from None
