"""The provider behind a connection: everything that applications get and give goes through one.

`providers/` implements it: a sidecar in this process, later a broker in memory and one that speaks AMQP. A provider
serves many sessions at once; each receiver has a link of its own, and the provider gives that its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from jbm_kafka.core.channel.branch import Branch, BranchState, PreparedBranch, Xid
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.jms_errors import InvalidClientIDError, JMSError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.kafka import KafkaClientError, KafkaRecord, Outgoing, SendReport
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.unit_of_work import UnitOfWork

Temporary = TypeVar("Temporary", TemporaryQueue, TemporaryTopic)


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of a provider that a session must know."""

    compresses: bool
    """Records are compressed as well as codec/record_size.py estimates."""
    records_attempts: bool
    """An attempt is durable before the application sees the message (REDELIVER-7)."""
    transaction_bytes_max: int
    """How much an open transaction may send."""
    join_timeout_s: float
    """How long a receiver may wait for its first messages to be assigned."""


@dataclass(frozen=True, slots=True)
class HeldPartitions:
    """Which part of a queue or subscription a process has."""

    held: frozenset[int]
    of: int
    """How many there are."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """All that is needed to send to a destination and to own its channels."""

    topic: str
    topic_id: str
    partitions: int
    max_message_bytes: int
    is_log_append_time: bool = False
    """The brokers stamp its records themselves, so the time of sending needs a header."""
    keeps_compression: bool = True
    """The brokers measure a record as its producer compressed it, or better compressed."""
    recorded_partitions: int = 0
    """The count that the registry has; 0: there is no registry."""
    places: UnitPlaces | None = None
    """The registry's knowledge of its units, with that count; None: there is no registry."""

    @property
    def unit_partitions(self) -> int:
        """Units are routed by this count: not by the topic's own, which Kafka's tools may raise at any time."""
        return self.recorded_partitions or self.partitions

    @property
    def takes_units(self) -> bool:
        """Units may be sent there: their count is the topic's, or is about to be."""
        is_moving = self.places is not None and self.places.next_partitions > 0
        return self.partitions == self.unit_partitions or is_moving

    def partition(self, unit: bytes) -> int | None:
        """Where a unit's next message goes; None: that must be recorded first (`Provider.place_unit`)."""
        return partition_for(unit, self.unit_partitions) if self.places is None else self.places.partition(unit)

    def home(self, unit: bytes) -> int:
        """Where a unit's messages are, as far as our senders sent them."""
        return partition_for(unit, self.unit_partitions) if self.places is None else self.places.home(unit)


@dataclass(frozen=True, slots=True)
class Seen:
    """One message as a browser shows it."""

    record: KafkaRecord
    state: MessageState
    attempts: int
    due_at_ms: int
    """Held back until then; 0: not delayed."""
    is_deliverable: bool
    """It could be handed over now: first of its unit, not delayed, in nobody's hand, not expired."""
    last_error: str | None = None
    """Why its latest failed attempt failed, where that is recorded."""


class Provider(Protocol):
    """One connection's way to its messages. Any thread."""

    @property
    def clock(self) -> Clock:
        """The clock by which delays and expiry are judged."""

    @property
    def traits(self) -> Traits:
        """Return what it is like."""

    def settings_of(self, name: str) -> ResolvedSettings:
        """The address settings in force for a destination."""

    def ensure(self, destination: Destination) -> TopicInfo:
        """The destination, made when the settings say so.

        Raises:
            InvalidDestinationError, JMSError: it cannot be used; the text says why.
        """

    def ensure_to_send(self, destination: Destination) -> TopicInfo:
        """As `ensure`, but while nobody answers it waits as long as a send waits to be confirmed.

        Raises:
            SendTimeoutError: nobody has answered; nothing was sent.
        """

    def message_ids(self, topic: str, partition: int, offsets: Collection[int]) -> Mapping[int, str]:
        """The ids of messages by their place, as far as the log still has them; it may take some seconds.

        Raises:
            JMSError: that is not to be known now.
        """

    def known_topic(self, name: str, /) -> TopicInfo | None:
        """The last answer of `ensure` for this name; None when it must be asked again."""

    def check_sendable(self, destination: Destination) -> None:
        """Return when messages may be sent to a destination that `ensure` returned.

        Raises:
            IllegalStateError: somebody has paused producing.
        """

    def place_unit(self, name: str, unit: bytes) -> int:
        """The partition of a unit of a known destination, recorded where it must be; see TopicInfo.partition.

        Raises:
            OrderError: it cannot be, and nothing may be sent.
        """

    def hold_client_id(self, client_id: str, connection_id: str, lost: Callable[[InvalidClientIDError], None]) -> None:
        """Have the client id for this connection alone, until `close` (CONN-2), or until `lost` is called.

        Raises:
            InvalidClientIDError: another connection has it.
        """

    def release_client_id(self, client_id: str, connection_id: str) -> None:
        """Let go of a client id that was held for one of several connections; `close` does so by itself."""

    def subscribed_topic(self, client_id: str, name: str) -> Topic:
        """The topic of a durable subscription.

        Raises:
            InvalidDestinationError: there is none of this name.
        """

    def subscribe(self, subscription: Subscription) -> None:
        """Have the subscription, begun at the latest now, in use by one more consumer until `end_use`.

        Raises:
            IllegalStateError: it is in use, and cannot be used by two, or not be changed.
            InvalidDestinationError, JMSError: its topic cannot be used.
        """

    def end_use(self, subscription: Subscription) -> None:
        """A consumer is closed, and nothing that it received is unacknowledged."""

    def unsubscribe(self, client_id: str, name: str) -> None:
        """End a durable subscription.

        Raises:
            InvalidDestinationError: no destination has this name.
            IllegalStateError: it is in use.
        """

    def use_selector(self, queue: Queue, selector: str) -> None:
        """One consumer more of the queue has this selector, in normal form, or none; until `end_use_of_selector`.

        Told when it is made, also on a stopped connection: all of a process are compared with those of others (SEL-2).
        """

    def end_use_of_selector(self, queue: Queue, selector: str) -> None:
        """One consumer less has it, and nothing that it received is unacknowledged."""

    def create_temporary(self, kind: type[Temporary], connection_id: str, number: int) -> Temporary:
        """A new temporary destination; it is this connection's, until `delete_temporary`.

        Raises:
            JMSError: it cannot be made.
        """

    def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """End one of this connection; it has no receivers."""

    def take_replies(self, queue: TemporaryQueue, take: Callable[[KafkaRecord], None]) -> None:
        """Have each record that comes for the queue taken, on a thread of the provider's, instead of by receivers."""

    def attach(self, source: Source, link: Link) -> LinkOwner:
        """Begin to serve a receiver; again when its owner has ended. A subscription was subscribed to before.

        Raises:
            InvalidDestinationError, JMSError: it cannot be used.
        """

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        """Where this process's partitions of it end now, by partition; none when that is not known in time."""

    def held_partitions(self, source: Source) -> HeldPartitions | None:
        """Return those of it that this process receives from now; None where nobody can know. It waits for nothing."""

    def on_drain(self, drain: Callable[[], bool]) -> Callable[[], None]:
        """Have `drain` called when an operator asks this process to drain, until what is returned is called.

        It begins and returns at once; False: nothing ends by it.
        """

    def wait_recorded(self, timeout_s: float) -> bool:
        """True when what was said of messages before is recorded, as far as it has to be."""

    def submit(self, work: UnitOfWork) -> None:
        """Commit a session's transaction, after the connection's outstanding plain sends; `work.done` tells its end.

        With `work.branch` it is prepared, and decided by `decide`.
        """

    def begin_branch(self, xid: Xid) -> Branch:
        """A branch that is about to be prepared; `forget_branch` when it is not.

        Raises:
            IllegalStateError: a branch of this name is open or prepared.
            JMSError: it cannot be known.
        """

    def forget_branch(self, branch: Branch) -> None:
        """It ended without being prepared."""

    def decide(self, branch: str, wanted: BranchState, *, is_forced: bool = False) -> BranchState:
        """Return what is decided of a prepared branch durably, which is not as wanted where it was decided before.

        Raises:
            IllegalStateError: its messages went another way without a decision, and this is not `is_forced`.
            TransactionInDoubtError: it is not known.
        """

    def decision_of(self, xid: Xid) -> BranchState | None:
        """Return what was decided of the last branch of this name, as `prepared_branches` has read it; None: nobody
        knows."""

    def prepared_branches(self) -> Sequence[PreparedBranch]:
        """All branches of the namespace that wait for a decision.

        Raises:
            JMSError: they cannot be read.
        """

    def browse(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        """Return what a queue holds: the "deliverable" or "all" of it, as far as selected, consuming nothing."""

    def statistics(self) -> Statistics:
        """Return what is counted and held for the connection, but for what it counts by itself; it takes a second at
        most."""

    def health(self, timeout_s: float | None) -> Health:
        """How its process fares. Kafka has so many seconds to answer; None: it is not asked."""

    def prepare_to_send(self) -> None:
        """Plain sends are about to come."""

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        """Send outside of transactions. `is_waited_for`: by a way of its own, beside all sends that are not.

        Sends of one way keep their order in a partition; the two ways have no order between them.

        Raises:
            KafkaClientError: nothing was sent; `send_error` says it to the caller.
        """

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        """As `send`, but never waits, for an event loop: False when there is no room now, and nothing was sent.

        `report` is called on a thread of the provider's, and must not wait either. Try again after any report,
        and after some ms too, for a partition may be held until what was given up before is purged; or `send` it from
        another thread.
        """

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        """Return what the caller of a send should see."""

    def flush(self, timeout_s: float) -> bool:
        """True when every plain send was reported."""

    def begin_close(self) -> Patience:
        """The connection closes, and waits for Kafka so long."""

    def give_up_sends(self) -> None:
        """Fail now what is not confirmed, and send no more."""

    def close(self) -> None:
        """Flush the sends and let go of everything. Again: nothing happens."""


class ServingProvider(Provider, Protocol):
    """A provider that serves others' clients, of whom not each may make destinations."""

    def is_there(self, destination: Destination) -> bool:
        """The destination need not be made.

        Raises:
            InvalidDestinationError, JMSError: it cannot be one; or that is not to be known now.
        """

    def check_owner(self, client_id: str, name: str, user: str) -> None:
        """Return when a durable subscription is this user's, or nobody's; JMSSecurityError when it is another's."""

    def unsubscribe(self, client_id: str, name: str, user: str | None = None) -> None:
        """As of any; of a user JMSSecurityError when it is another's by now."""

    def own(self, client_id: str, name: str, user: str) -> None:
        """Have a durable subscription be this user's; JMSSecurityError when it is another's."""


class ProviderModule(Protocol):
    """A module of `providers/`: what a URL's scheme stands for."""

    def check(self, installation: Installation) -> None:
        """Raises InvalidSettingError for a setting that can be seen to be wrong without connecting."""

    def connect(self, installation: Installation) -> Provider:
        """A provider for one connection.

        Raises:
            ConnectionFailedError: nobody answers there.
            JMSError: the state folder cannot be used.
        """
