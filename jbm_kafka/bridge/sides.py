"""The two sides of a running bridge: what it receives from, and what makes records for the other side.

Both speak the API of sessions and its providers, whatever is behind them: Kafka, `memory://`, or a server of AMQP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.client.bodies.large_bodies import fetched
from jbm_kafka.client.partition_choice import partition_of
from jbm_kafka.codec.bridged_headers import HOPS_MAX, PassedHeaders
from jbm_kafka.codec.large_body import is_kept_elsewhere, without_reference
from jbm_kafka.codec.property_header import Property, property_header
from jbm_kafka.codec.record_size import batch_bytes, batch_bytes_at_most, compressed_bytes_max
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.jms_errors import ConnectionFailedError, JMSError, LargeBodyError
from jbm_kafka.core.rate import Starts
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.acknowledge import ExplicitAcknowledge, fail, put_back
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.provider import Provider, TopicInfo
from jbm_kafka.ports.record_to_send import Outgoing

WAIT_S = 0.25
"""So long a lane waits for a message before it looks whether it is to end."""


BATCH_BYTES_MAX = 8 * 2**20
"""The bytes of a transaction at a target that has not failed one; it has one message at least."""


class Unsendable(Exception):
    """A message cannot go to the target, whenever it is tried: it goes to the source's dead-letter address."""


class HeldBack:
    """The messages of a step that cannot go now, and what it has behind them in their units: the others go (BRIDGE-5).

    They are to be put back before the others are settled.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """In the order received."""
        self.trouble: JMSError | None = None
        """Why the first of them cannot."""
        self._units: set[bytes] = set()

    def hold(self, message: Message, trouble: JMSError) -> None:
        """It cannot go now, nor can what comes of its unit."""
        self.trouble = self.trouble or trouble
        self.messages.append(message)
        if unit := _unit_of(message):
            self._units.add(unit)

    def takes(self, message: Message) -> bool:
        """True when one before it in its unit is held, and so it is."""
        is_held = _unit_of(message) in self._units
        if is_held:
            self.messages.append(message)
        return is_held


def _unit_of(message: Message) -> bytes | None:
    assert message._record is not None, message
    return message._record.key()


class BridgePace:
    """How fast a lane takes messages."""

    def __init__(self, starts: Starts | None, now_ms: Callable[[], int]) -> None:
        """`starts`: of the lane, whatever becomes of its pumps; None: as fast as it can. `now_ms`: monotonic."""
        self._starts = starts
        self._now_ms = now_ms

    def is_free(self, *, waits: bool) -> bool:
        """True when it may take one more; `waits`: for a moment, where it may not."""
        if self._starts is None:
            return True
        free_in_ms = self._starts.free_in_ms(self._now_ms()) or 0
        if free_in_ms and waits:
            time.sleep(min(free_in_ms / 1_000, WAIT_S))
        return not free_in_ms

    def begun(self) -> None:
        """It has taken one."""
        if self._starts is not None:
            self._starts.start(self._now_ms())


class BridgeSource:
    """The source of one lane of a bridge: a session and its consumer."""

    def __init__(
        self, connection: Connection, spec: BridgeSpec, mode: AcknowledgeMode, prefetch: int, counts: LaneCounts
    ) -> None:
        """Returns when it receives.

        Raises:
            JMSError: as of `create_consumer`.
        """
        self.counts = counts
        self._connection, self._place = connection, spec.source.place
        clock = provider_of(connection).clock
        self._now_ms = clock.now_ms
        self._pace = BridgePace(counts.starts, clock.monotonic_ms)
        self.session = connection.create_session(mode)
        if isinstance(self.session._strategy, ExplicitAcknowledge):
            self.session._strategy.counts_failures = False
        try:
            self.consumer = _consumer(self.session, spec, prefetch)
            self.consumer._inbox.leave_bodies_unread()
        except BaseException:
            self.session.close()
            raise

    def receive(self, *, waits: bool) -> Message | None:
        """The next message, or None, also while the rate allows none. `waits`: for a moment.

        Raises:
            JMSError: as of `MessageConsumer.receive`.
        """
        is_free = self._pace.is_free(waits=waits)
        message = self.consumer.receive(WAIT_S if waits else 0.0) if is_free else None
        if message is not None:
            self._pace.begun()
            self.counts.took(message, self._now_ms())
        elif waits:
            check_answers(self._connection, self._place)
            if is_free:
                self.counts.last = None
        return message

    def refuse(self, message: Message, reason: str) -> None:
        """Give it up: it goes to the source's dead-letter address, and what is behind it in its unit comes again."""
        fail(message, rejected=reason)
        self.counts.refused += 1

    def put_back(self, messages: Sequence[Message]) -> None:
        """Have them come again, uncounted: none was at fault."""
        for message in reversed(messages):  # one takes what is behind it in its unit along
            put_back(message)

    def acknowledge(self, message: Message) -> None:
        """It has arrived."""
        message.acknowledge()

    def settle(self, messages: Sequence[Message]) -> bool:
        """They have arrived, all that were received and not refused. True: the source gives none of them again."""
        self.session.commit()
        return True

    def close(self) -> None:
        """Receive no more; what is in hand comes again."""
        self.session.close()


def check_answers(connection: Connection, place: str) -> None:
    """Return unless the cluster is silent: a session waits for it as for the next message.

    Raises:
        ConnectionFailedError: it did not answer the latest question.
    """
    if provider_of(connection).is_silent:  # type: ignore[attr-defined]  # a cluster's provider has it
        raise ConnectionFailedError(f"{place}: Kafka does not answer")


class BridgeTarget:
    """Makes the records of a bridge's messages for its target."""

    def __init__(self, connection: Connection, source: Connection | None, spec: BridgeSpec) -> None:
        """`source`: the connection to where the messages come from; None: an AMQP server."""
        self.connection = connection
        self.provider = provider_of(connection)
        self._source_provider = None if source is None else provider_of(source)
        self._source_name = spec.source.destination.name
        self._spec = spec
        self._destination = spec.target.destination
        self._stays = spec.shares_installation
        self._hop = spec.source.place
        self._target_place = spec.target.place
        self._duplicate_property = spec.target.duplicate_property
        if spec.target.address != self._destination.name:
            self.provider.use_address(self._destination, spec.target.address)  # type: ignore[attr-defined]
        self._bodies_here = spec.source.factory._defaults.large_bodies
        self._bodies_there = spec.target.factory._defaults.large_bodies
        stores = [None if each is None else each.given for each in (self._bodies_here, self._bodies_there)]
        self._bodies_stay = stores[0] == stores[1]
        """Receivers at the target find large bodies where they are, or there are none."""
        self._info: TopicInfo | None = None
        self.batch_bytes = BATCH_BYTES_MAX
        """The bytes of the next transaction."""

    def batch_failed(self, size_bytes: int) -> None:
        """Have less in the next: by a slow line, or within a quota, so much may never be there in time."""
        self.batch_bytes = max(1, min(self.batch_bytes, size_bytes // 2))

    def batch_arrived(self) -> None:
        """Have more in the next."""
        self.batch_bytes = min(BATCH_BYTES_MAX, 2 * self.batch_bytes)

    def check(self) -> None:
        """Return when messages may be sent there.

        Raises:
            JMSError: they may not now, or nobody answers.
        """
        self._check_known()
        if self._spec.target.is_kafka:
            # It may take less by now, or be gone: what a transaction is refused for changes nothing that is known here.
            self._info = self.provider.look_again(self._destination)  # type: ignore[attr-defined]

    def _check_known(self) -> None:
        """By what is known of the topic, which may cost nothing."""
        self._info = self.provider.ensure_to_send(self._destination)
        self.provider.check_sendable(self._destination)

    def record(self, message: Message) -> tuple[Outgoing, int]:
        """The record of a received message, and its bytes at most: as it was sent first, in all that a send would set
        anew.

        Raises:
            Unsendable: it can never be sent there; the text says why.
            JMSError: it cannot be now.
        """
        record = message._record
        assert record is not None, message
        info = self._found()
        passed = PassedHeaders(record, has_place=self._source_provider is not None)
        self._check_hops(passed.hops, info)
        reply_to = passed.reply_to
        if reply_to is not None:
            reply_to = self._ruled(reply_to, passed.answers_to)
        headers = passed.bridged(self._hop, reply_to)
        if self._duplicate_property is not None and passed.message_id:
            headers.append(property_header(self._duplicate_property, Property("string", self._duplicate_id(passed))))
        value = record.value()
        if not self._bodies_stay:
            value, headers = self._with_body(record, headers)
        key = record.key() or None
        made = Outgoing(
            info.topic,
            self._partition(info, record, key),
            key,
            value,
            tuple(headers),
            None,
            info.max_message_bytes,
        )
        size_bytes = _size_if_it_fits(made, info, compresses=self.provider.traits.compresses)
        if size_bytes is not None:
            return made, size_bytes
        self.check()
        if self._info is not info:
            return self.record(message)
        raise Unsendable(
            f"bridge {self._spec.name}: {batch_bytes(made.key, made.value, made.headers)} bytes with its properties; "
            f"{self._target_place} takes {info.max_message_bytes} (max.message.bytes)"
        )

    def _duplicate_id(self, passed: PassedHeaders) -> str:
        """Its id; or its place, with the id of the topic, for one that was made anew has the same places."""
        if passed.has_id:
            return passed.message_id
        assert self._source_provider is not None, self._spec
        return f"{passed.message_id}:{topic_id_of(self._source_provider, self._spec.source.destination)}"

    def _found(self) -> TopicInfo:
        info = self._info
        if info is None or info is not self.provider.known_topic(self._destination.name):
            self._check_known()
            info = self._info
        assert info is not None, self._destination
        return info

    def _check_hops(self, hops: Sequence[str], info: TopicInfo) -> None:
        """Raises Unsendable when the message was at the target already, or goes round elsewhere (BRIDGE-7); JMSError
        when it is no message's fault, for source and target are two names of one queue."""
        if self._hop in hops and self._source_provider is not None:  # a copied cluster has the ids of the other
            here = self._source_provider.known_topic(self._source_name)
            if here is not None and here.topic_id == info.topic_id and self._target_place not in hops:
                raise JMSError(
                    f"bridge {self._spec.name}: {self._hop} and {self._target_place} are one and the same, for what "
                    f"was sent to the one came from the other: correct the address of one of them"
                )
        if self._target_place in hops or len(hops) >= HOPS_MAX:
            passed = " > ".join((*hops, self._hop))
            raise Unsendable(
                f"bridge {self._spec.name}: a loop: it has passed {passed}, and would come to {self._target_place}"
            )

    def _with_body(self, record: KafkaRecord, headers: list[Header]) -> tuple[bytes | None, list[Header]]:
        """The body as receivers at the target can have it: in the record, or in the store that they know.

        Raises:
            Unsendable: it is gone.
            LargeBodyError: it cannot be had now, or kept.
        """
        value = record.value()
        if value is None and is_kept_elsewhere(headers):
            try:
                value, headers = fetched(self._bodies_here, headers), without_reference(headers)
            except LargeBodyError as error:
                if error.is_gone:
                    raise Unsendable(f"bridge {self._spec.name}: {error}") from None
                raise
        bodies = self._bodies_there
        if bodies is not None and value is not None and len(value) > bodies.limit_bytes:
            return None, [*headers, *bodies.keep(value, self.provider.clock.now_ms())]
        return value, headers

    def _ruled(self, said: bytes, answers_to: Destination | None) -> bytes | None:
        """Where answers go by the rule; what no rule names and cannot be read here stays as it is, or goes."""
        rule = self._spec.replies
        if answers_to is None:
            address = said.decode(errors="replace")
            if address not in rule.addresses:
                return said if rule.keeps else None
            ruled = rule.addresses[address]
        else:
            ruled = rule.applied(answers_to, is_temporary_there=self._stays)
        return None if ruled is None else said if ruled == answers_to else str(ruled).encode()

    def _partition(self, info: TopicInfo, record: KafkaRecord, key: bytes | None) -> int:
        """Units by their names; what has none stays in order with what was in the same partition."""
        found = partition_of(info, key, None, b"%d" % (record.partition() or 0))
        if found is None:
            assert key is not None, info
            return self.provider.place_unit(info.topic, key)
        return found


def topic_id_of(provider: Provider, destination: Destination) -> str:
    """The id of its Kafka topic.

    It is asked for when nothing is known that one may send by: nobody may now, or too little was heard of late.

    Raises:
        JMSError: it is not to be had now.
    """
    return (provider.known_topic(destination.name) or provider.ensure(destination)).topic_id


def _size_if_it_fits(record: Outgoing, info: TopicInfo, *, compresses: bool) -> int | None:
    """Its bytes at most; None: they are more than its topic takes."""
    most = info.max_message_bytes
    at_most = batch_bytes_at_most(record.key, record.value, record.headers)
    if at_most <= most or batch_bytes(record.key, record.value, record.headers) <= most:
        return at_most
    may_shrink = info.keeps_compression and compresses
    if may_shrink and compressed_bytes_max(record.key, record.value, record.headers) <= most:
        return at_most
    return None


def _consumer(session: Session, spec: BridgeSpec, prefetch: int) -> MessageConsumer:
    destination = spec.source.destination
    if isinstance(destination, Topic):
        name = spec.source.subscription or spec.name
        return session.create_shared_durable_consumer(destination, name, spec.selector, prefetch)
    return session.create_consumer(destination, spec.selector, prefetch=prefetch)
