"""The thread of a session with listeners: takes messages for them, one at a time."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import nullcontext

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.jms_errors import JMSError, LargeBodyError, ResourceAllocationError
from jbm_kafka.jms.base.call_guard import ListeningState
from jbm_kafka.jms.base.error_lines import tell_error
from jbm_kafka.jms.base.never_run import refuse_unrun
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.inbox import ConsumerInbox, MessageListener
from jbm_kafka.jms.receiving.listener_failures import after_close, what_follows
from jbm_kafka.jms.receiving.listener_lines import ListenerLines
from jbm_kafka.jms.settling.acknowledge import AcknowledgeStrategy
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.deliveries import Delivery, PartitionLease

log = logging.getLogger(__name__)

REST_S = 0.1
"""After an error, and while the application holds the whole prefetch."""
LINES_S = 1.0
"""How often it looks whether a line about listeners that raise is due, while there is one."""
LOOK_AGAIN_S = 30.0
"""How long it sleeps at most: a thread that a signal interrupted may not have woken it."""
STOP_TIMEOUT_S = 30.0
UNSTARTED_S = 3.0
"""So long after the first listener is set its connection is started, where nobody forgot it."""
LOG_AFTER_S = 3.0
"""How long closing waits for a listener before the log says so."""


class Listening:
    """Runs the listeners of one session while its connection is started. Its thread begins with the first of them."""

    def __init__(self, session: SessionCore, strategy: AcknowledgeStrategy) -> None:
        self._session = session
        self._strategy = strategy
        self._inboxes: list[ConsumerInbox] = []
        """The inboxes with a listener, in the order in which they got their first."""
        self._is_stopping = False
        self._state = ListeningState()
        self._served: ConsumerInbox | None = None
        """Whose listener was called last: it is looked at last, so that listeners of one session take turns."""
        self._message: Message | None = None
        """The message that a listener is in; not kept behind its return, for it may be large."""
        self._lease: PartitionLease | None = None
        """The lease of the message that a listener got last."""
        self._lines = ListenerLines()
        self._begun_s = time.monotonic()
        self._looks_for_start = True
        """The connection was not seen started yet, and the log has no warning of that."""

    # -- called by the session and its consumers ---------------------------------------------------------------------

    def set_listener(self, inbox: ConsumerInbox, listener: MessageListener | None) -> None:
        """From now on it is called for the consumer's messages; None: nobody is, and no call of it runs any more."""
        session = self._session
        if session.is_listener_thread():
            self._note(inbox, listener)
            if listener is None:
                inbox.link.end_listening()
            return
        with session.in_use(beside_listener=True):
            if not self._has_begun or not self._state.is_needed:  # else the listener's return settles what it has
                self._strategy.before_receive()
            self._note(inbox, listener)
            if listener is not None:
                inbox.link.wait_on()
                self._begin()
        if listener is None:
            self.wait_idle()
            inbox.link.end_listening()  # not before: the thread says that it waits whenever it looks for a message

    def wait_idle(self) -> None:
        """Return when no listener runs; a running one finishes first, unless it takes STOP_TIMEOUT_S."""
        if self._has_begun and not self._state.is_current:
            # It looks under the lock: from here on a listener that the caller has closed or stopped does not begin; see
            # `next_message`.
            self._session.filled.wait_for(lambda: self._state.is_idle, STOP_TIMEOUT_S)

    def begin_stop(self) -> None:
        """No further message; a running listener goes on."""
        self._is_stopping = True
        self._session.wake()

    def wait_or_log(self, begun_s: float) -> None:
        """Return when no listener runs; or after LOG_AFTER_S since `begun_s`, monotonic, when the log has said so."""
        if not self._wait_stopped(begun_s + min(LOG_AFTER_S, STOP_TIMEOUT_S)):
            log.info("closing waits for the listener of %s, up to %.0f s", self._place(), STOP_TIMEOUT_S)

    def wait_stopped(self, begun_s: float) -> None:
        """Return when no listener runs; or after STOP_TIMEOUT_S since `begun_s`, when the log has said so."""
        if self._wait_stopped(begun_s + STOP_TIMEOUT_S):
            return
        log.warning(
            "closing waits no longer for the listener of %s, which did not return within %.0f s; %s",
            self._place(),
            STOP_TIMEOUT_S,
            after_close(self._session.mode, is_taken=self._lease is not None and self._lease.is_revoked),
        )

    def _wait_stopped(self, until_s: float) -> bool:
        """True when none runs, or its own thread asks, which would wait for itself."""
        if self._state.thread is None or self._state.is_current:
            return True
        return self._session.connection.close_deadline.wait_closing(
            self._state.wait_end, max(until_s - time.monotonic(), 0.0)
        )

    def _place(self) -> str:
        message, inbox = self._message, self._served
        if message is None or inbox is None:
            return "a message"
        return f"message {message.message_id} of {inbox.destination}"

    @property
    def _has_begun(self) -> bool:
        return self._session.guard.listening is not None

    def _note(self, inbox: ConsumerInbox, listener: MessageListener | None) -> None:
        with self._session.lock:
            inbox.listener = listener
            inbox.link.note_listener(is_set=listener is not None)
            self._inboxes = [each for each in self._inboxes if each is not inbox and not each.link.is_closed]
            if listener is not None:
                self._inboxes.append(inbox)
            self._state.links = [each.link for each in self._inboxes]

    def _begin(self) -> None:
        if not self._has_begun:
            self._session.guard.listening = self._state
            self._start_thread()
        self._session.wake()

    def _start_thread(self) -> None:
        name = f"jbm-session-{self._session.session_id}"
        self._begun_s = time.monotonic()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._state.thread = threading.current_thread()  # until it runs nobody can wait for its end
        with self._session.connection.close_deadline.listening.noted():
            try:
                self._take_and_deliver()
            finally:
                self._lines.end(_now_ms())

    def _take_and_deliver(self) -> None:
        session = self._session
        while not self._is_stopping and not session.is_closed:
            try:
                self._lines.tell_due(_now_ms())
                self._log_unstarted()
                taken = self.next_message()
                if taken is not None:
                    self.deliver(*taken)
            except ResourceAllocationError:
                self._rest()  # its application holds the whole prefetch: nothing to do before it settles some
            except Exception as error:
                if not isinstance(error, JMSError):  # a bug: without its thread the session would stand still unnoticed
                    text = "session %s: the thread of its listeners failed, and goes on"
                    tell_error(log, logging.ERROR, text, session.session_id, error=error)
                session.connection.notify_exception(error)
                self._rest()

    def _log_unstarted(self) -> None:
        """Warn once: listeners are set before start(), which an application may have forgotten to call."""
        if not self._looks_for_start:
            return
        if self._session.connection.is_started:
            self._looks_for_start = False  # an application that stops it later knows start()
            return
        if time.monotonic() - self._begun_s < UNSTARTED_S:
            return
        self._looks_for_start = False
        places = sorted({str(inbox.destination) for inbox in self._inboxes})
        log.warning(
            "%s: a listener waits on a connection that is not started, so nothing comes: call its start(), or enter it "
            "with `with`",
            ", ".join(places),
        )

    def _rest(self) -> None:
        self._session.filled.sleep_unless(lambda: False, REST_S)

    def next_message(self) -> tuple[ConsumerInbox, Delivery] | None:
        """The next message of any consumer with a listener, or None after a while without."""
        session, filled = self._session, self._session.filled
        changes = filled.changes
        for inbox in self._in_turn():
            with session.lock:  # whoever closes or stops is seen here, or waits until the message was worked on
                if not self.may_listen(inbox):
                    continue
                self._state.is_idle = False
                self._state.taking_for = inbox.link
            delivery = None
            try:
                inbox.link.wait_on()
                delivery = inbox.poll_for_listener()
            finally:
                if delivery is None:
                    self._found_none()
            if delivery is not None:
                inbox.link.enter_listener(is_in=True)
                self._served = inbox
                return inbox, delivery
            if inbox.link.buffer.has_asked:
                break
        filled.sleep_unless(lambda: self._is_stopping or filled.changes != changes, self._sleep_s())
        return None

    def _sleep_s(self) -> float:
        if self._looks_for_start:
            return self._begun_s + UNSTARTED_S - time.monotonic()
        return LINES_S if self._lines.has_counted else LOOK_AGAIN_S

    def _in_turn(self) -> list[ConsumerInbox]:
        inboxes = list(self._inboxes)
        for inbox in inboxes:
            if inbox.link.buffer.has_asked:  # an attempt of another, recorded beside it, would be nobody's
                return [inbox]
        if len(inboxes) > 1 and self._served in inboxes:
            begin = inboxes.index(self._served) + 1
            return inboxes[begin:] + inboxes[:begin]
        return inboxes

    def may_listen(self, inbox: ConsumerInbox) -> bool:
        """Its listener may be called."""
        return not inbox.is_over and inbox.listener is not None and self._session.connection.is_started

    def deliver(self, inbox: ConsumerInbox, delivery: Delivery) -> None:
        """Call the listener; the session is not idle, and is again when it returned."""
        session, strategy = self._session, self._strategy
        message: Message | None = None
        try:
            session.guard.wait_enter(None)
            try:
                listener = inbox.listener
                if listener is None or not self.may_listen(inbox):
                    # It was closed, stopped or left without its listener since the message was taken: as if it never
                    # had been. It goes back before what is behind it in the buffer, or with that.
                    inbox.link.put_back(delivery)
                    return
                strategy.before_receive()
                try:
                    message = self._message = inbox.present(delivery)
                except LargeBodyError as error:
                    inbox.put_back_unseen(delivery, error)
                    raise
                self._lease = delivery.lease
            finally:
                session.guard.leave()
            try:
                begun_s = time.perf_counter()
                try:
                    tracing = session.connection.defaults.tracing
                    with nullcontext() if tracing is None else tracing.processing(message):
                        result = listener(message)
                finally:
                    session.connection.counts.handlers.note(inbox.destination, begun_s)
                if result is not None:
                    refuse_unrun("listener", result)
            except BaseException as error:  # sys.exit() in a handler as well: the message was not processed
                follows = self._what_follows(inbox, delivery)
                about = message.message_id, str(inbox.destination)
                self._lines.raised(*about, error, follows, _now_ms(), delivery.place, message.delivery_count)
                strategy.listener_raised(message)
            else:
                strategy.listener_returned()
        except JMSError as error:
            session.connection.notify_exception(error)
        except Exception:  # of ours: it was not processed, what has been settled stays so
            if message is None:
                strategy.not_handed_over(delivery)
                inbox.link.give_back([(delivery, Modified(delivery.offset, counted=False))])
            else:
                strategy.listener_raised(message)
            raise
        finally:
            self._ends()

    def _what_follows(self, inbox: ConsumerInbox, delivery: Delivery) -> str:
        settings = self._session.connection.provider.settings_of(inbox.destination.name)
        return what_follows(self._session.mode, settings, delivery.count.attempts + 1)

    def _ends(self) -> None:
        """Nothing is on its way to the listener any more, and it does not run."""
        self._message = None
        self._found_none()

    def _found_none(self) -> None:
        """Nothing is on its way to a listener: threads that wait for that go on."""
        link, self._state.taking_for = self._state.taking_for, None
        if link is not None:
            link.enter_listener(is_in=False)
            if link.is_closed:
                self._strategy.let_go_closed()
        with self._session.lock:
            self._state.is_idle = True
            self._session.filled.wake_all()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
