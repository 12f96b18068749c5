"""A queue, its changelog and a sidecar's journal, written by the test as checkpoints write them."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroaring import BitMap

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import Entry, Held, Position, Settled
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.ports import CommittedOffset, Journal
from jbm_kafka.store.changelog_reader import ChangelogScope
from jbm_kafka.store.recovery import RecoveredChannel, recover_channels
from tests.support.manual_clock import ManualClock
from tests.support.scripted_kafka import ScriptedKafka, ScriptedTopic

GROUP, TOPIC, CHANGELOG = "jbm.queue.orders", "orders", "orders.jbm-changelog"
SCOPE = ChangelogScope(group=GROUP, topic=TOPIC, topic_id="T", changelog_topic=CHANGELOG)


def settled(block: int, *offsets: int) -> Settled:
    return Settled(block, BitMap([offset - (block << 16) for offset in offsets]).serialize())


def held(offset: int, attempts: int = 1) -> Held:
    return Held(offset=offset, attempts=attempts, due_at_ms=7, delay_ms=5, unit=b"u", reason="returned")


@dataclass
class World:
    """One queue of two partitions, its changelog, and a sidecar's journal."""

    kafka: ScriptedKafka = field(default_factory=ScriptedKafka)
    clock: ManualClock = field(default_factory=ManualClock)
    number: int = 0
    pauses: list[float] = field(default_factory=list)
    """What recovery waited, in seconds."""

    def __post_init__(self) -> None:
        self.journal = MemoryJournal(clock=self.clock)
        self.kafka.add_topic(TOPIC, topic_id="T", partitions=2, end=200_000)
        self.kafka.add_topic(CHANGELOG, topic_id="L", partitions=2)

    @property
    def changelog(self) -> ScriptedTopic:
        return self.kafka.topics[CHANGELOG]

    def checkpoint(self, watermark: int, *entries: Entry, group: str = GROUP, partition: int = 0) -> Position:
        """Position, entries and offset in one transaction."""
        self.number += 1
        fetched = max(watermark, 150_000)
        position = Position("T", f"jbm.f.0:{self.number}", watermark, fetched, fetched, 0)
        self.changelog.append(partition, [encode_entry(group, entry) for entry in (position, *entries)])
        self.kafka.offsets[group, TOPIC, partition] = CommittedOffset(watermark, position.checkpoint_id)
        return position

    def write_journal(self, *entries: Entry) -> None:
        """What a living sidecar does after a checkpoint of these entries."""
        changes = dict(encode_entry(GROUP, entry) for entry in entries)
        self.journal.write({SCOPE.journal_channel(0): (self.changelog.ends[0], changes)})

    def reset_offset(self, position: int, metadata: str = "") -> None:
        self.kafka.offsets[GROUP, TOPIC, 0] = CommittedOffset(position, metadata)

    def recover(self, journal: Journal | None = None, *, partitions: tuple[int, ...] = (0,)) -> RecoveredChannel:
        found = recover_channels(
            SCOPE,
            partitions,
            admin=self.kafka,
            reader=self.kafka,
            journal=self.journal if journal is None else journal,
            timeout_s=1,
            pause=self.pauses.append,
        )
        assert list(found) == list(partitions)
        return found[partitions[0]]

    def recover_anew(self) -> RecoveredChannel:
        """As with the state folder deleted."""
        return self.recover(MemoryJournal(clock=self.clock))


def corrupt(world: World, entry: Entry) -> int:
    """Overwrite the entry's record; its offset."""
    key = encode_entry(GROUP, entry)[0]
    offset = max(o for o, (k, _) in world.changelog.logs[0].items() if k == key)
    world.changelog.logs[0][offset] = (key, b"\xc3\x01rubbish")
    return offset
