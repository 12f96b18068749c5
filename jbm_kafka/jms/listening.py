"""The thread of a session with listeners: takes messages for them, one at a time."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from jbm_kafka.core.errors import IllegalStateError, JMSError, ResourceAllocationError
from jbm_kafka.core.settlement import GivenBack
from jbm_kafka.jms.siblings import release_closed
from jbm_kafka.ports.grants import Granted

if TYPE_CHECKING:
    from jbm_kafka.jms.consumer import MessageConsumer, MessageListener
    from jbm_kafka.jms.messages import Message
    from jbm_kafka.jms.session import Session

log = logging.getLogger(__name__)

IDLE_S = 0.1
STOP_TIMEOUT_S = 30.0


def set_listener(consumer: MessageConsumer, listener: MessageListener | None) -> None:
    """What `MessageConsumer.set_listener` does."""
    session = consumer.session
    if session.is_listener_thread():
        consumer.listener = listener
        return
    with session.in_use(beside_listener=True):
        thread = session.guard.listening
        if thread is None or not thread.is_needed:  # else what is in hand is a listener's: its return settles that
            session.settling.before_receive()
        consumer.listener = listener
        if listener is not None:
            consumer.link.is_waiting = True
            session.start_listening()
    if listener is None:
        session.wait_listener_idle()
        consumer.link.is_waiting = False  # not before: the thread says that it is whenever it looks for a message


class ListenerThread:
    """Runs the listeners of one session while its connection is started."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"jbm-session-{session.session_id}", daemon=True)
        self._idle = threading.Event()
        """Set while no listener runs, and no message is on its way to one."""
        self._idle.set()
        self._taking_for: MessageConsumer | None = None
        self._served: MessageConsumer | None = None
        """Whose listener was called last: it is looked at last, so that listeners of one session take turns."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Something changed: a listener, the connection."""
        with self._session.filled:
            self._session.filled.notify_all()

    def is_current(self) -> bool:
        """The caller is this thread."""
        return threading.current_thread() is self._thread

    @property
    def is_needed(self) -> bool:
        """A listener is set, or one runs still whose consumer was closed by itself."""
        consumers = list(self._session.consumers)
        return not self._idle.is_set() or any(c.listener is not None and not c.is_closed for c in consumers)

    def is_taking_for(self, consumer: MessageConsumer) -> bool:
        """A message of it may be neither in the buffer nor in hand, but on its way to the listener."""
        return self._taking_for is consumer

    def check_may_receive(self, consumer: MessageConsumer) -> None:
        """Raises IllegalStateError where a listener receives, or would lose the message it works on (CONN-1)."""
        if consumer.listener is not None:
            raise IllegalStateError("the consumer has a listener; it receives for it")
        if self.is_needed and not self.is_current():
            raise self._session.busy()

    def wait_idle(self) -> None:
        """Return when no listener runs; a running one finishes first."""
        if not self.is_current():
            with self._session.lock:
                pass  # from here on a listener that the caller has closed or stopped does not begin; see `_next`
            self._idle.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """No further message; waits for a running listener unless called from it."""
        self._is_stopping = True
        self.wake()
        if not self.is_current():
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        session = self._session
        while not self._is_stopping and not session.is_closed:
            try:
                taken = self._next()
                if taken is not None:
                    self._deliver(*taken)
            except ResourceAllocationError:
                self._rest()  # its application holds the whole prefetch: nothing to do before it settles some
            except Exception as error:
                if not isinstance(error, JMSError):  # a bug: without its thread the session would stand still unnoticed
                    log.exception("session %s: the thread of its listeners failed, and goes on", session.session_id)
                session.connection.tell(error)
                self._rest()

    def _rest(self) -> None:
        with self._session.filled:
            self._session.filled.wait(IDLE_S)

    def _next(self) -> tuple[MessageConsumer, Granted] | None:
        """The next message of any consumer with a listener, or None after a while without."""
        session = self._session
        for consumer in self._in_turn():
            with session.lock:  # whoever closes or stops is seen here, or waits until the message was worked on
                if not self._may_listen(consumer):
                    continue
                self._idle.clear()
                self._taking_for = consumer
            granted = None
            try:
                consumer.link.is_waiting = True
                granted = consumer.poll_for_listener()
            finally:
                if granted is None:
                    self._ends()
            if granted is not None:
                self._served = consumer
                return consumer, granted
        with session.filled:
            if not self._is_stopping and not any(c.link.buffer for c in session.consumers if c.listener is not None):
                session.filled.wait(IDLE_S)
        return None

    def _in_turn(self) -> list[MessageConsumer]:
        consumers = list(self._session.consumers)
        if len(consumers) > 1 and self._served in consumers:
            begin = consumers.index(self._served) + 1
            return consumers[begin:] + consumers[:begin]
        return consumers

    def _may_listen(self, consumer: MessageConsumer) -> bool:
        is_open = not consumer.is_closed and not self._session.is_closed
        return is_open and consumer.listener is not None and self._session.connection.is_started

    def _deliver(self, consumer: MessageConsumer, granted: Granted) -> None:
        """Call the listener; `_idle` is clear, and set when it returned."""
        session = self._session
        message: Message | None = None
        try:
            session.guard.wait_enter(None)
            try:
                listener = consumer.listener
                if listener is None or not self._may_listen(consumer):
                    # It was closed, stopped or left without its listener since the message was taken: as if it never
                    # had been. It goes back before what is behind it in the buffer, or with that.
                    consumer.link.put_back(granted)
                    return
                session.settling.before_receive()
                message = consumer.present(granted)
            finally:
                session.guard.leave()
            try:
                listener(message)
            except BaseException as error:  # sys.exit() in a handler as well: the message was not processed
                log.warning(
                    "a listener of %s raised for message %s; it comes again as its session's mode says",
                    consumer.destination,
                    message.message_id,
                    exc_info=error,
                )
                session.settling.listener_raised(message)
            else:
                session.settling.listener_returned()
        except JMSError as error:
            session.connection.tell(error)
        except Exception:  # of ours: it was not processed, what has been settled stays so
            if message is None:
                consumer.link.give_back([(granted, GivenBack(granted.offset, counted=False))])
            else:
                session.settling.listener_raised(message)
            raise
        finally:
            self._ends()

    def _ends(self) -> None:
        """Nothing is on its way to the listener any more, and it does not run."""
        consumer, self._taking_for = self._taking_for, None
        if consumer is not None and consumer.is_closed:
            release_closed(self._session)
        self._idle.set()
