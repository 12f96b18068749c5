"""A connection's way to the sidecar that runs in its process; the same whatever Kafka is behind that."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from jbm_kafka.browsing.browse import browse
from jbm_kafka.browsing.ids_in_log import ids_in_log
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.codec.identity import unit_name
from jbm_kafka.codec.record_size import batch_bytes
from jbm_kafka.core.channel.branch import Branch, BranchState, PreparedBranch, Xid
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.jms_errors import (
    InvalidClientIDError,
    InvalidDestinationError,
    JMSError,
    JMSSecurityError,
    MessageTooLargeError,
    OrderError,
    SendTimeoutError,
)
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.ports import (
    AccessRefused,
    KafkaClientError,
    KafkaRecord,
    LeaderMissing,
    Outgoing,
    QueueTooSmall,
    RecordTooLarge,
    SendReport,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.client_errors import as_jms_error, raised_as_jms_errors
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.fenced_sends import FencedSends, NumberedBatches
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import HeldPartitions, Seen, Temporary, TopicInfo, Traits
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.providers.plain_sends import PlainSends
from jbm_kafka.providers.shared_sidecars import RunningSidecar
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.schedules import Schedules
from jbm_kafka.registry.topics import gone
from jbm_kafka.sidecar.checkpoints.unwritable import what_is_missing
from jbm_kafka.sidecar.lane.group_worker import GroupWorker, transfer_of
from jbm_kafka.sidecar.lane.own_partitions import WorkerPartitions

connections = logging.getLogger("jbm_kafka.connections")

FLUSH_TIMEOUT_S = 60.0
IDS_TIMEOUT_S = 30.0
"""The exception listener waits for that, and hears of nothing else meanwhile. A broker that is just back, and asked by
everybody, takes its time."""
SEND_TIMEOUT_S = 30.0
"""The time for a send that does not know yet where to go; one that has gone is given up after as long."""


class SidecarProvider:
    """Implements `Provider`: one connection's way to the sidecar, and its own producers for plain sends."""

    def __init__(
        self,
        installation: Installation,
        running: RunningSidecar,
        *,
        compresses: bool,
        let_go: Callable[[Patience], None],
    ) -> None:
        """`let_go` is called at the end: the connection does not use the sidecar any more."""
        self._installation = installation
        self._kafka = running.kafka
        self._let_go: Callable[[Patience], None] | None = let_go
        """None: it was closed."""
        self.sidecar = running.sidecar
        self.clock = running.clock
        config = running.installation.config
        self.traits = Traits(
            compresses=compresses,
            records_attempts=config.persist_delivery_count_before_delivery,
            transaction_bytes_max=config.memory_budget_bytes // 4,
            join_timeout_s=config.join_timeout_s,
        )
        self.known_topic = running.sidecar.destinations.topics.usable
        """See Provider; here, and no method, for every send asks it."""
        self._plain = PlainSends(lambda linger_ms: self._kafka.sender(linger_ms=linger_ms))
        self._lock = threading.Lock()
        self._patience: Patience | None = None
        self._client_id: tuple[str, str] | None = None
        """And the connection that has it."""

    @property
    def schedules(self) -> Schedules:
        """The records of schedules, as of `ScheduleRecords`."""
        return self.sidecar.schedules

    def fenced_sends(self, name: str, owner: str) -> FencedSends:
        """Transactions under that name of a bridge, with records of its own; see FencedSends. `owner`: as others see
        this process."""
        return self.sidecar.fenced_records(name, owner)

    def place_all(self, records: Sequence[Outgoing]) -> None:
        """Have records, which were routed when they were made, go where their units are now.

        Raises:
            JMSError: that cannot be read or recorded now.
        """
        with raised_as_jms_errors("look where units are"):
            self.sidecar.destinations.topics.place_all(records)

    def ensure(self, destination: Destination) -> TopicInfo:
        """The destination's topic; see Destinations.ensure."""
        return self.sidecar.destinations.ensure(destination)

    def is_there(self, destination: Destination) -> bool:
        """Somebody has made it, or it is temporary; see ServingProvider."""
        with raised_as_jms_errors(f"look for {destination}"):
            return destination.is_temporary or self.sidecar.destinations.topics.is_there(destination)

    def ensure_to_send(self, destination: Destination) -> TopicInfo:
        """As `ensure`, waiting for Kafka as a send does; see Provider."""
        deadline_s = time.monotonic() + SEND_TIMEOUT_S
        while True:
            try:
                return self.sidecar.destinations.find(destination)
            except Unreachable as error:
                if time.monotonic() < deadline_s and self._patience is None:
                    continue
                raise SendTimeoutError(
                    f"{destination}: nothing was sent: where its messages go was not to be read within "
                    f"{SEND_TIMEOUT_S:g} s ({error}); send again when Kafka answers",
                    destination=destination.name,
                ) from None
            except KafkaClientError as error:
                raise as_jms_error(error, str(destination), destination=destination.name) from None

    @property
    def is_silent(self) -> bool:
        """Kafka did not answer the latest question."""
        return self.sidecar.destinations.watch.is_silent

    def look_again(self, destination: Destination) -> TopicInfo:
        """The destination as Kafka says now: somebody may have changed its topic, or deleted it.

        Raises:
            InvalidDestinationError: it was deleted; `ensure` may make it anew.
            JMSError: Kafka does not answer, or refuses.
        """
        with raised_as_jms_errors(str(destination)):
            return self.sidecar.destinations.topics.refresh(destination)

    def message_ids(self, topic: str, partition: int, offsets: Collection[int]) -> Mapping[int, str]:
        """The ids of messages by their place; see Provider."""
        with raised_as_jms_errors("look for message ids"):
            return ids_in_log(
                self._kafka,
                topic,
                partition,
                offsets,
                timeout_s=IDS_TIMEOUT_S,
                is_closing=lambda: self._patience is not None,
            )

    def check_sendable(self, destination: Destination) -> None:
        """Return when messages may be sent there; see Topics.check_sendable."""
        self.sidecar.destinations.topics.check_sendable(destination)

    def place_unit(self, name: str, unit: bytes) -> int:
        """Where a unit's next message goes, recorded where it must be; see Topics.place."""
        return self.sidecar.destinations.topics.place(name, unit)

    def hold_client_id(self, client_id: str, connection_id: str, lost: Callable[[InvalidClientIDError], None]) -> None:
        """Have the client id for this connection alone; see ClientIds."""
        self.sidecar.claims.client_ids.hold(client_id, connection_id, lost)
        self._client_id = client_id, connection_id

    def release_client_id(self, client_id: str, connection_id: str) -> None:
        """Let go of a client id; see ClientIds."""
        self.sidecar.claims.client_ids.release(client_id, connection_id)
        if self._client_id == (client_id, connection_id):
            self._client_id = None

    def subscribed_topic(self, client_id: str, name: str) -> Topic:
        """The topic of a durable subscription; see Subscriptions.topic_of."""
        return self.sidecar.claims.subscriptions.topic_of(client_id, name)

    def check_owner(self, client_id: str, name: str, user: str) -> None:
        """As of `ServingProvider`."""
        self.sidecar.claims.subscriptions.check_owner(client_id, name, user)

    def own(self, client_id: str, name: str, user: str) -> None:
        """As of `ServingProvider`."""
        self.sidecar.claims.subscriptions.own(client_id, name, user)

    def subscribe(self, subscription: Subscription) -> None:
        """Have the subscription; see Sources.subscribe."""
        self.sidecar.sources.subscribe(subscription)

    def end_use(self, subscription: Subscription) -> None:
        """One consumer less."""
        if self._patience is None:
            self.sidecar.sources.end_use(subscription)
        else:
            self._patience.run(lambda: self.sidecar.sources.end_use(subscription), FLUSH_TIMEOUT_S)

    def unsubscribe(self, client_id: str, name: str, user: str | None = None) -> None:
        """End a durable subscription."""
        self.sidecar.sources.unsubscribe(client_id, name, user)

    def use_selector(self, queue: Queue, selector: str) -> None:
        """One consumer more has it; see SelectorSets."""
        self.sidecar.claims.selector_sets.use(queue, selector)

    def end_use_of_selector(self, queue: Queue, selector: str) -> None:
        """One consumer less has it."""
        self.sidecar.claims.selector_sets.end_use(queue, selector)

    def create_temporary(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        """A new temporary destination of this connection."""
        return self.sidecar.create_temporary(kind, connection_id, number)

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """End one of this connection."""
        self.sidecar.delete_temporary(destination)

    def take_replies(self, queue: TemporaryQueue, take: Callable[[KafkaRecord], None]) -> None:
        """Have each record of the queue taken, by the thread that reads it."""
        self.sidecar.destinations.temporaries.call(queue, take)

    def attach(self, source: Source, link: Link) -> GroupWorker:
        """Begin to serve a receiver."""
        return self.sidecar.sources.attach(source, link)

    def attach_present(self, source: Source, link: Link) -> GroupWorker | None:
        """As of `ForwardingSidecar`."""
        return self.sidecar.sources.attach_present(source, link)

    def publish_address(self, address: str) -> None:
        """See SidecarAddresses."""
        self.sidecar.claims.addresses.publish(address)

    def withdraw_address(self) -> None:
        """See SidecarAddresses."""
        self.sidecar.claims.addresses.withdraw()

    def other_addresses(self) -> frozenset[str]:
        """See SidecarAddresses."""
        return self.sidecar.claims.addresses.others()

    @property
    def decider(self) -> str:
        """As of `ForwardingSidecar`."""
        return self.sidecar.branches.own_decider

    def prepare(self, work: UnitOfWork) -> bytes:
        """As of `ForwardingSidecar`."""
        assert work.branch is not None, work
        return self.sidecar.prepare(work.branch, transfer_of(work))

    def note_prepared(self, branch: str, record: bytes) -> None:
        """As of `ForwardingSidecar`."""
        self.sidecar.branches.note_prepared(branch, record)

    def decide_across(self, branches: Sequence[Branch], wanted: BranchState, sends: Sequence[Outgoing]) -> BranchState:
        """As of `ForwardingSidecar`, after the connection's outstanding plain sends."""
        if sends and not self._plain.flush(FLUSH_TIMEOUT_S):
            raise SendTimeoutError(f"earlier sends are not confirmed after {FLUSH_TIMEOUT_S:g} s")
        return self.sidecar.branches.decide_across(branches, wanted, sends)

    def note_decided(self, branch: str, state: BranchState, done: Completion) -> None:
        """As of `ForwardingSidecar`."""
        self.sidecar.note_decided(branch, state, done)

    def numbered_batches(self, name: str) -> NumberedBatches:
        """Those of this name, as of `ProviderOfBatches`."""
        return self.sidecar.numbered_batches(name)

    def settings_of(self, name: str) -> ResolvedSettings:
        """The address settings in force for a destination."""
        return self.sidecar.destinations.settings_of(name)

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        """The stable end of our partitions of it, as of now; none when the cluster does not say so in time."""
        return self.sidecar.sources.end_positions(source, timeout_s)

    def held_partitions(self, source: Source) -> HeldPartitions:
        """Return those of it that this process receives from now."""
        return self.sidecar.sources.held_partitions(source)

    def on_drain(self, drain: Callable[[], bool]) -> Callable[[], None]:
        """Have `drain` called when an operator asks this process to drain, until what is returned is called."""
        return self.sidecar.drains.add(drain)

    def wait_recorded(self, timeout_s: float) -> bool:
        """True when what was said of messages before is recorded, as far as it has to be."""
        return self.sidecar.sources.wait_idle(timeout_s)

    def submit(self, work: UnitOfWork) -> None:
        """Commit a session's transaction, after the connection's outstanding plain sends."""
        if work.sends and not self._plain.flush(FLUSH_TIMEOUT_S):
            raise SendTimeoutError(f"{work.about}: earlier sends are not confirmed after {FLUSH_TIMEOUT_S:g} s")
        if work.branch is None:
            self.sidecar.submit(transfer_of(work))
        else:
            self.sidecar.prepare(work.branch, transfer_of(work))

    def begin_branch(self, xid: Xid) -> Branch:
        """A branch that is about to be prepared; see Branches.begin."""
        return self.sidecar.branches.begin(xid)

    def forget_branch(self, branch: Branch) -> None:
        """It ended without being prepared."""
        self.sidecar.branches.forget(branch.branch)

    def decide(self, branch: str, wanted: BranchState, *, is_forced: bool = False) -> BranchState:
        """Return what is decided of a prepared branch durably; see Branches.decide."""
        return self.sidecar.branches.decide(branch, wanted, is_forced=is_forced)

    def decision_of(self, xid: Xid) -> BranchState | None:
        """Return what was decided of a name; see Branches.decision_of."""
        return self.sidecar.branches.decision_of(xid)

    def prepared_branches(self) -> Sequence[PreparedBranch]:
        """All branches of the namespace that wait for a decision."""
        return self.sidecar.branches.prepared()

    def browse(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        """Return what a queue holds; see browsing/browse.py. A queue that does not exist is not made for it.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        with raised_as_jms_errors(f"browse {queue}"):
            self.sidecar.destinations.topics.partitions_of(queue)  # raises where it is not there
        return self._seen(queue, include=include, selector=selector)

    def _seen(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        namespace = self._installation.config.namespace
        ours = WorkerPartitions(partial(self.sidecar.sources.group_worker_of, queue))
        found = browse(
            self._kafka,
            ChannelGroup.of_queue(queue, namespace=namespace),
            now_ms=self.clock.now_ms(),
            hands=UnacknowledgedQuery(self._kafka, namespace=namespace, ours=ours),
            include_all=include == "all",
            selector=selector,
        )
        with raised_as_jms_errors(f"browse {queue}"):
            yield from found

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Send outside of transactions; see PlainSends.

        Raises:
            KafkaClientError: nothing was sent; `send_error` says it to the caller.
        """
        self._plain.send(record, report, is_waited_for=is_waited_for)

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        """As `send`, for an event loop; see Provider."""
        return self._plain.try_send(record, report, is_waited_for=is_waited_for)

    def statistics(self) -> Statistics:
        """Return what the sidecar counted and holds."""
        return self.sidecar.observation.statistics()

    def health(self, timeout_s: float | None) -> Health:
        """How the sidecar fares."""
        return self.sidecar.observation.health(timeout_s)

    def prepare_to_send(self) -> None:
        """Send soon; see PlainSends."""
        self._plain.prepare()

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        """Return what the caller of a send should see. A topic that has gone is forgotten: the next send looks for
        it."""
        if isinstance(error, UnknownTopic) and destination.is_temporary:
            self.sidecar.destinations.topics.forget_temporary()
            return InvalidDestinationError(f"{destination}: {error}; nothing was sent", destination=destination.name)
        if isinstance(error, UnknownTopic):
            self.sidecar.destinations.topics.forget(destination.name)
            return gone(destination.name, about=str(destination))
        if isinstance(error, RecordTooLarge):
            return _too_large(error, destination)
        if isinstance(error, AccessRefused):
            return JMSSecurityError(str(error))
        if isinstance(error, LeaderMissing):
            return _unwritable(error, destination)
        if isinstance(error, Unreachable):
            return SendTimeoutError(
                f"{error}; the message may be in the queue or not: send it again, with the same duplicate_id if it "
                f"must not be there twice"
            )
        return JMSError(str(error))

    def flush(self, timeout_s: float) -> bool:
        """True when every plain send was reported."""
        return self._plain.flush(timeout_s)

    def begin_close(self) -> Patience:
        """How long closing waits for Kafka."""
        self._patience = Patience(self.sidecar.is_answered)
        return self._patience

    def give_up_sends(self) -> None:
        """Fail now what is not confirmed, and send no more."""
        self._plain.close(0.0)

    def close(self) -> None:
        """Flush the sends and let the sidecar go; the last connection ends it."""
        with self._lock:
            let_go, self._let_go = self._let_go, None
        if let_go is None:
            return
        patience = self._patience or self.begin_close()
        patience.wait(self._plain.flush, FLUSH_TIMEOUT_S)
        self._plain.close(0.0)
        client_id = self._client_id
        if client_id is not None:
            patience.run(lambda: self.sidecar.claims.client_ids.release(*client_id), FLUSH_TIMEOUT_S)
        let_go(patience)
        if patience.is_over:
            connections.warning(
                "closed without Kafka, which does not answer: what was not confirmed counts as not sent, and what was "
                "not recorded as settled is delivered again"
            )


def _unwritable(error: LeaderMissing, destination: Destination) -> JMSError:
    record = error.record
    text = f"{what_is_missing(record)}, and send again; the message counts as not sent"
    if record.key is None:
        return SendTimeoutError(f"{error}: {text}")
    return OrderError(
        f"{destination}: {text}", destination=destination.name, unit=unit_name(record.key), partition=record.partition
    )


def _too_large(error: RecordTooLarge, destination: Destination) -> MessageTooLargeError:
    if isinstance(error, QueueTooSmall):
        return MessageTooLargeError(
            f"{destination}: a body of {error.size_bytes} bytes is too large: a connection sends at most "
            f"{error.most_bytes}, whatever the topic takes. Send it in parts, or keep it elsewhere and send its place",
            size_bytes=error.size_bytes,
            max_message_bytes=error.most_bytes,
        )
    record = error.record
    if record is None:
        return MessageTooLargeError(f"{destination}: {error}; send less, or raise max.message.bytes of the topic")
    size, most = batch_bytes(record.key, record.value, record.headers), record.batch_bytes_max
    takes = f"its topic takes {most} (max.message.bytes), after compression"
    if size <= most:
        takes = (
            f"its topic took {most} (max.message.bytes) when it was looked at: it takes less now, or not a batch that "
            f"this one came in (kafka={{'batch.size': …}})"
        )
    return MessageTooLargeError(
        f"{destination}: a message of {size} bytes with its properties is too large; {takes}. Send less, or raise "
        f"max.message.bytes",
        size_bytes=size,
        max_message_bytes=most,
    )
