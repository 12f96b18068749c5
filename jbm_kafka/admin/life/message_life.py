"""One message's life: the places where it was, what happened to it in each, and where it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jbm_kafka.core.channel.message_past import Past
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.summary import summary

Came = Literal["sent", "dead-lettered", "expired", "moved", "sent again", "edited"]
"""How a message came to a place."""
LifeState = Literal["waits", "in hand", "delayed", "on hold", "expired", "settled", "unknown"]
"""How it stands there now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeHop:
    """A message in one queue, or in one subscription of a topic."""

    destination: Queue | Topic
    """Where it was, or is."""
    subscription: str | None
    """The full name of the subscription whose copy this is; None: a queue's, or where the topic has none now."""
    partition: int
    """The number of the Kafka topic's partition."""
    offset: int
    """Its place in the log."""
    came: Came
    """How it got there: "sent", "dead-lettered", "expired", "moved", "sent again" or "edited"."""
    arrived_at_ms: int | None
    """When it came there, ms since 1970; None: its record is gone, and nothing tells."""
    is_in_log: bool
    """Its record can still be read. What is settled is deleted from the logs of most queues soon."""
    past: Past
    """The message's past as the events tell it."""
    state: LifeState
    """How it stands there: "waits", "in hand", "delayed", "on hold", "expired", "settled"; or "unknown", where the
    queue or its changelog is gone or cannot be read."""
    due_at_ms: int
    """The time before which a delayed message is not handed over; else 0."""
    ended_by: str | None
    """The operator that settled it, where he did that by the console; None: nobody did, or nothing tells."""
    attempts: int
    """Hand-overs so far that did not end in acknowledgement, as the changelog or the last event has them."""
    last_error: str | None = None
    """Why its latest attempt failed, while it waits for another; None: it does not, or nothing tells."""

    @property
    def place(self) -> tuple[str, int, int]:
        """(destination, partition, offset); copies of several subscriptions share it."""
        return str(self.destination), self.partition, self.offset

    def __repr__(self) -> str:
        return summary(
            self,
            self.destination,
            subscription=self.subscription,
            partition=self.partition,
            offset=self.offset,
            came=self.came,
            state=self.state,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLife:
    """All that the topics tell of one message, with its copies and letters."""

    message_id: str
    """As `message.message_id`."""
    unit: str | None
    """Its unit of order; None: it has none, or its record is gone."""
    sent_at_ms: int | None
    """When it was first sent; None: nothing tells it any more."""
    hops: tuple[LifeHop, ...]
    """Where it was, in the order in which it came there. None: it was not found."""
    notes: tuple[str, ...]
    """Gaps in the story, and what would have filled them: one line each."""

    @property
    def is_recorded(self) -> bool:
        """It is told to whom it was handed over, each time: `record_deliveries` was set."""
        return all(hop.past.tells_deliveries for hop in self.hops)

    def __repr__(self) -> str:
        return summary(self, self.message_id, unit=self.unit, hops=self.hops, notes=self.notes)
