"""Messages on their way out of their channel: copies to dead-letter and expiry addresses, tried until they are written.

While a copy is on its way DEPARTING holds the message, and with it its unit. Owner thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from jbm_kafka.core.channel.changes import Acknowledged
from jbm_kafka.core.channel.departure import DEPARTS_BY, EXPIRED, MOVED, OPERATOR, Departure, route_of
from jbm_kafka.core.channel.entries import MessageEvent, MessageFate
from jbm_kafka.core.channel.log_id import topic_id_of
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.log_fields import log_fields
from jbm_kafka.core.settings.addresses import destination_at, kind_remedy
from jbm_kafka.core.temporary_name import settings_name
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.sidecar.channel.departure_records import CompressedBytes, as_told, copy_of, hoped_bytes
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling
from jbm_kafka.sidecar.checkpoints.unwritable import without_unit
from jbm_kafka.sidecar.log_lines.message_lines import COPY_RETRY_MS, MessageLines
from jbm_kafka.sidecar.topics.address_topics import LookedUp, TargetTopics

log = logging.getLogger(__name__)

Submit = Callable[[str, Sequence[Outgoing], Settling, Completion], None]
"""Gives the checkpointer a transfer of the group: its name, the copies, what it settles, what its end completes."""


class Departures:
    """The copies of one channel group's messages."""

    def __init__(self, data: GroupData, *, submit: Submit, targets: TargetTopics) -> None:
        self._data = data
        self._submit = submit
        self._targets = targets
        self.lines = MessageLines()
        self._to_retry: list[tuple[int, OwnedChannel, Departure]] = []
        """(when, channel, message): copies that could not be written; their units stay held."""

    def send_all(self, channel: OwnedChannel, leaving: Sequence[tuple[Reference, str]]) -> None:
        """Send messages that DEPARTING holds to the address their reason asks for."""
        for reference, reason in leaving:
            redelivery = channel.state.redeliveries.get(reference.offset)
            failure = channel.state.durable.failures.get(reference.offset)
            attempts = 0 if redelivery is None else redelivery.attempts
            self.send(channel, Departure(reference, attempts, reason, None if reason == EXPIRED else failure))

    def send(self, channel: OwnedChannel, leaving: Departure, *, is_first_try: bool = True) -> None:
        """Send one message, or, without an address for it, note that it is gone."""
        leaving = as_told(leaving)
        address, fate = route_of(leaving.reason, channel.settings)
        now_ms = self._data.clock.now_ms()
        event = event_of(fate, leaving.reference, leaving.attempts, address, leaving.reason, channel, now_ms)
        offset = leaving.reference.offset
        if address is None:
            if offset in channel.state.in_hand.get(DEPARTING, {}):
                channel.state.apply(Acknowledged(DEPARTING, [offset], transition=DEPARTS_BY[fate]))
            channel.checkpoints.note(event)
            self.log_left(channel, leaving, None)
            return
        done = Completion(lambda error: self._data.mailbox.post(lambda: self._sent(channel, leaving, address, error)))
        try:
            target = self._targets.topic_of(address)
            copy = self._copy(channel, leaving, address, target, hoped_bytes if is_first_try else None)
        except JMSError as error:
            done.complete(error)
            return
        settling = Settling(channel=channel, session=DEPARTING, offsets=(offset,), events=(event,))
        self._submit(f"{channel.topic}[{channel.partition}] offset {offset} to {address}", [copy], settling, done)

    def _copy(
        self,
        channel: OwnedChannel,
        leaving: Departure,
        address: str,
        target: TopicInfo,
        compressed: CompressedBytes | None,
    ) -> Outgoing:
        group = self._data.group
        copy, has_body = copy_of(
            leaving,
            source=group.destination,
            target=target,
            now_ms=self._data.clock.now_ms(),
            compressed=compressed,
            subscription=group.subscription,
            topic_id=channel.changelog.topic_id,
            namespace=self._data.config.namespace,
        )
        if not has_body:
            if not group.is_temporary:
                topic_id = topic_id_of(channel.changelog.topic_id)
                self._targets.keep_original(channel.topic, topic_id, channel.partition, leaving.reference.offset)
            log.warning(
                "%s offset %d: too large for %s, its copy goes without the body; the original stays in the log",
                channel.name,
                leaving.reference.offset,
                address,
                extra=log_fields(channel.topic, channel.partition, leaving.reference.offset, reason=leaving.reason),
            )
        return copy

    def _sent(self, channel: OwnedChannel, leaving: Departure, address: str, error: Exception | None) -> None:
        """The copy is durable, and so is the end of the original; or it could not be written."""
        if error is None:
            self.log_left(channel, leaving, address)
            return
        if channel.is_lost:
            return
        if not isinstance(error, LookedUp):
            why = self._why_stuck(leaving, address, error)
            now_ms = self._data.clock.monotonic_ms()
            self.lines.stuck(channel.topic, channel.partition, leaving, address, error, why, now_ms)
        retry_at_ms = self._data.clock.now_ms() + COPY_RETRY_MS
        self._to_retry.append((retry_at_ms, channel, leaving))

    def _why_stuck(self, leaving: Departure, address: str, error: Exception) -> str:
        if not (isinstance(error, JMSError) and "kind" in error.values):
            return without_unit(error)
        setting = "expiry_address" if leaving.reason == EXPIRED else "dead_letter_address"
        return kind_remedy(address, setting=setting, of=settings_name(self._data.group.destination.name))

    @property
    def is_sending(self) -> bool:
        """A copy is on its way; those that wait for another try are not."""
        waiting = {(channel.name, leaving.reference.offset) for _, channel, leaving in self._to_retry}
        return any(
            (channel.name, offset) not in waiting
            for channel in self._data.channels.values()
            for offset in channel.state.in_hand.get(DEPARTING, {})
        )

    def log_left(self, channel: OwnedChannel, leaving: Departure, address: str | None) -> None:
        """It is gone for good: the log says so, and it is counted."""
        if leaving.reason == EXPIRED:
            self._data.counters.expired += 1
        elif leaving.reason not in (MOVED, OPERATOR):
            self._data.counters.given_up += 1
        self.lines.left(channel.topic, channel.partition, leaving, address, self._data.clock.monotonic_ms())

    def retry(self, now_ms: int) -> None:
        """Try again what could not be copied."""
        if not self._to_retry:
            return
        due = [row for row in self._to_retry if row[0] <= now_ms]
        self._to_retry = [row for row in self._to_retry if row[0] > now_ms]
        for _, channel, leaving in due:
            if not channel.is_lost and not channel.is_closing:
                self.send(channel, leaving, is_first_try=False)


def event_of(
    fate: MessageFate,
    reference: Reference,
    attempts: int,
    address: str | None,
    reason: str,
    channel: OwnedChannel,
    now_ms: int,
) -> MessageEvent:
    """Return what jbm.events tells of one message, of which that was decided now, under the channel's settings."""
    target = None if address is None else str(destination_at(address))
    return MessageEvent(
        fate=fate,
        offset=reference.offset,
        unit=reference.unit,
        attempts=attempts,
        target=target,
        reason=reason,
        at_ms=now_ms,
        max_delivery_attempts=channel.settings.max_delivery_attempts,
        on_dead_letter=channel.settings.on_dead_letter,
    )
