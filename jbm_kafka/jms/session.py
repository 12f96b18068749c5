"""Sessions: one thread of work over consumers and producers, with one way to acknowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import get_ident
from types import TracebackType
from typing import Self

from jbm_kafka.codec.typed_values import Value
from jbm_kafka.core.channel.branch import Xid
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.durations import Duration
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.selectors.selector import Selector, parse_selector
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.subscription import Source, checked_subscription_name
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import as_destination, as_queue, as_topic, checked_flag, checked_prefetch
from jbm_kafka.jms.base.call_pauses import on_this_thread
from jbm_kafka.jms.base.closing import close_beside
from jbm_kafka.jms.base.modes import AcknowledgeMode, not_of_mode
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.base.transaction_block import Transaction, TransactionBlock
from jbm_kafka.jms.browser import Include, QueueBrowser
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.stream_message import StreamMessage
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.receiving.listening import STOP_TIMEOUT_S, Listening
from jbm_kafka.jms.requesting import SendOptionsOfRequest, reply_to
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.session_consumers import SessionConsumers
from jbm_kafka.jms.session_ends import close_sessions
from jbm_kafka.jms.settling.acknowledge import AcknowledgeStrategy
from jbm_kafka.jms.settling.lazy_acknowledge import MESSAGES, MILLISECONDS, Triggers
from jbm_kafka.jms.settling.strategies import strategy_for, with_triggers
from jbm_kafka.jms.shared.connection_core import ConnectionCore
from jbm_kafka.jms.shared.session_core import CALL_TIMEOUT_S, SessionCore
from jbm_kafka.jms.shared.subscribing import durable, lasting, private, shared

SENDS_MAX = 1_000_000
"""Messages in a group of sends: each is kept until it is confirmed."""
SENDS_TIMEOUT_S = 60.0


class Session:
    """One thread of work: what it receives and sends, and how that is acknowledged.

    Made by `connection.create_session`. Not for two threads at once, but any thread may close it. As a context manager
    it closes itself.

    Where to: create_queue, create_topic, create_temporary_queue, create_temporary_topic.
    Send and ask: create_producer, request.
    Receive: create_consumer; of a topic's subscriptions create_durable_consumer, create_shared_consumer,
        create_shared_durable_consumer, and unsubscribe.
    Look: create_browser.
    Messages: create_text_message, create_bytes_message, create_map_message, create_stream_message,
        create_object_message, create_message.
    Acknowledge: acknowledge and recover in CLIENT and INDIVIDUAL; commit, rollback and transaction in TRANSACTED.
    Settings: set_default_prefetch, set_dups_ok, set_group_ack_threshold.
    What it is: acknowledge_mode, transacted, is_closed.
    End: close.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_block", "_closer", "_connection", "_consumers", "_core", "_is_over", "_listening", "_strategy")

    def __init__(self, connection: ConnectionCore, mode: AcknowledgeMode) -> None:
        self._core = SessionCore(connection, mode)
        self._strategy: AcknowledgeStrategy = strategy_for(self._core)
        self._listening = Listening(self._core, self._strategy)
        self._connection = connection
        self._consumers = SessionConsumers(self._core)
        self._block = TransactionBlock(is_closed=lambda: self._core.is_closed_here)
        """`with session.transaction()`."""
        self._closer = 0
        """The thread that carries the closing out."""
        self._is_over = False
        """Closed, and nothing is left to be done."""

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """Return what ends a message."""
        return self._core.mode

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed, maybe by its connection."""
        return self._core.is_closed

    # -- what it makes -------------------------------------------------------------------------------------------

    def create_queue(self, name: str) -> Queue:
        """Return the queue of this name; created at first use when the factory says so."""
        self._core.check_open()
        return Queue(name)

    def create_topic(self, name: str) -> Topic:
        """Return the topic of this name; created at first use when the factory says so."""
        self._core.check_open()
        return Topic(name)

    def create_temporary_queue(self) -> TemporaryQueue:
        """Make a queue of this connection, until its `delete()` or the connection's end: any may send there, only this
        connection receives.

        Raises:
            JMSError: the cluster does not allow it, or does not answer.
        """
        self._core.check_open()
        return self._connection.temporaries.create(TemporaryQueue)

    def create_temporary_topic(self) -> TemporaryTopic:
        """Make a topic that ends with this connection, which alone receives from it: see `create_temporary_queue`."""
        self._core.check_open()
        return self._connection.temporaries.create(TemporaryTopic)

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Make a producer; without a destination every send names one."""
        with self._core.in_use(beside_listener=True):
            if destination is not None:
                self._connection.provider.ensure(as_destination(destination))
            return MessageProducer(self._core, destination)

    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> MessageConsumer:
        """Make a consumer of a queue, or of a topic from now on until it is closed.

        On a started connection it returns when partitions are assigned and recovered.

        Args:
            destination: a Queue or a Topic, not its name.
            selector: which messages it gets, as "region = 'EU'"; None: each. What it does not choose stays in the
                queue, and holds its unit there until somebody else took it; a topic's consumer never has it.
            no_local: of a topic, True: not what its own connection sends.
            prefetch: messages that it may hold unacknowledged, 1 to 1,000,000; None: the session's default.

        Raises:
            InvalidSelectorError: the selector is wrong; `position` is the column.
            InvalidDestinationError: the destination does not exist or cannot be one; the session can be used as before.
            InvalidSettingError: the prefetch or no_local cannot be so; of a wrong type InvalidTypeError.
            IllegalStateError: the session is closed or used by another thread, or no_local is given for a queue.
        """
        chosen = parse_selector(selector)

        def source() -> Source:
            is_local_left_out = checked_flag("no_local", no_local)
            if isinstance(destination, Topic):
                return private(self._connection, destination, no_local=is_local_left_out, selector=chosen)
            queue = as_queue(destination, "destination")
            if is_local_left_out:
                raise IllegalStateError(f"no_local applies to topics, and {queue} is a queue; leave it out")
            return queue

        return self._consumer(source, prefetch, chosen)

    def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> MessageConsumer:
        """Make the one consumer of a durable subscription of this connection's client id, which is made if it is not
        there.

        It gets whatever is sent after this returned for the first time, until `unsubscribe`; with a selector, what that
        chooses. Another topic, selector or no_local than it had: the old subscription is dropped with all it holds, and
        another made.

        Args:
            topic: a Topic, not its name.
            name: of the subscription.
            selector, no_local, prefetch: as of `create_consumer`.

        Raises:
            IllegalStateError: there is no client id, or the subscription has a consumer, or it is a shared one.
            InvalidDestinationError: the topic cannot be used or keeps no messages; all else as of `create_consumer`.
        """
        chosen = parse_selector(selector)

        def source() -> Source:
            is_local_left_out = checked_flag("no_local", no_local)
            return durable(
                self._connection, lasting(as_topic(topic)), name, no_local=is_local_left_out, selector=chosen
            )

        return self._consumer(source, prefetch, chosen)

    def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None, prefetch: int | None = None
    ) -> MessageConsumer:
        """Make one of several consumers that share each message of a topic among them, while there is one.

        Args:
            topic: a Topic, not its name.
            name: of the subscription; all with one name share it.
            selector, prefetch: as of `create_consumer`; all of a subscription have one selector.

        Raises:
            IllegalStateError: a subscription of this name is in use for another topic or with another selector.
        """
        chosen = parse_selector(selector)

        def source() -> Source:
            return shared(self._connection, as_topic(topic), name, is_durable=False, selector=chosen)

        return self._consumer(source, prefetch, chosen)

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, prefetch: int | None = None
    ) -> MessageConsumer:
        """Make one of several consumers of a durable subscription, which keeps what comes while it has no consumer.

        Arguments as of `create_shared_consumer`.

        Raises:
            IllegalStateError: a subscription of this name is in use for another topic or with another selector, or it
                is not a shared one.
            InvalidDestinationError: the topic cannot be used, or does not keep its messages.
        """
        chosen = parse_selector(selector)

        def source() -> Source:
            return shared(self._connection, lasting(as_topic(topic)), name, is_durable=True, selector=chosen)

        return self._consumer(source, prefetch, chosen)

    def unsubscribe(self, name: str) -> None:
        """End a durable subscription of this connection's client id, or a shared one made without one.

        Raises:
            InvalidDestinationError: no durable subscription has this name.
            IllegalStateError: it has a consumer, or messages of it are unacknowledged.
        """
        with self._core.in_use(beside_listener=True):
            self._connection.provider.unsubscribe(self._connection.client_id or "", checked_subscription_name(name))

    def _consumer(
        self, source_of: Callable[[], Source], prefetch: int | None, selector: Selector | None
    ) -> MessageConsumer:
        return self._consumers.make(source_of, prefetch, selector, self._strategy, self._listening)

    def create_browser(
        self, queue: Queue, selector: str | None = None, include: Include = "deliverable"
    ) -> QueueBrowser:
        """Make a browser of a queue, which consumes nothing. Each iteration of the browser looks anew.

        Args:
            queue: a Queue, not its name.
            selector: which messages it shows, as "region = 'EU'"; None: each.
            include: "deliverable": what could be received now, of each unit the first at most; "all": everything that
                the queue holds, also what is blocked, delayed or in hand, and `message.state` says which is in hand.

        Raises:
            InvalidSelectorError: the selector is wrong; `position` is the column.
            InvalidSettingError: `include` is another word; of a wrong type InvalidTypeError.
            InvalidDestinationError: it is no queue. Whether the queue is there shows when the browser is iterated.
            IllegalStateError: the session is closed.
        """
        self._core.check_open()
        return QueueBrowser(self._core, as_queue(queue, "queue"), selector=selector, include=include)

    def create_message(self) -> Message:
        """Make a message without a body."""
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Make a text message."""
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"") -> BytesMessage:
        """Make a bytes message."""
        return BytesMessage(data)

    def create_map_message(self, body: Mapping[str, Value] | None = None) -> MapMessage:
        """Make a map message."""
        return MapMessage(body)

    def create_object_message(self, body: object = None, codec: str = "json") -> ObjectMessage:
        """Make an object message."""
        return ObjectMessage(body, codec)

    def create_stream_message(self, body: Sequence[Value] = ()) -> StreamMessage:
        """Make a stream message."""
        return StreamMessage(body)

    def request(
        self,
        destination: Destination,
        message: Message | str | bytes | Mapping[str, object] | Unset = UNSET,
        *,
        json: object = UNSET,
        timeout: float | None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        priority: int | None = None,
        time_to_live_ms: Duration | None = None,
        properties: Mapping[str, object] | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
    ) -> Message:
        """Send a request and return the reply to it: what comes to its `reply_to` with its correlation id or its
        message id as correlation id. A reply needs no acknowledgement; one that comes too late is dropped.

        Args:
            destination: a Queue or Topic, where somebody answers.
            message: a Message, or a str, bytes or dict. Its `correlation_id` is kept; else it gets one.
            json: in place of a message, as of `MessageProducer.send`.
            timeout: seconds from the call until the reply, 0 or more; None: it waits for ever.
            unit_of_order, priority, time_to_live_ms, properties, type: of the request, as of `MessageProducer.send`.

        Raises:
            RequestTimeoutError: none came within `timeout` seconds; the text says what is known of the request.
            IllegalStateError: the session is TRANSACTED or its connection not started; or it was closed meanwhile.
            InvalidSettingError: `timeout` is negative; of a wrong type InvalidTypeError.
            JMSError: the request was not sent; which errors that can be stands at `MessageProducer.send`.
        """
        options = SendOptionsOfRequest(json, unit_of_order, priority, time_to_live_ms, properties, type)
        return on_this_thread(reply_to(self._core, destination, message, timeout, options), self._core.filled)

    # -- acknowledging ---------------------------------------------------------------------------------------------

    @property
    def transacted(self) -> bool:
        """Return True if `commit` and `rollback` are for this session."""
        return self._core.is_transacted

    def acknowledge(self) -> None:
        """Acknowledge everything this session has delivered; for CLIENT and INDIVIDUAL; elsewhere nothing. It
        raises what `Message.acknowledge` does."""
        self._core.check_open()
        self._strategy.acknowledge_all()

    def recover(self) -> None:
        """Give back what is unacknowledged; it comes again, redelivered set. In AUTO, PRE and NO nothing is.

        Raises:
            IllegalStateError: the session is transacted.
        """
        with self._core.in_use():
            self._strategy.recover()

    def commit(self) -> None:
        """Make the transaction's sends and receives durable together; a new one begins.

        Raises:
            TransactionRolledBackError: it could not be committed; everything received comes again. With a unit whose
                partition cannot be written OrderRolledBackError. TransactionInDoubtError: not known yet whether it was.
            IllegalStateError: the session is not transacted, is closed, or is in use by another thread.
            TransactionInProgressError: it is inside `with session.transaction()`, whose end commits.
        """
        with self._core.in_use():
            self._block.check_commit()
            self._connection.completions.wait_before("commit()")
            self._strategy.commit()

    def rollback(self) -> None:
        """Drop the transaction's sends, give its messages back; a new one begins.

        Raises:
            IllegalStateError: the session is not transacted, is closed, or is in use by another thread.
        """
        with self._core.in_use():
            self._connection.completions.wait_before("rollback()")
            self._strategy.rollback()

    def _roll_back(self, *, delay_ms: int | None, rejected: str | None) -> None:
        """As `rollback`, with the messages' own delay, or giving them up: for handlers, with one in a transaction."""
        with self._core.in_use():
            self._strategy.roll_back(delay_ms, rejected)

    def transaction(self) -> AbstractContextManager[Self]:
        """Commit at the end of a `with` block, or roll back on an exception, which comes out whatever that does.

        A session has one transaction: what it received and sent before the block, since its last commit or rollback, is
        part of it, and is committed or rolled back with it. What this returns may be entered again, after its end.

        Raises:
            IllegalStateError: on entering: the session is closed, or not transacted.
            TransactionInProgressError: on entering: it is inside another such block.
        """
        return Transaction(self._transaction)

    @contextmanager
    def _transaction(self) -> Iterator[Self]:
        self._core.check_open()
        if not self.transacted:
            raise not_of_mode("transaction", self.acknowledge_mode, AcknowledgeMode.TRANSACTED)
        with self._block.around(self):
            yield self

    def tpc_begin(self, xid: Xid, timeout: float | None = None) -> None:
        """Only of sessions that an XAConnection makes.

        Raises:
            IllegalStateError: this is another.
        """
        raise IllegalStateError(
            f"tpc_begin({xid}): a {self.acknowledge_mode.name} session has no branches; make one with "
            f"XAConnectionFactory(…).create_xa_connection().create_xa_session()"
        )

    def set_default_prefetch(self, count: int) -> None:
        """Set how many messages each consumer made from now on may hold unacknowledged."""
        self._core.check_open()
        self._consumers.default_prefetch = checked_prefetch(count, "count")

    def set_dups_ok(self, messages: int = MESSAGES, milliseconds: int = MILLISECONDS) -> None:
        """Set when a DUPS_OK session acknowledges: after so many messages or milliseconds, whichever comes first.

        Args:
            messages: at most the prefetch; 0: however many there are. By default it is 50, or a smaller prefetch.
            milliseconds: since the first of them; 0: however long it takes. 1 with 0 is AUTO, 0 with 0 is CLIENT.

        Raises:
            IllegalStateError: the session is not DUPS_OK; or it has a consumer, and this would make it CLIENT.
            InvalidSettingError: messages or milliseconds are not numbers that can be; a ValueError too.
        """
        triggers = Triggers(messages, milliseconds, is_given=True)
        with self._core.in_use():
            if self._consumers.is_first:
                triggers.check(self._consumers.default_prefetch)
            strategy = with_triggers(self._core, self._strategy, triggers, is_new=self._consumers.is_first)
            if strategy is not self._strategy:
                self._strategy, self._listening = strategy, Listening(self._core, strategy)

    def set_group_ack_threshold(self, count: int) -> None:
        """Set how many PERSISTENT_GROUPACK sends of a producer are confirmed together: the last of so many waits.

        By default it is 100.
        """
        self._core.send_groups.threshold = checked_int("count", count, 1, SENDS_MAX, "messages")

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back what is unacknowledged, drop uncommitted sends, end. Any thread; again: nothing happens.

        A signal handler may call it: what it interrupted ends, and then the session closes, beside.
        """
        core = self._core
        self._connection.check_process()
        if core.guard.is_interrupted():
            core.is_closed = True
            close_beside(self.close, core.filled)
            return
        self._connection.completions.refuse_inside("session.close()")
        close_sessions(self._connection, [self])

    def __repr__(self) -> str:
        return f"<Session {self.acknowledge_mode.name} {'closed' if self.is_closed else 'open'}>"

    def __enter__(self) -> Self:
        self._core.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection.is_forked:
            return
        if error is not None:
            self._strategy.abandon()
        self.close()

    # -- called when it is closed --------------------------------------------------------------------------------------

    def _begin_close(self) -> bool:
        """Return True to the one thread that is to close the session; others, and later calls, get False.

        Receives that wait are woken, and end.
        """
        core = self._core
        with core.lock:
            if self._is_over or self._closer:
                return False
            self._closer = get_ident()
            core.is_closed = True
            core.filled.notify_all()
        return True

    def _finish_close(self) -> None:
        core = self._core
        core.links.have_ended = True
        if core.is_listener_thread():
            self._strategy.close()
        else:
            with core.finished_call():
                self._strategy.close()
        core.send_groups.end(
            lambda group: self._connection.close_deadline.wait_closing(group.wait, SENDS_TIMEOUT_S),
            self._connection.notify_exception,
        )
        core.outbox.take_all()
        core.links.detach_all()
        self._is_over = True

    def _let_go(self) -> None:
        with self._core.lock:
            self._closer = 0
            self._core.filled.notify_all()

    def _wait_closed(self) -> None:
        if not self._core.is_listener_thread():  # the thread that closes it waits for that
            self._core.filled.wait_for(lambda: not self._closer, STOP_TIMEOUT_S + CALL_TIMEOUT_S)

    # -- called by its connection --------------------------------------------------------------------------------------

    def _connection_started(self) -> None:
        self._consumers.connect()

    def _wait_ready(self) -> None:
        """Return when all that could connect have their first assignment, and let the listeners begin."""
        try:
            self._consumers.wait_ready()
        finally:
            self._core.wake()

    def _connection_stopped(self) -> None:
        """The connection was stopped: a running listener finishes, unread messages go back."""
        self._listening.wait_idle()
        self._consumers.pause()
