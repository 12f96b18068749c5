"""Receives in two steps: waits until a message is there, and takes it, if it is still there.

In between the message is in nobody's hand: whoever is not ready for it leaves it, and it may go to others.
"""

from __future__ import annotations

import time

from jbm_kafka.jms.base.call_pauses import Pauses, Sleep, on_this_thread
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports.provider import HeldPartitions

RECORD_S = 10.0
"""How long an attempt may take to be recorded, where the settings ask for that; then it is looked for anew."""


class TwoStepReceive:
    """Receives for one consumer in two steps; one thread at a time, but for `held_partitions`, `pause` and `resume`."""

    def __init__(self, consumer: MessageConsumer) -> None:
        self._consumer = consumer
        self._inbox = consumer._inbox
        self._link = consumer._link
        self._session = consumer._session

    def wait(self, timeout_s: float | None) -> bool:
        """Return True when a message is there; False when the time is up, or the consumer was closed.

        Raises:
            JMSError: as `receive`.
        """
        with self._session.in_use():
            self._consumer._check_may_receive()
            return on_this_thread(self._waiting(timeout_s), self._session.filled)

    def take(self) -> Message | None:
        """Return the message, which the application has then; None: it went elsewhere.

        Raises:
            JMSError: as `receive`.
        """
        buffer = self._link.buffer
        with self._session.in_use():
            self._consumer._check_may_receive()
            before = buffer.taken
            try:
                delivery = self._inbox.poll()
                if delivery is None and buffer.awaits_record:
                    on_this_thread(self._recorded(), self._session.filled)
                    delivery = self._inbox.poll()
                return None if delivery is None else self._inbox.present(delivery)
            except BaseException as error:
                if buffer.taken is not None and buffer.taken is not before:
                    self._inbox.put_back_unseen(buffer.taken, error)
                raise

    def held_partitions(self) -> HeldPartitions | None:
        """Return which part of the source its process has; None where nobody can know. Any thread may call it."""
        return self._session.connection.provider.held_partitions(self._inbox.source)

    def stay(self) -> None:
        """Whoever is not ready will be: its process stays where its messages are."""
        self._link.note_use()

    def pause(self) -> None:
        """Give back what is there, and get nothing until `resume`; others may get it. Any thread."""
        self._inbox.pause()

    def resume(self) -> None:
        """Get messages again. Any thread."""
        with self._link.lock:
            self._link.resume()
            self._session.filled.notify_all()

    def _waiting(self, timeout_s: float | None) -> Pauses[bool]:
        inbox, link = self._inbox, self._link
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        link.begin_wait()
        try:
            while not inbox.is_over:
                if not link.is_stopped:
                    if not link.is_attached:
                        yield inbox.connect_late
                    if inbox.must_attach:
                        yield inbox.stay_attached
                left_s = None if deadline_s is None else deadline_s - time.monotonic()
                yield Sleep(self._is_to_look, left_s)
                with link.lock:
                    if self._is_there():
                        return not inbox.is_over
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    return False
            return False
        finally:
            link.end_call(withdraw=False)

    def _is_to_look(self) -> bool:
        """Under the lock. Asks for a message where there is none."""
        if self._inbox.is_over or self._is_there():
            return True
        if self._link.is_stopped:
            return False
        self._inbox.want_some()  # False: the application holds all that it may, and notifies when it settles some
        return self._inbox.must_attach

    def _is_there(self) -> bool:
        buffer = self._link.buffer
        return not buffer.awaits_record and buffer.next_to_record() is not None

    def _recorded(self) -> Pauses[None]:
        buffer = self._link.buffer
        yield Sleep(lambda: not buffer.awaits_record or self._inbox.is_over, RECORD_S)
