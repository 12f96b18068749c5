"""The core that all parts of one session share: its call guard, its links, its open transaction, and its connection."""

from __future__ import annotations

import secrets
import threading
from functools import partial

from jbm_kafka.client.connection_counts import SentByTopic
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.jms.base.call_guard import CallGuard, CallInUse
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.sends.open_sends import OpenSends
from jbm_kafka.jms.sends.send_group import SendGroups
from jbm_kafka.jms.sends.send_order import SendOrder
from jbm_kafka.jms.shared.connection_core import ConnectionCore
from jbm_kafka.jms.shared.session_links import SessionLinks
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.wake_up import Sleepers

CALL_TIMEOUT_S = 30.0
"""How long closing waits for a call of another thread; longer than a call goes on once the session is closed."""


class SessionCore:
    """One session as its consumers, its producers and its acknowledge strategy know it."""

    def __init__(self, connection: ConnectionCore, mode: AcknowledgeMode) -> None:
        self.connection = connection
        self.mode = mode
        self.session_id = connection.next_session_id()
        self.lock = threading.RLock()
        """Shared by the session's links: guards buffers and what is unacknowledged, held for moments. It knows its
        owner, so that a signal handler can tell that it has interrupted that one (CallGuard.is_interrupted)."""
        self.filled = Sleepers(self.lock)
        self.guard = CallGuard(self.filled)
        self.links = SessionLinks(self.lock)
        self.outbox: OpenSends[Outgoing] = OpenSends(budget_bytes=connection.provider.traits.transaction_bytes_max)
        self.sent: SentByTopic = {}
        self.send_order = SendOrder()
        self.send_groups = SendGroups()
        self.is_closed = False
        """It takes no message any more, and calls are refused, but for those of listeners that closing waits for."""
        self.system_unit = f"JBM-{connection.provider.clock.now_ms():x}-{secrets.token_hex(6)}"
        """The name of this session's system-generated unit: time-based and statistically unique (UNIT-10)."""

    @property
    def is_transacted(self) -> bool:
        """It commits and rolls back."""
        return self.mode is AcknowledgeMode.TRANSACTED

    def check_open(self) -> None:
        """Raises IllegalStateError when it is closed for the caller, or belongs to the parent process."""
        if self.is_closed_here:
            self.connection.check_process()
            if self.connection.close_deadline.is_closing:
                raise self.connection.closed()
            raise IllegalStateError("the session is closed; make a new one")

    @property
    def is_closed_here(self) -> bool:
        """It is closed for the caller: not for a listener of its connection that closing waits for.

        That listener may be another session's: one that sends in this session is in the middle of its work.
        """
        return self.is_closed and (self.links.have_ended or not self.connection.close_deadline.listening.is_current)

    def in_use(self, *, beside_listener: bool = False) -> CallInUse:
        """Around a call; see `begin_call`."""
        return CallInUse(self.guard, partial(self.begin_call, beside_listener=beside_listener))

    def begin_call(self, *, beside_listener: bool = False) -> bool:
        """One call at a time: a second thread's is refused (CONN-1), and any other's than a listener's own.

        True: the caller ends it with `guard.leave()`; False: it is part of a listener's call, and nothing is to be
        ended. `beside_listener`: the call takes part in setting listeners up. For what every send passes, to which a
        `with` of Python's own costs ten times as much.
        """
        if self.guard.listening is not None and self.is_listener_thread():
            self.check_open()
            return False
        is_taken = self.guard.listening is not None and not beside_listener and self._is_listening()
        if is_taken or not self.guard.try_enter():
            self.check_open()
            raise self.busy()
        if self.is_closed and self.is_closed_here:
            self.guard.leave()
            self.check_open()
        return True

    def finished_call(self) -> CallInUse:
        """For closing: whoever is in a call finishes it; what it received is unacknowledged then, or not received."""
        return CallInUse(self.guard, self._wait_enter)

    def _wait_enter(self) -> None:
        self.connection.close_deadline.wait_closing(self.guard.wait_enter, CALL_TIMEOUT_S)

    def busy(self) -> IllegalStateError:
        """The error for a call from a second thread, or from a second process."""
        self.connection.check_process()
        sources = ", ".join(sorted(self.links.sources))
        session = f"the {self.mode.name} session" + (f" that receives from {sources}" if sources else "")
        listening = self.guard.listening
        if listening is not None and listening.is_needed:
            user = "its listener, which runs on a thread of its own"
        elif self.guard.is_own:
            return IllegalStateError(
                f"{session} is in another call of this thread or event loop, which has to return first"
            )
        else:
            user = f"thread {self.guard.user!r}"
        return IllegalStateError(f"{session} is in use by {user}; use one session per thread")

    def is_listener_thread(self) -> bool:
        """Return True if the caller runs inside one of this session's listeners."""
        listening = self.guard.listening
        return listening is not None and listening.is_current

    def wake(self) -> None:
        """Something changed that whoever waits may wait for."""
        with self.lock:
            self.filled.notify_all()

    def _is_listening(self) -> bool:
        listening = self.guard.listening
        return listening is not None and self.connection.is_started and listening.is_needed
