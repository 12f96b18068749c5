"""The source side of a bridge that a server of AMQP has, whatever of sessions, drains and transactions it serves."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial

from jbm_kafka.amqp_client import client_settings
from jbm_kafka.amqp_client.amqp_records import AmqpRecord, record_of
from jbm_kafka.amqp_client.transfer_connection import TransferConnection
from jbm_kafka.amqp_client.transfer_receiver import Arrived
from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.sides import WAIT_S, BridgePace
from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.codec.record_values import record_value
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import InvalidSelectorError, MessageFormatError
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.subscription import Source, Subscription, SubscriptionKind
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.ports.clock import SystemClock

log = logging.getLogger(__name__)


class AmqpSource:
    """Implements `PumpSource`. It has a connection of its own: what goes back goes with that, in order and uncounted.

    A server confirms no acknowledgement, and forgets some when it is killed: what it gives again then was at the target
    already, and its id tells.
    """

    def __init__(
        self, spec: BridgeSpec, counts: LaneCounts, *, is_one_by_one: bool = False, accepts_first: bool = False
    ) -> None:
        """Returns when it receives.

        Args:
            spec: the bridge.
            counts: of its lane.
            is_one_by_one: gives the next message of a unit when the one before is acknowledged.
            accepts_first: acknowledges each before it is given.

        Raises:
            JMSError: nobody answers, or it may not receive there.
        """
        self.counts = counts
        self._spec = spec
        self._destination = spec.source.destination
        self._selector = parse_selector(spec.selector)
        self._is_one_by_one, self._accepts_first = is_one_by_one, accepts_first
        clock = SystemClock()
        self._now_ms = clock.now_ms
        self._pace = BridgePace(counts.starts, clock.monotonic_ms)
        self._numbers = itertools.count(1)
        self._ready: deque[AmqpRecord] = deque()
        self._in_hand: dict[int, Arrived] = {}
        """The messages of which nothing was said, by number."""
        self._behind: dict[bytes, deque[AmqpRecord]] = {}
        """The messages that wait, by unit of which one is given and not acknowledged."""
        self._connection = TransferConnection(client_settings.checked(spec.source.factory._installation))
        try:
            self._receiving = self._connection.receive_from(
                self._source(), spec.source.address, spec.selector or "", spec.in_flight
            )
        except BaseException:
            self._connection.close()
            raise

    @staticmethod
    def check_answers(spec: BridgeSpec) -> None:
        """Return when the server lets the bridge in; JMSError: it does not."""
        TransferConnection(client_settings.checked(spec.source.factory._installation)).close()

    def _source(self) -> Source:
        destination = self._destination
        if not isinstance(destination, Topic):
            return destination
        name = self._spec.source.subscription or self._spec.name
        return Subscription(destination, SubscriptionKind.SHARED_DURABLE, name)

    def receive(self, *, waits: bool) -> Message | None:
        """The next message, or None, also while the rate allows none. `waits`: for a moment.

        Raises:
            JMSError: the connection broke; all that it had comes again by another.
        """
        if not self._pace.is_free(waits=waits):
            return None
        while not self._ready:
            taken = self._receiving.take(self._spec.in_flight, WAIT_S if waits else 0.0)
            if not taken:
                if waits:
                    self.counts.last = None
                return None
            for each in taken:
                self._arrive(each)
        record = self._ready.popleft()
        self._pace.begun()
        if self._accepts_first:
            self._accept([self._number(record)])
        message = from_record(record, self._destination, 1, False, None)  # type: ignore[arg-type]
        self.counts.took(message, self._now_ms())
        return message

    def _arrive(self, arrived: Arrived) -> None:
        try:
            message = decode_transfer(arrived.data, now_ms=self._now_ms())
        except MessageFormatError as error:
            self._reject(arrived, str(error))
            return
        record = record_of(message, self._destination.name, next(self._numbers))
        if self._selector is not None and not self._selector.matches(partial(record_value, record)):
            # It would come again and again: there is no word for "not to me" that every server understands.
            raise InvalidSelectorError(
                f"bridge {self._spec.name}: {self._spec.source.place} sent a message that the selector does not "
                f"choose: this server does not serve selectors; leave it out, or let the server sort them into a queue",
                setting="selector",
            )
        self._in_hand[self._number(record)] = arrived
        behind = self._behind.get(message.unit) if message.unit is not None else None
        if behind is not None:
            behind.append(record)
            return
        if message.unit is not None and self._is_one_by_one:
            self._behind[message.unit] = deque()
        self._ready.append(record)

    def refuse(self, message: Message, reason: str) -> None:
        """Give it up, if it was not accepted first: it goes to the server's dead letters. The log has the reason, which
        few servers keep."""
        self._reject(self._in_hand.pop(self._number_of(message)), f"message {message.message_id}: {reason}")
        self._go_on(message)

    def _reject(self, arrived: Arrived, reason: str) -> None:
        log.warning("bridge %s: %s rejects %s", self._spec.name, self._spec.source.place, reason)
        self._receiving.reject(arrived, reason)
        self.counts.refused += 1

    def put_back(self, messages: Sequence[Message]) -> None:
        """They come again when it is closed, which whoever puts back does next."""

    def acknowledge(self, message: Message) -> None:
        """It has arrived; what waits behind it may go."""
        if not self._accepts_first:
            self._accept([self._number_of(message)])
        self._go_on(message)

    def settle(self, messages: Sequence[Message]) -> bool:
        """They have arrived. False: after a failure they may come again."""
        self._accept([self._number_of(message) for message in messages])
        return False

    def close(self) -> None:
        """Receive no more; what is in hand comes again."""
        self._connection.close()

    def _accept(self, numbers: Sequence[int]) -> None:
        self._receiving.accept([self._in_hand.pop(number) for number in numbers])

    def _go_on(self, message: Message) -> None:
        assert message._record is not None, message
        unit = message._record.key()
        behind = self._behind.get(unit) if unit is not None else None
        if behind:
            self._ready.append(behind.popleft())
        elif unit is not None:
            self._behind.pop(unit, None)

    def _number_of(self, message: Message) -> int:
        assert message._record is not None, message
        return self._number(message._record)

    @staticmethod
    def _number(record: object) -> int:
        assert isinstance(record, AmqpRecord), record
        number = record.offset()
        assert number is not None, record
        return number
