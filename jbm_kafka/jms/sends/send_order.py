"""Which of its connection's two ways a session's next plain send takes, so that its messages keep their order."""

from __future__ import annotations

from jbm_kafka.ports import KafkaClientError


class SendOrder:
    """One session's sends, counted. There is order along each of the two ways, and none between them (decision 16).

    A session changes ways only when all that it sent is confirmed. A send that failed may still be written, by a broker
    that was only slow: it is never confirmed, so its session stays on that way, and nothing overtakes it.

    What is sent is counted by the session, and what is confirmed by the thread of the one sender that has something of
    the session under way: neither needs a lock.
    """

    __slots__ = ("_confirmed", "_is_waited_for", "_sent")

    def __init__(self) -> None:
        self._sent = 0
        self._confirmed = 0
        self._is_waited_for = True

    def count(self, *, is_waited_for: bool) -> bool:
        """Count a send about to be made; returns its way: True for that of the sends that are waited for."""
        if self._sent == self._confirmed:
            self._is_waited_for = is_waited_for
        # Before it is made: what interrupts the caller in between costs the session its choice, and not its order.
        self._sent += 1
        return self._is_waited_for

    def take_back(self) -> None:
        """The send counted last was refused at once: nothing was sent."""
        self._sent -= 1

    def confirm(self, trouble: KafkaClientError | None) -> None:
        """One has been reported."""
        if trouble is None:
            self._confirmed += 1


class OneWay(SendOrder):
    """All sends of a `Sender`, whose sessions share it: always the same way, so that there is nothing to count."""

    __slots__ = ()

    def count(self, *, is_waited_for: bool) -> bool:
        """True: the way of the sends that are waited for."""
        return True

    def take_back(self) -> None:
        """Nothing was counted."""

    def confirm(self, trouble: KafkaClientError | None) -> None:
        """Nothing was counted."""
