"""The core interfaces of the JBoss Messaging Core Specification, Revision 1, as Protocols: nouns without behaviour.

They are for readers of the specification: an application needs none of them.

`jbm_kafka.local` implements them in one process; any object with the right attributes is a message or a receiver.
What they promise is docs/semantics.md, section 1. Priorities are 0 to 9; instants are wall-clock milliseconds, 0 never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from jbm_kafka.core.channel.states import MessageState as MessageState


@runtime_checkable
class Routable(Protocol):
    """What can be routed: a message, or a reference to one."""

    @property
    def message_id(self) -> str:
        """Unique among what a channel holds."""

    @property
    def is_reliable(self) -> bool:
        """Must survive a failure; only a reliable channel takes it (STATE-11)."""

    @property
    def priority(self) -> int:
        """0 to 9, the higher first."""

    @property
    def expiration_ms(self) -> int:
        """Not to be handed over from this instant on; 0 never."""

    @property
    def redelivered(self) -> bool:
        """It was handed over before, by the channel it comes from."""

    @property
    def unit_of_order(self) -> str | None:
        """The unit whose messages go one after the other; None: it is its own."""

    @property
    def headers(self) -> Mapping[str, object]:
        """Everything else a filter may look at."""

    def __lt__(self, other: Routable, /) -> bool:
        """It goes before the other: its priority is higher (SEND-7)."""


@runtime_checkable
class MessageReference(Routable, Protocol):
    """A message without its body, as channels hold it (STATE-12)."""

    @property
    def store_id(self) -> str:
        """The store that has the body."""


@runtime_checkable
class CoreMessage(Routable, Protocol):
    """A message with its body."""

    @property
    def body(self) -> object:
        """Whatever the application sent."""


@runtime_checkable
class Filter(Protocol):
    """Chooses messages."""

    def accept(self, routable: Routable, /) -> bool:
        """Whether this one is wanted; advice only (STATE-10)."""


@runtime_checkable
class Receiver(Filter, Protocol):
    """Takes messages: a consumer, or another channel."""

    @property
    def receiver_id(self) -> str:
        """Unique among the receivers of a channel, and the same after a reconnect."""

    def handle(self, routable: Routable, /) -> bool:
        """Take the message. True acknowledges it; False takes it and owes the acknowledgement.

        Raises:
            RoutableNotAcceptedError: it is refused, and as if it had never been offered. After any other error the
                receiver is broken for this message, which the channel keeps.
        """


class TransactionManager(Protocol):
    """Begins and ends transactions, one at a time per context (thread or task)."""

    @property
    def current(self) -> str | None:
        """The transaction open in this context."""

    def begin(self) -> str:
        """Open one, and return its id.

        Raises:
            TransactionInProgressError: one is open in this context.
        """

    def commit(self) -> None:
        """Make effective what was done in it, on every enlisted resource.

        Raises:
            TransactionRolledBackError: a resource could not; nothing of it is effective.
            IllegalStateError: none is open.
        """

    def rollback(self) -> None:
        """Undo what was done in it.

        Raises:
            IllegalStateError: none is open.
        """

    def transaction(self) -> AbstractContextManager[str]:
        """Begin; commit at the end of the block, roll back when it raises."""

    def enlist(self, resource: TransactionResource, /) -> None:
        """Tell the resource how the open transaction ends; repeating it changes nothing.

        Raises:
            IllegalStateError: none is open.
        """


class TransactionResource(Protocol):
    """What a transaction changes."""

    def commit_transaction(self, transaction_id: str, /) -> None:
        """Make effective what was done in it.

        Raises:
            TransactionRolledBackError: that cannot be; the resource has undone its part.
        """

    def rollback_transaction(self, transaction_id: str, /) -> None:
        """Undo what was done in it."""


class PersistenceManager(Protocol):
    """Keeps records, by owner and key."""

    @property
    def is_reliable(self) -> bool:
        """What was written survives the failure of its owner."""

    def write(self, owner_id: str, records: Mapping[str, bytes | None], /) -> None:
        """Keep all of these or, when it raises, none; None deletes."""

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        """Everything kept for this owner."""


class Managed(Protocol):
    """What stands on managers, and says what that makes it."""

    persistence_manager: PersistenceManager | None
    """Where its state is written; None: nowhere."""
    transaction_manager: TransactionManager | None
    """Whose transactions it takes part in; None: in none."""

    @property
    def is_reliable(self) -> bool:
        """It can hold reliable messages over a failure."""

    @property
    def is_transactional(self) -> bool:
        """It takes messages and acknowledgements in transactions."""


class MessageStore(Managed, Protocol):
    """Keeps messages, so that channels need only references; serves several channels (STORE-1)."""

    @property
    def store_id(self) -> str:
        """Its name in references."""

    def store(self, message: CoreMessage, /) -> MessageReference:
        """Keep the message once more, and return a reference to it."""

    def retrieve(self, message_id: str, /) -> CoreMessage:
        """The message.

        Raises:
            UnknownMessageError: it is not here.
        """

    def remove(self, message_id: str, /) -> None:
        """Let go of it once; it is gone when as many let go as stored it.

        Raises:
            UnknownMessageError: it is not here.
        """


class ChannelState(Managed, Protocol):
    """What a channel knows of each message it holds (STATE-1)."""

    def add(self, reference: MessageReference, /) -> None:
        """Hold it: NOT_COMMITTED in an open transaction, else NEW.

        Raises:
            RoutableNotAcceptedError: its id is here already, or it is reliable and this state is not.
        """

    def update(self, message_id: str, receiver_id: str, positive: bool, /) -> None:
        """Positive: the receiver acknowledged it. Not positive: it was handed to the receiver, which owes that.

        Raises:
            UnknownMessageError: the message is not here, or not that receiver's; nothing changed.
            IllegalStateError: it is NOT_COMMITTED, or may not be handed to that receiver now.
        """

    def remove(self, message_id: str, /) -> None:
        """Forget the message, whoever has it.

        Raises:
            UnknownMessageError: it is not here.
            IllegalStateError: it is NOT_COMMITTED.
        """

    def state_of(self, message_id: str, /) -> MessageState | None:
        """Where the message stands; None when it is not here."""

    def nacks(self, message_id: str, /) -> frozenset[str]:
        """The receivers that have it and owe its acknowledgement (STATE-4)."""

    def transaction_of(self, message_id: str, /) -> str | None:
        """The transaction that sent it and has not committed."""

    def references(self, state: MessageState | None = None) -> Sequence[MessageReference]:
        """All it holds, or those in one state, in arrival order."""


@runtime_checkable
class Channel(Receiver, Managed, Protocol):
    """Takes messages and forwards each to a receiver, itself being one."""

    message_store: MessageStore
    """Where the bodies are."""

    @property
    def is_synchronous(self) -> bool:
        """It offers within `handle`, on the caller's thread, and stores nothing (STATE-13)."""

    def set_synchronous(self, value: bool, /) -> bool:
        """Switch; True iff it switched. It does not when it holds messages, or is of that kind already."""

    @property
    def is_storing_undeliverable_messages(self) -> bool:
        """It keeps what it cannot deliver, as a queue does; a topic, or a synchronous one, discards it (STATE-8)."""

    @property
    def receivers(self) -> Sequence[Receiver]:
        """Those it may offer messages to, in the order in which they were added."""

    def handle(self, routable: Routable, /) -> bool:
        """Store the message, NOT_COMMITTED in an open transaction, else NEW, and offer what nobody was offered yet.

        What receivers do with it changes nothing for the sender: True is its acknowledgement. A synchronous channel
        stores nothing, and its answer is the receivers'. A message will do, or a reference into this channel's store.

        Raises:
            RoutableNotAcceptedError: a message of this id is here, or the channel cannot hold it (STATE-11); nothing
                changed.
            IllegalStateError: the channel is closed, as for every call below.
        """

    def add_receiver(self, receiver: Receiver, /) -> None:
        """Offer messages to this one too, from the next message, commit or `deliver()` on.

        Raises:
            IllegalStateError: another receiver has its id.
        """

    def remove_receiver(self, receiver_id: str, /) -> None:
        """Offer it nothing more by itself; what it has in hand of a queue comes back, one attempt more (STATE-5).

        What it owes to a topic it may still ask for (`redeliver`). Unknown ids are passed over.
        """

    def deliver(self) -> bool:
        """Offer every NEW message present now; True iff none is NEW any more (STATE-9).

        It does nothing when a receiver calls it: each message is offered once in a pass.
        """

    def redeliver(self, receiver: Receiver, /) -> bool:
        """Offer this receiver again what it owes, registered or not; True iff it owes nothing any more (STATE-9).

        The messages stay in its hand meanwhile. After a refusal nothing more of that unit is offered.
        """

    def browse(self, filter: Filter | None = None, /) -> list[CoreMessage]:  # noqa: A002 - the contract's word
        """Return what is NEW or DELIVERED, in arrival order; consumes nothing (STATE-9)."""

    def acknowledge(self, message_id: str, receiver_id: str, /) -> None:
        """The receiver is done with the message; in a transaction, when that commits (STATE-7).

        Raises:
            UnknownMessageError: it is not here, or in another hand, or acknowledged already; nothing changed.
            IllegalStateError: it is NOT_COMMITTED.
        """

    def expire(self, now_ms: int, /) -> list[str]:
        """Let go of the NEW messages whose time has ended, and return their ids in arrival order (SEND-5)."""

    def has_messages(self, state: MessageState, /) -> bool:
        """Return True if it holds messages in that state."""

    def get_messages(self, state: MessageState, /) -> list[CoreMessage]:
        """Return those it holds in that state, in arrival order."""

    def close(self) -> None:
        """Take and offer nothing any more. Open transactions of its messages can only roll back.

        What was recorded is recovered by the next channel of that name.
        """
