"""The receivers of a channel, and whose turn it is."""

from __future__ import annotations

from jbm_kafka.contract import Receiver
from jbm_kafka.core.jms_errors import IllegalStateError


class Receivers:
    """Receivers in the order they came; each message is offered first to the one after the last that took one."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._receivers: list[Receiver] = []
        self._next = 0

    def __contains__(self, receiver_id: str) -> bool:
        return self.find(receiver_id) is not None

    @property
    def all(self) -> tuple[Receiver, ...]:
        """All of them, the oldest first."""
        return tuple(self._receivers)

    def find(self, receiver_id: str) -> Receiver | None:
        """The receiver of this id."""
        return next((each for each in self._receivers if each.receiver_id == receiver_id), None)

    def add(self, receiver: Receiver) -> None:
        """Another one; adding one that is here changes nothing.

        Raises:
            IllegalStateError: another receiver has its id.
        """
        known = self.find(receiver.receiver_id)
        if known is receiver:
            return
        if known is not None:
            raise IllegalStateError(
                f"channel {self._channel!r} has another receiver {receiver.receiver_id!r}; remove it first",
                receiver_id=receiver.receiver_id,
            )
        self._receivers.append(receiver)

    def remove(self, receiver_id: str) -> None:
        """Without this one, when it is here."""
        for index, receiver in enumerate(self._receivers):
            if receiver.receiver_id == receiver_id:
                del self._receivers[index]
                if index < self._next:
                    self._next -= 1
                return

    def in_turn(self) -> tuple[Receiver, ...]:
        """All of them, the one whose turn it is first."""
        begin = self._next % len(self._receivers) if self._receivers else 0
        return (*self._receivers[begin:], *self._receivers[:begin])

    def took_one(self, receiver_id: str) -> None:
        """It took a message: the next one's turn."""
        for index, receiver in enumerate(self._receivers):
            if receiver.receiver_id == receiver_id:
                self._next = index + 1
