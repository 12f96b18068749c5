"""Who still owes an acknowledgement for one message (STATE-4, STATE-6).

A value: every change makes a new one. It remembers acknowledgements that came before their delivery was recorded, so
that neither order of the two loses one.
"""

from dataclasses import dataclass, replace

from jbm_kafka.core.errors import UnknownMessageError


@dataclass(frozen=True, slots=True)
class NackSet:
    """The receivers that owe, and those that acknowledged early; nobody is in both."""

    owing: frozenset[str] = frozenset()
    """Receivers that were handed the message and have not acknowledged it."""
    early: frozenset[str] = frozenset()
    """Receivers whose acknowledgement is here and whose delivery is not recorded yet."""

    def offered(self, receiver_id: str) -> "NackSet":
        """After the delivery was recorded: the receiver owes, unless its acknowledgement was here before."""
        if receiver_id in self.early:
            return replace(self, early=self.early - {receiver_id})
        return replace(self, owing=self.owing | {receiver_id})

    def acknowledged(self, receiver_id: str) -> "NackSet":
        """After an acknowledgement: the receiver owes no more, or will not owe once its delivery is recorded.

        Raises:
            UnknownMessageError: its early acknowledgement is here already.
        """
        if receiver_id in self.owing:
            return replace(self, owing=self.owing - {receiver_id})
        if receiver_id in self.early:
            raise UnknownMessageError(f"receiver {receiver_id!r} has acknowledged already", receiver_id=receiver_id)
        return replace(self, early=self.early | {receiver_id})

    def returned(self, receiver_id: str) -> "NackSet":
        """After the receiver gave the message back or left: it owes nothing, and nothing of it is awaited."""
        return NackSet(self.owing - {receiver_id}, self.early - {receiver_id})

    @property
    def is_settled(self) -> bool:
        """Whether nobody owes and no early acknowledgement waits for its delivery."""
        return not self.owing and not self.early
