"""Why a message, a unit or a partition does not move, as values (UNIT-17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.branch import name_of
from jbm_kafka.core.channel.holders import branch_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The receiver that has a message in hand."""

    process: str
    """`process 4711 at worker-3`, as the process says it."""
    client_id: str = ""
    """The client id of its connection; empty: none."""
    session: str = ""
    """`<connection>/<number>`: as it stands in the names of its threads and in the ids of what it sends."""
    receiver: str = ""
    """`<session>/<number>` of the consumer; empty where it is not known any more."""
    mode: str = ""
    """The mode of the session, such as `CLIENT`."""
    is_unread: bool = False
    """It lies in the receiver's buffer, and the application has not had it yet."""

    def __str__(self) -> str:
        if (branch := branch_of(self.session)) is not None:
            return f"prepared branch {name_of(branch)}"
        client = f" of client {self.client_id!r}" if self.client_id else ""
        mode = f" ({self.mode})" if self.mode else ""
        return f"{self.receiver or self.session}{mode}{client} in {self.process}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule that keeps something where it is."""

    rule: Rule
    """Which one; its members tell what each means."""
    text: str
    """A sentence for people, without times and remedy."""
    since_ms: int | None = None
    """ms since the epoch; None: not known."""
    until_ms: int | None = None
    """When it ends by itself; None: not by itself, or nobody knows when."""
    holder: Holder | None = None
    """The holder of the message itself, or of what it waits behind."""
    remedy: str = ""
    """The remedy; empty: wait, or nothing need be done."""

    def __str__(self) -> str:
        since = "" if self.since_ms is None else f", since {_when(self.since_ms)}"
        until = "" if self.until_ms is None else f", until {_when(self.until_ms)}"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.text}{since}{until}{remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMessage:
    """A message that was asked about, or the first of a unit."""

    partition: int
    """The number of the Kafka topic's partition."""
    offset: int
    """Its place in the partition."""
    message_id: str
    """As `message.message_id`."""
    unit: str | None
    """Its unit of order; None: it has none."""
    sent_at_ms: int
    """ms since the epoch, as `message.timestamp`: of a message that was moved, when it was first sent."""
    attempts: int
    """How often it was delivered, as recorded."""
    behind: int
    """Messages of its unit that wait behind it, as far as was looked."""
    reasons: tuple[Reason, ...]
    """What keeps it; where that is an earlier message of its unit, then what keeps that; and of what lies in a buffer,
    what its receiver does meanwhile."""
    last_error: str | None = None
    """Why its latest failed attempt failed, as recorded: type and text; None: it was not said."""

    def __str__(self) -> str:
        unit = "a message without a unit" if self.unit is None else f"unit {self.unit}"
        attempts = f", attempts {self.attempts}" if self.attempts else ""
        behind = f", {self.behind} behind it" if self.behind else ""
        place = f"partition {self.partition} offset {self.offset}"
        line = f"{unit}: {place}, {self.message_id}, sent {_when(self.sent_at_ms)}{attempts}{behind}"
        return "\n  ".join((line, *map(str, self.reasons)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPartition:
    """A partition that somebody might wait for."""

    partition: int
    """The number of the Kafka topic's partition."""
    owner: str
    """The process that has it, `process 4711 at worker-3`, or its member of the group; empty: none."""
    held: int | None
    """Messages not settled, as far as was looked; None: that could not be read."""
    units: Mapping[str, int] = field(default_factory=dict)
    """The number of units that a rule keeps, and of messages without one, by the rule's value, as the owner says."""
    reasons: tuple[Reason, ...] = ()
    """The reasons that keep all of it."""

    def __str__(self) -> str:
        held = "not readable now" if self.held is None else f"{self.held} held"
        units = ", ".join(f"{count} {rule}" for rule, count in sorted(self.units.items()))
        kept = f"; units: {units}" if units else ""
        line = f"partition {self.partition}: {held}, owner {self.owner or 'nobody'}{kept}"
        return "\n  ".join((line, *map(str, self.reasons)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A message that an application has, by its place."""

    partition: int = 0
    """The number of the Kafka topic's partition."""
    offset: int = 0
    """Its place in the partition."""
    message_id: str = ""
    """As `message.message_id`; empty: it is too long to be shown."""
    since_ms: int = 0
    """ms since the epoch, by the clock of its process."""

    def __str__(self) -> str:
        if not self.message_id:
            return f"the message at partition {self.partition} offset {self.offset}"
        return f"{self.message_id} (partition {self.partition} offset {self.offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """How a consumer asks for messages. Of one that hangs, or that nobody receives from, it tells since when."""

    is_asking: bool = False
    """It would take more now: it waits for a message, or its session has asked ahead."""
    is_waiting: bool = False
    """A receive waits now, or the thread that looks for its listener does."""
    has_listener: bool = False
    """It is asked by its session's thread, not by calls of `receive`."""
    is_in_listener: bool = False
    """Its listener has a message and has not returned."""
    has_asked: bool = True
    """Its application has asked for a message at least once."""
    ago_ms: int | None = None
    """How long ago it asked last, or, where it never did, since it is there; None: its process cannot say."""
    taken: Taken | None = None
    """The message that its listener is in, or that its application took last and has not finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedReceiver:
    """A consumer, as its process describes it."""

    process: str
    """`process 4711 at worker-3`, as the process says it."""
    client_id: str = ""
    """The client id of its connection; empty: none."""
    session: str = ""
    """`<connection>/<number>`."""
    receiver: str = ""
    """`<session>/<number>`."""
    mode: str = ""
    """The mode of the session, such as `CLIENT`."""
    selector: str = ""
    """In its normal form; empty: it has none."""
    prefetch: int = 0
    """How many messages it may have in hand."""
    in_hand: int = 0
    """The number of messages that its session has, with unread ones."""
    unread: int = 0
    """The number of those in hand that lie in its buffer."""
    asks: Asks
    """Tells if and when it asks for messages."""
    is_stopped: bool = False
    """Its connection is not started."""
    is_idle: bool = False
    """It waits, and nothing of its process's partitions may go to it: for want of messages, or of units."""

    @property
    def is_asking(self) -> bool:
        """It would take more now: it waits for a message, or its session has asked ahead."""
        return self.asks.is_asking

    def __str__(self) -> str:
        client = f" of client {self.client_id!r}" if self.client_id else ""
        hand = f"{self.in_hand} in hand, {self.unread} unread"
        return f"receiver {self.receiver} ({self.mode}){client} in {self.process}: {hand}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something of a queue or subscription does not move, at one moment. Its text, `str()`, has lines to read."""

    name: str
    """`queue:orders`, `topic:prices subscription 'audit'`."""
    group: str
    """Its consumer group."""
    members: int
    """Processes that receive."""
    idle_members: tuple[str, ...]
    """The members without a partition: there are more processes than partitions, or they have just come."""
    silent_members: tuple[str, ...]
    """The members that did not answer: what they have in hand is not known."""
    reasons: tuple[Reason, ...]
    """The reasons that keep all of it."""
    messages: tuple[ExplainedMessage, ...]
    """The messages that were asked about: the message; the first of the unit; or the units that wait longest, the
    longest first."""
    partitions: tuple[ExplainedPartition, ...]
    """The partitions that hold something, or are kept as a whole; where a message or a unit was asked about, its
    own."""
    receivers: tuple[ExplainedReceiver, ...]
    """The receivers of the processes that answered."""
    misplaced: int
    """Messages in another partition than their unit's hash says, as far as was looked."""
    is_whole: bool
    """All that is held was looked at; else the first 50,000 messages."""
    namespaces: tuple[str, ...] = ()
    """Others in which processes receive from the queue: each of them gets every message. "" has no name."""

    @property
    def starving(self) -> int:
        """Units and messages that could go, and that no receiver has taken yet."""
        rules = (Rule.READY, Rule.RECEIVERS_BUSY)
        return sum(part.units.get(rule.value, 0) for part in self.partitions for rule in rules)

    @property
    def idle_receivers(self) -> int:
        """Receivers that ask and get nothing, while others hold, or a rule keeps, what there is."""
        return sum(each.is_idle for each in self.receivers)

    def __str__(self) -> str:
        receive = "1 process receives" if self.members == 1 else f"{self.members} processes receive"
        lines = [f"{self.name}: {receive}, consumer group {self.group}"]
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [str(each) for each in (*self.messages, *self.partitions, *self.receivers)]
        if not self.is_whole:
            lines.append("there is more than was looked at")
        return "\n".join(lines)


def _when(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # Kafka takes any 64-bit timestamp
        return f"{at_ms} ms"
