"""The memory of a channel: the entries of its changelog, and the account of a checkpoint.

Plain values; `jbm_kafka.codec.changelog` and `jbm_kafka.codec.events` turn them into bytes and back. Bitmaps are
serialized roaring bitmaps of offsets relative to the start of their block.
"""

from dataclasses import dataclass
from enum import Enum

BLOCK_BITS = 16
BLOCK_OFFSETS = 1 << BLOCK_BITS
"""Offsets of one block; `offset >> BLOCK_BITS` is its number, `offset & (BLOCK_OFFSETS - 1)` the place in it."""


PREPARED = "prepared"
PARKED = "parked"
LATER_KINDS = (PREPARED, PARKED)
"""Kinds of entries that came later than the changelog: a member of a group tells by its name which of them it reads."""

FAILURE_BYTES_MAX = 200
"""The length of a failure's text, in UTF-8."""
UNIT_BYTES_MAX = 4096
"""A longer unit is left out of what is recorded about its message: a key may be as large as its topic takes, and the
record that repeats it would be larger than others take. Nothing is decided by it: the record in the log has it."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far the channel is. Every checkpoint that touches the channel writes one."""

    topic_id: str
    """The Kafka id of the destination's topic. Another id: the topic was made anew, the rest means nothing."""
    checkpoint_id: str
    """The checkpoint that wrote this; also in the metadata of the offset it committed."""
    watermark: int
    """Every offset below is settled, or parked."""
    fetched: int
    """One past the highest offset seen."""
    offered: int
    """One past the highest offset that may have reached an application; raised ahead."""
    truncated: int
    """Every offset below was deleted from the log by us."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The settled offsets of one block at or above the watermark."""

    block: int
    bitmap: bytes | None
    """None: the watermark has passed the block, the entry is deleted."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """The offsets of one block that applications asked for and have not settled; only with
    `persist_delivery_count_before_delivery`."""

    block: int
    bitmap: bytes | None
    """None: nothing of the block is in any hand, the entry is deleted."""


@dataclass(frozen=True, slots=True)
class Held:
    """A message that is not simply waiting: returned, delayed, blocked or kept for an operator."""

    offset: int
    attempts: int
    """Hand-overs that did not end in acknowledgement."""
    due_at_ms: int
    """Wall-clock time before which it is not delivered; 0: it is due."""
    delay_ms: int
    """The delay that made `due_at_ms`: a new owner waits at most this long, whatever its clock says."""
    unit: bytes | None
    """The key of its record, for people; written only up to `UNIT_BYTES_MAX`, and not when it is written anew of a
    message that did not come back again: the writer remembers no units."""
    reason: str
    """Why it is held."""


@dataclass(frozen=True, slots=True)
class HeldGone:
    """The message at this offset is held no more: the entry is deleted."""

    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the latest failed attempt of a held message failed, as far as its receiver said: for people alone.

    It stands beside the held entries under a name of its own, which versions before it pass over (decision 115).
    """

    offset: int
    text: str
    """Type and text of an exception, one line of at most `FAILURE_BYTES_MAX` bytes."""


@dataclass(frozen=True, slots=True)
class FailureGone:
    """Nothing is known of the message's latest failed attempt, or it is settled: the entry is deleted."""

    offset: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared branch of a transaction of several systems, with its messages of the channel (ACK-10)."""

    branch: str
    """Its id, in hex."""
    offsets: tuple[int, ...] | None
    """Ascending; None: what was decided is carried out here, the entry is deleted."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A whole record that the changelog keeps while its message is not settled, so that the log need not (LOG-8)."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: int
    """As Kafka counts: 0 none, 1 of its making, 2 of its writing."""
    timestamp_ms: int

    @property
    def size(self) -> int:
        """Bytes of the record, without what its places cost."""
        named = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + named


@dataclass(frozen=True, slots=True)
class ParkedGone:
    """The message at this offset is settled: its record is deleted from the changelog."""

    offset: int


@dataclass(frozen=True, slots=True)
class SeenId:
    """A duplicate id that was seen, and the message that counts for it."""

    digest: bytes
    """The digest of the unit and the id, 16 bytes."""
    offset: int
    sent_at_ms: int
    """The time by its sender's clock, which is wrong by no more than ours was behind it."""


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Ids that were new to the window against duplicates in one checkpoint (SEND-8)."""

    bucket: int
    rows: tuple[SeenId, ...] | None
    """In the order of the log; None: all of them are forgotten, the entry is deleted."""


Entry = (
    Position
    | Settled
    | Attempted
    | Held
    | HeldGone
    | Failure
    | FailureGone
    | Parked
    | ParkedGone
    | Prepared
    | Duplicates
)


class MessageFate(Enum):
    """The fate that one checkpoint gave to one message; acknowledgements are recorded as ranges."""

    RETURNED = "returned"
    """Given back; it will come again."""
    DEAD_LETTERED = "dead-lettered"
    """Copied to its dead-letter address."""
    REMOVED = "removed"
    """Given up, without a copy."""
    EXPIRED = "expired"
    """Its time to live ended."""
    DUPLICATE = "duplicate"
    """Settled unseen: its duplicate id was in the window."""
    MOVED = "moved"
    """An operator moved it."""
    SKIPPED = "skipped"
    """The group's offset was set past it, or the log had lost it."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `first` to `last`, both included. Gaps within are offsets that hold no message."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """The event of one message."""

    fate: MessageFate
    offset: int
    unit: bytes | None
    """The key of its record; written only up to `UNIT_BYTES_MAX`, beyond that `reason` has its length."""
    attempts: int
    """Hand-overs so far that did not end in acknowledgement."""
    target: str | None
    """Where a copy went; None: nowhere."""
    reason: str
    """Why, for people; may be empty."""
    at_ms: int | None = None
    """When it was decided; None: not recorded."""
    due_at_ms: int | None = None
    """The time before which a returned message is not due, as in `Held`; None: it was not returned."""
    delay_ms: int | None = None
    """The delay that made `due_at_ms`."""
    max_delivery_attempts: int | None = None
    """The setting when it was decided; None: not recorded."""
    on_dead_letter: str | None = None
    """The setting when it was decided; None: not recorded."""


@dataclass(frozen=True, slots=True)
class DeliveryRun:
    """Messages of consecutive offsets that one session's application was given one after the other, within 10 ms."""

    first: int
    """An offset."""
    count: int
    """So many offsets from there on, each of which was given."""
    attempt: int
    """Which one it was of each: 1, and the counted ones before."""
    session: str
    mode: str
    """How the session acknowledges, as in `AUTO`."""
    at_ms: int
    """When the first was given."""


@dataclass(frozen=True, slots=True)
class ChannelEvents:
    """The events of one channel partition in one checkpoint."""

    group: str
    topic: str
    """The Kafka topic."""
    partition: int
    checkpoint_id: str
    at_ms: int
    """Wall-clock time of the checkpoint."""
    acknowledged: tuple[OffsetRange, ...]
    messages: tuple[MessageEvent, ...]
    topic_id: str | None = None
    """As in `Position`; None: not recorded."""
    deliveries: tuple[DeliveryRun, ...] = ()
    """The hand-overs to applications, where `record_deliveries` is set."""
