"""Consumers: receive, listen, iterate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.errors import IllegalStateError, MessageFormatError
from jbm_kafka.core.settlement import GivenBack
from jbm_kafka.engine.credit import Credit
from jbm_kafka.jms.arguments import Seconds, check_callable, checked_timeout_s
from jbm_kafka.jms.closing import close_beside
from jbm_kafka.jms.listening import set_listener
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.messages_wire import message_of
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.siblings import release_closed
from jbm_kafka.jms.typed_body import check_kind, present_body
from jbm_kafka.jms.waiting import Waiting, has_next
from jbm_kafka.ports.grants import Granted
from jbm_kafka.ports.link import Link

if TYPE_CHECKING:
    from jbm_kafka.jms.session import Session

T = TypeVar("T")
_TIMEOUT_MAX_S: Final = TIMEOUT_MAX
MessageListener = Callable[[Message], object]


class MessageConsumer:
    """Made by `session.create_consumer`; receives from one queue."""

    def __init__(self, session: Session, destination: Queue, prefetch: int) -> None:
        self.session = session
        self.destination = destination
        self.prefetch = prefetch
        self.selector: str | None = None
        self.listener: MessageListener | None = None
        self._is_careful = session.connection.provider.traits.records_attempts
        self.is_closed = self._has_closed = False
        self.link: Link = Link(
            link_id=f"{session.session_id}/{len(session.consumers) + 1}-{id(self):x}",
            session_id=session.session_id,
            prefetch=prefetch,
            filled=session.filled,
            lock=session.lock,
            one_per_unit=session.acknowledge_mode is AcknowledgeMode.INDIVIDUAL,
        )
        self.link.on_trouble = session.connection.tell
        self.credit = Credit(prefetch)
        # Bound once: a look-up of each for every message costs a twentieth of a receive.
        self._guard = session.guard
        self._lock, self._unlock = session.lock.acquire, session.lock.release
        self._settling = session.settling
        self._filled = session.filled
        self._waiting = Waiting(self)

    # -- receiving -------------------------------------------------------------------------------------------------

    def receive(self, timeout: Seconds | None = None) -> Message | None:
        """The next message; None when `timeout` seconds passed, or the consumer was closed meanwhile.

        None waits for ever. Any other timeout finds what was in the queue when it was called, if need be one second
        late, and ten when the process must join the queue's group first; 0 waits for nothing else. While a CLIENT or
        INDIVIDUAL session holds the consumer's whole prefetch unacknowledged nothing comes, until some thread
        acknowledges or gives back.

        Raises:
            IllegalStateError: the consumer or its session is closed, or in use by another thread.
            ResourceAllocationError: a TRANSACTED session holds the whole prefetch, so nothing could come before the
                commit or rollback that only this thread can make. Not when `timeout` is 0.
        """
        if isinstance(timeout, float) and 0.0 <= timeout <= _TIMEOUT_MAX_S:
            timeout_s: float | None = timeout  # as most: the call is spared
        else:
            timeout_s = None if timeout is None else checked_timeout_s(timeout)
        granted, before = None, self.link.taken
        if self._guard.is_in_call:  # before the lock, which a forked process may never get
            raise self.session.busy()
        try:
            self._lock()
            try:
                if not self._guard.enter():
                    raise self.session.busy()
                self._check_may_receive()
                is_settled = self._settling.settle_at_once()
                if is_settled:
                    granted = self._take()
            finally:
                self._unlock()
            if not is_settled:
                self._settling.before_receive()
                granted = self.poll()
            elif granted is not None and granted.reference.expiration_ms:
                granted = self.unexpired(granted)
            if granted is None:
                granted = self._waiting.wait(timeout_s)
            message = None if granted is None else self.present(granted)
            self._guard.leave()
            return message
        except BaseException as error:
            self._break_off(before, error)
            raise

    def receive_nowait(self) -> Message | None:
        """The next message that is in the queue now, or None; as `receive(0)`."""
        return self.receive(0)

    def receive_body(self, kind: type[T], timeout: Seconds | None = None) -> T | None:
        """The body of the next message as `kind` (str or bytes); `timeout` and None as of `receive`.

        Raises:
            MessageFormatError: it has another body. In AUTO the next call gets the same message, which counts as never
                received; in the other modes it was received and is the session's to acknowledge or give back.
        """
        timeout_s = None if timeout is None else checked_timeout_s(timeout)
        check_kind(kind)
        if self._guard.is_in_call or not self._guard.try_enter():
            raise self.session.busy()
        before = self.link.taken
        try:
            self._check_may_receive()
            self._settling.before_receive()
            granted = self.next_granted(timeout_s)
            body = None if granted is None else present_body(self, granted, kind)
            self._guard.leave()
            return body
        except MessageFormatError:
            self._guard.leave()
            raise
        except BaseException as error:
            self._break_off(before, error)
            raise

    def __iter__(self) -> Iterator[Message]:
        """Receives until closed; acknowledges nothing beyond what the session's mode does by itself."""
        while not self.is_over():
            try:
                message = self.receive()
            except IllegalStateError:
                if self.is_over():
                    return  # closed since it was looked at
                raise
            if message is None:
                return
            yield message

    def _break_off(self, before: Granted | None, error: BaseException) -> None:
        """A receive ends by an error, maybe Ctrl-C at any point of it: what it took nobody has seen, so it goes back.

        Uncounted, unless it may be the message itself that cannot be presented.
        """
        if self._guard.has_lock:
            self._unlock()
        taken = self.link.taken
        if taken is not None and taken is not before:
            self.link.taken = None
            self._settling.not_handed_over(taken)
            if isinstance(error, Exception):
                self.link.give_back([(taken, GivenBack(taken.offset, counted=True))])
            else:
                self.link.put_back(taken)
        if self._guard.is_own:
            self._guard.leave()

    def next_granted(self, timeout_s: float | None) -> Granted | None:
        """What `receive` gets, before the application has it; the caller is in a call of the session."""
        granted = self.poll()
        return self._waiting.wait(timeout_s) if granted is None else granted

    def poll(self) -> Granted | None:
        """Take the next message out of the buffer, and ask for more before it runs out."""
        with self.link.lock:
            granted = self._take()
        return self.unexpired(granted)

    def poll_for_listener(self) -> Granted | None:
        """Take the next message for the listener; asks for one when the buffer is empty."""
        granted = self.poll()
        if granted is None:
            self.stay_attached()
            with self.link.lock:
                if not any(other.is_asking or has_next(other) for other in self.link.siblings):
                    self._waiting.want_some()
        return granted

    def present(self, granted: Granted) -> Message:
        """Hand a message to the application."""
        reference, delivery = granted.reference, granted.delivery
        # Arguments by position: by keyword the call costs a tenth of a microsecond more, for every message.
        return message_of(
            reference.record,  # type: ignore[arg-type]
            reference.body_kind,
            self.destination,
            delivery.delivery_count,
            delivery.redelivered,
            self._settling.handed_over(self, granted),
        )

    def _check_may_receive(self) -> None:
        """Raises IllegalStateError when it is closed: a loop that receives must end, not go round."""
        if self._guard.listening is not None:
            self._guard.listening.check_may_receive(self)
        if self.session.is_closed:
            self.session.check_open()
        if self.is_closed:
            raise IllegalStateError(f"the consumer of {self.destination} is closed; make a new one")

    def _take(self) -> Granted | None:
        """What `poll` does, expired or not. The caller holds the lock."""
        link = self.link
        granted = link.pop()
        # A quarter lasts longer than an answer takes, and the larger the portions, the fewer hand-overs.
        if link.runs_low(self.credit.size >> 2):
            self._ask(ahead=granted is not None)
        return granted

    def _ask(self, *, ahead: bool) -> None:
        """Tell the lane how many more are wanted. The caller holds the lock."""
        if ahead and self._is_careful and self.credit.size == 1:
            return  # a crash counts an attempt of everything assigned: nothing beside a message that may be poison
        now_ms = time.monotonic_ns() // 1_000_000
        if not self.session.connection.is_started or self.is_closed:
            return
        if self.link.siblings:
            return  # nothing ahead: what one has unread another may be about to ask for
        # Ahead: one was just taken out of the buffer, and is about to be in hand.
        room = self.prefetch - len(self.link.buffer) - self.session.settling.in_hand(self.link) - ahead
        self.link.want(min(self.credit.next_size(now_ms), room))

    def unexpired(self, granted: Granted | None) -> Granted | None:
        """The message, or the first after it that is not expired: those go back, to the expiry address (SEND-5)."""
        if granted is None or not granted.reference.expiration_ms:
            return granted
        return self._waiting.pass_over_expired(granted)

    def is_over(self) -> bool:
        """It can receive no more."""
        return self.is_closed or self.session.is_closed

    # -- listening ---------------------------------------------------------------------------------------------------

    def set_listener(self, listener: MessageListener | None) -> None:
        """Call `listener(message)` for each message on the session's own thread; None ends that.

        A call that runs is waited for when a listener is taken away, unless that is done by the listener itself.
        """
        check_callable("listener", listener)
        set_listener(self, listener)

    # -- life --------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Join the queue's group for this consumer, on a started connection."""
        provider = self.session.connection.provider
        if not self.session.connection.is_started:
            provider.ensure(self.destination)
            return
        with self._filled:
            self.link.is_stopped = False
            self._filled.notify_all()  # a receive that waits asks again: its lane may have forgotten it, or be gone
        if not self.link.is_attached and not self.is_closed:
            self.link.lane = provider.attach(self.destination, self.link)
            self.link.is_attached = True

    def connect_late(self) -> None:
        """A receive where the start of the connection could not connect it: whoever receives hears why."""
        if not self.link.is_attached and self.session.connection.is_started and not self.is_over():
            self.connect()

    def stay_attached(self) -> None:
        """Join again when the lane has left, as it does when nobody receives for a while.

        Raises:
            JMSError: why the lane ended; told once, the next call joins again.
        """
        link = self.link
        if link.failure is not None:
            failure, link.failure = link.failure, None
            raise failure
        if link.is_attached and not link.is_stopped and not link.lane.is_running and not self.is_over():
            link.lane = self.session.connection.provider.attach(self.destination, link)

    def pause(self) -> None:
        """The connection was stopped: what is unread goes back."""
        if self.link.is_attached:
            self.link.give_back_unread(stop=True)

    def wait_ready(self) -> None:
        """Return when the first assignment is there and recovered."""
        self._waiting.until_ready()

    def close(self) -> None:
        """Give unread messages back; what the application has stays with the session in CLIENT and TRANSACTED."""
        if self._guard.is_interrupted():  # by a signal handler, which calls this
            self.is_closed = self.link.is_closed = True
            close_beside(self.close, self._filled)
            return
        with self._filled:
            if self._has_closed:
                return
            self.is_closed = self.link.is_closed = self._has_closed = True
            self._filled.notify_all()
        session = self.session
        if not session.is_listener_thread():
            session.wait_listener_idle()
            with session.finished_call():
                session.settling.consumer_closes(self)
        if self.link.is_attached:
            self.link.give_back_unread()
        release_closed(session)

    def disconnect(self) -> None:
        """The session ends: leave the lane."""
        self.is_closed = self._has_closed = True
        self.link.become_siblings([])
        if self.link.is_attached:
            self.link.is_attached = False
            self.link.is_closed = True
            self.link.lane.detach(self.link.link_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.session.settling.abandon()
        self.close()
