"""Consumers: receive, listen, iterate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import Final, Never, Self, SupportsFloat, TypeVar

from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.receiving.hand import Buffer
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source, Subscription, SubscriptionKind
from jbm_kafka.core.wrong_values import checked_int
from jbm_kafka.jms.base.arguments import CONCURRENCY_MAX, check_kind, check_listener, checked_timeout_s
from jbm_kafka.jms.base.call_pauses import Pauses, on_this_thread
from jbm_kafka.jms.base.closing import close_beside
from jbm_kafka.jms.base.handler_threads import HandlerThreads
from jbm_kafka.jms.base.modes import AcknowledgeMode, not_of_mode
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handling import HandlerFailures, Handling
from jbm_kafka.jms.receiving.inbox import ConsumerInbox, MessageListener
from jbm_kafka.jms.receiving.listening import Listening
from jbm_kafka.jms.receiving.waiting import Waiting
from jbm_kafka.jms.settling.acknowledge import AcknowledgeStrategy
from jbm_kafka.jms.settling.one_by_one import OneByOne
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link

T = TypeVar("T")
R = TypeVar("R")
_TIMEOUT_MAX_S: Final = TIMEOUT_MAX


class MessageConsumer:
    """Receives from one queue, or one subscription of a topic. Made by `session.create_consumer` and its kin.

    As a context manager it closes itself.

    Receive: receive, receive_nowait, receive_body; or iterate it.
    Be called instead: set_listener, listener.
    What it is: destination, selector, prefetch, is_closed.
    End: close.
    """

    def __init__(
        self,
        session: SessionCore,
        strategy: AcknowledgeStrategy,
        listening: Listening,
        source: Source,
        prefetch: int,
        selector: Selector | None,
    ) -> None:
        self._inbox: ConsumerInbox = ConsumerInbox(session, strategy, source, prefetch, selector)
        self._waiting: Waiting = Waiting(self._inbox)
        self._has_closed = False
        self._listening = listening
        # Bound once: a look-up of each for every message costs a twentieth of a receive.
        self._session = session
        self._strategy = strategy
        self._link: Link = self._inbox.link
        self._buffer: Buffer[Delivery] = self._link.buffer
        self._guard = session.guard
        self._lock, self._unlock = session.lock.acquire, session.lock.release

    @property
    def destination(self) -> Queue | Topic:
        """Return the queue, or the topic that is subscribed to."""
        return self._inbox.destination

    @property
    def selector(self) -> str | None:
        """Return the selector as it was given; None: it receives every message."""
        chosen = self._link.terms.selector
        return None if chosen is None else chosen.text

    @property
    def prefetch(self) -> int:
        """Return how many messages it may have unread and unacknowledged."""
        return self._inbox.prefetch

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed, or its session was."""
        return self._link.is_closed

    @property
    def listener(self) -> MessageListener | None:
        """Return the function that is called for each message; `set_listener` sets it."""
        return self._inbox.listener

    # -- receiving -------------------------------------------------------------------------------------------------

    # Told `float`, compiled code would refuse all else by itself, and less kindly.
    def receive(self, timeout: SupportsFloat | None = None) -> Message | None:
        """Return the next message; None when `timeout` seconds passed, or the consumer was closed meanwhile.

        None waits for ever. Any other timeout finds what was in the queue when it was called, if need be one second
        late, and ten when the process must join the queue's group first; 0 waits for nothing else. While a CLIENT or
        INDIVIDUAL session holds the consumer's whole prefetch unacknowledged nothing comes, until some thread
        acknowledges or gives back.

        Raises:
            IllegalStateError: the consumer or its session is closed, in use by another thread or of another process; or
                the consumer has a listener.
            InvalidSettingError: `timeout` is negative.
            ResourceAllocationError: a TRANSACTED session holds the whole prefetch, so nothing could come before the
                commit or rollback that only this thread can make. Not when `timeout` is 0.
            InvalidTypeError: `timeout` is not a number.
        """
        if isinstance(timeout, float) and 0.0 <= timeout <= _TIMEOUT_MAX_S:
            timeout_s: float | None = timeout  # as most: the call is spared
        else:
            timeout_s = None if timeout is None else checked_timeout_s(timeout)
        delivery, before = None, self._buffer.taken
        if self._guard.is_in_call:  # before the lock, which a forked process may never get
            raise self._session.busy()
        try:
            self._lock()
            try:
                if not self._guard.enter():
                    raise self._session.busy()
                if self._guard.listening is not None or self._session.is_closed or self._link.is_closed:
                    self._check_may_receive()
                is_settled = self._strategy.settle_at_once()
                if is_settled:
                    delivery = self._inbox.take()
            finally:
                self._unlock()
            if not is_settled:
                self._strategy.before_receive()
                delivery = self._inbox.poll()
            elif delivery is not None and delivery.reference.expiration_ms:
                delivery = self._inbox.unexpired(delivery)
            if delivery is None:
                delivery = on_this_thread(self._waiting.wait(timeout_s), self._session.filled)
            message = None if delivery is None else self._inbox.present(delivery)
            self._guard.leave()
            return message
        except BaseException as error:
            self._break_off(before, error)
            raise

    def receive_nowait(self) -> Message | None:
        """Return the next message that is in the queue now, or None; as `receive(0)`, and it raises the same."""
        return self.receive(0)

    def receive_body(self, kind: type[T], timeout: SupportsFloat | None = None) -> T | None:
        """Return the body of the next message as `kind` (str, bytes, dict, list, an object's own class); `timeout` and
        None as of `receive`.

        Raises:
            MessageFormatError: it has another body. In AUTO the next call gets the same message, which counts as never
                received; in the other modes it was received and is the session's to acknowledge or give back.
            InvalidTypeError: `kind` is not a class, or `timeout` not a number.
            IllegalStateError, InvalidSettingError, ResourceAllocationError: as of `receive`.
        """
        timeout_s = None if timeout is None else checked_timeout_s(timeout)
        check_kind(kind)
        return on_this_thread(
            self._receiving(timeout_s, lambda delivery: self._inbox.present_body(delivery, kind)), self._session.filled
        )

    def __iter__(self) -> Iterator[Message]:
        """Receives until closed; acknowledges nothing beyond what the session's mode does by itself."""
        while not self._inbox.is_over:
            try:
                message = self.receive()
            except IllegalStateError:
                if self._inbox.is_over:
                    break  # closed since it was looked at
                raise
            if message is None:
                break
            yield message
        self._session.connection.check_process()

    def _receiving(self, timeout_s: float | None, present: Callable[[Delivery], R]) -> Pauses[R | None]:
        """Yield what `receive` does, with its pauses; `present` makes of a message what the application gets."""
        if self._guard.is_in_call or not self._guard.try_enter():
            raise self._session.busy()
        before = self._buffer.taken
        try:
            self._check_may_receive()
            if not self._strategy.settle_at_once():
                yield self._strategy.before_receive
            delivery = self._inbox.poll()
            if delivery is None:
                delivery = yield from self._waiting.wait(timeout_s)
            if delivery is not None and self._inbox.has_large_body(delivery):
                yield partial(self._inbox.fetch_ahead, delivery)
            presented = None if delivery is None else present(delivery)
            self._guard.leave()
            return presented
        except BaseException as error:
            self._break_off(before, error)
            raise

    def _next_delivery(self, timeout_s: float | None) -> Delivery | None:
        """Return what `receive` gets, before the application has it; the caller is in a call of the session."""
        delivery = self._inbox.poll()
        if delivery is not None:
            return delivery
        return on_this_thread(self._waiting.wait(timeout_s), self._session.filled)

    def _check_may_receive(self) -> None:
        """Raises IllegalStateError when it is closed (a loop that receives must end, not go round), or a listener
        receives, or would lose the message it works on (CONN-1)."""
        listening = self._guard.listening
        if listening is not None:
            if self._inbox.listener is not None:
                if self._session.is_closed:
                    self._session.check_open()
                raise IllegalStateError(
                    f"the consumer of {self.destination} has a listener, which gets its messages; set_listener(None) "
                    f"ends that"
                )
            if listening.is_needed and not listening.is_current:
                raise self._session.busy()
        self._check_not_closed()

    def _check_not_closed(self) -> None:
        if self._session.is_closed:
            self._session.check_open()
        if self._link.is_closed:
            raise IllegalStateError(f"the consumer of {self.destination} is closed; make a new one")

    def _break_off(self, before: Delivery | None, error: BaseException) -> None:
        """A receive ends by an error: what it took nobody has seen, so it goes back."""
        if self._guard.has_lock:
            self._unlock()
        taken = self._buffer.taken
        if taken is not None and taken is not before:
            self._inbox.put_back_unseen(taken, error)
        if self._guard.is_own:
            self._guard.leave()

    # -- listening ---------------------------------------------------------------------------------------------------

    def set_listener(self, listener: MessageListener | None) -> None:
        """Call `listener(message)` for each message on the session's own thread; None ends that.

        What it raises makes a failed attempt of the call. So does sys.exit(), which does not end the process: set an
        event that the main thread waits for. An async function is refused, for nobody would run it.
        A call that runs is waited for when a listener is taken away, unless that is done by the listener itself.

        Raises:
            InvalidTypeError: it cannot be called with one message, or a call would run nothing.
            IllegalStateError: the consumer or its session is closed, or in use by another thread.
        """
        check_listener("listener", listener, "message")
        if listener is not None:
            self._check_not_closed()
        self._listening.set_listener(self._inbox, listener)

    def run(self, handler: Callable[[Message], object], *, concurrency: int = 1) -> None:
        """Call `handler(message)` for each message, so many at once, until the consumer is closed; of a unit one at a
        time (UNIT-18). It returns: acknowledged, and what it returns goes to the message's `reply_to`; it raises: the
        message comes again, or as `Retry` and `Reject` say. Blocks; Ctrl-C ends it.

        Raises:
            IllegalStateError: the session is not INDIVIDUAL; or as `receive`.
            InvalidTypeError: it cannot be called with one message, or a call would run nothing.
            InvalidSettingError: `concurrency` is no number from 1 to 10,000.
        """
        check_listener("handler", handler, "message")
        failures, connection = self._begin_run(concurrency), self._session.connection
        counted, tracing = connection.counts.handlers, connection.defaults.tracing
        handling, settlement = Handling(handler, (), failures, counted, tracing), OneByOne(connection)
        threads = HandlerThreads(self, lambda message: handling.run(message, settlement), concurrency - 1, "run")
        try:
            threads.run()
        finally:
            failures.end()

    def _begin_run(self, concurrency: object) -> HandlerFailures:
        """Return what notes the failures of handlers, if the consumer may run some."""
        checked_int("concurrency", concurrency, 1, CONCURRENCY_MAX, "messages at once")
        mode, connection = self._session.mode, self._session.connection
        if mode is not AcknowledgeMode.INDIVIDUAL:
            raise not_of_mode("run", mode, AcknowledgeMode.INDIVIDUAL, of="INDIVIDUAL")
        self._check_not_closed()
        return HandlerFailures(connection.provider.settings_of, connection.notify_exception)

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give unread messages back; what the application has stays with the session in CLIENT and TRANSACTED."""
        self._session.connection.check_process()  # before the lock, which a forked process may never get
        if self._guard.is_interrupted():  # by a signal handler, which calls this
            self._link.begin_close()
            close_beside(self.close, self._session.filled)
            return
        with self._session.lock:
            if self._has_closed:
                return
            self._has_closed = True
            self._link.begin_close()
            self._session.filled.notify_all()
        if not self._session.is_listener_thread():
            self._listening.wait_idle()
            with self._session.finished_call():
                self._strategy.consumer_closes(self._link)
        if self._link.is_attached:
            self._link.give_back_unread()
        self._session.links.close(self._link)
        self._strategy.let_go_closed()

    def __reduce__(self) -> Never:
        refuse_pickle(self)

    def __repr__(self) -> str:
        state, source = "closed" if self.is_closed else "open", self._inbox.source
        named = ""
        if isinstance(source, Subscription) and source.kind is not SubscriptionKind.PRIVATE:
            named = f" {source.kind.value} {source.name!r}"
        chosen = "" if self.selector is None else f" selector={self.selector!r}"
        return f"<MessageConsumer {self.destination}{named}{chosen} {self._session.mode.name} {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session.connection.is_forked:
            return
        if error is not None:
            self._strategy.abandon()
        self.close()
