"""What a temporary destination's group worker reads: everything once and in order, from memory or from the log."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from jbm_kafka.codec.one_header import last_value
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import ThreadWorkers
from jbm_kafka.sidecar.feeds.catch_up import CatchUp
from jbm_kafka.sidecar.feeds.log_feed import RECORD_BYTES, LogFeed
from jbm_kafka.sidecar.temporary.temporary_log import TemporaryLog, Unread
from tests.support.manual_clock import ManualClock
from tests.support.waiting import wait_until

TOPIC = "jbm.temporary"
PARTITION = 3


class Seen:
    """A `GroupListener` that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        self.told.append(("assigned", list(partitions)))
        return {}

    def on_revoked(self, partitions: Sequence[int]) -> None:
        self.told.append(("revoked", list(partitions)))

    def on_lost(self, partitions: Sequence[int]) -> None:
        self.told.append(("lost", list(partitions)))


class World:
    """A log that is read, and who sends there."""

    def __init__(self) -> None:
        self.kafka = MemoryKafka(MemoryCluster(ManualClock()))
        self.admin = self.kafka.admin()
        self.admin.create_topic(TOPIC, partitions=16, config={})
        self.log = self.new_log()
        self.sent = 0
        self.listener = Seen()

    def new_log(self) -> TemporaryLog:
        workers = ThreadWorkers()
        return TemporaryLog(
            kafka=self.kafka,
            admin=self.admin,
            workers=workers,
            topic=TOPIC,
            partition=PARTITION,
            catch_up=CatchUp(self.kafka, workers).read,
        )

    def send(self, name: str | None, *bodies: str) -> None:
        """And wait until the log has them."""
        sender = self.kafka.sender()
        for body in bodies:
            headers = () if name is None else ((TEMPORARY_HEADER, name.encode()),)
            sender.send(Outgoing(TOPIC, PARTITION, None, body.encode(), headers), None)
            self.sent += 1
        assert sender.flush(10)
        sender.close(1)
        wait_until(lambda: self.log.positions[PARTITION] == self.sent, about="what was sent is read", timeout_s=10)

    def feed(self, name: str, *, begin: int = 0, kept: int = 100, is_started: bool = True) -> LogFeed:
        """One that keeps so many records of a byte in memory."""
        made = feed_of(self.log, name, begin, kept)
        made.join(self.listener)
        if is_started:
            assert not made.consume(1, 0)
            made.seek(PARTITION, begin)
        return made


def feed_of(log: TemporaryLog, name: str, begin: int, kept: int = 100) -> LogFeed:
    """As Temporaries makes it."""
    with log.lock:
        made = LogFeed(
            log,
            lambda: kept * (RECORD_BYTES + 1),
            has=lambda record: last_value(record.headers(), TEMPORARY_HEADER) == name.encode(),
        )
        made.begin({log.partition: begin})
        log.add(name, made)
    return made


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.log.begin()
    yield made
    made.log.stop(Patience(lambda _: True))


def read(feed: LogFeed, count: int, count_max: int = 2) -> str:
    """So many bodies, each one letter, and no more."""
    found: list[str] = []

    def has_all() -> bool:
        found.extend((record.value() or b"").decode() for record in feed.consume(count_max, 0))
        return len(found) >= count

    wait_until(has_all, about="all have come", timeout_s=10)
    assert not feed.consume(count_max, 0)
    return "".join(found)


def test_it_gets_its_own_and_nothing_else_in_order(world: World) -> None:
    """Of TEMP-1."""
    feed = world.feed("a")
    world.send("a", *"ab")
    world.send("b", "x")
    world.send(None, "y")
    world.send("a", *"cd")
    assert read(feed, 4) == "abcd"
    assert feed.ends_reached() == {PARTITION: 6}


def test_what_came_before_it_is_read_from_the_log(world: World) -> None:
    """Of TEMP-1: noted by one number, whatever comes."""
    unread = Unread()
    world.log.add("a", unread)
    world.send("b", "x")
    world.send("a", *"abc")
    assert unread.begin == 1
    feed = world.feed("a", begin=unread.begin)
    assert feed.ends_reached() == {}
    world.send("a", "d")
    assert read(feed, 4) == "abcd"
    world.send("a", "e")
    assert read(feed, 1) == "e"


def test_what_was_sent_before_a_subscription_began_is_not_its_own_however_late_it_is_read(world: World) -> None:
    """Of TOPIC-1: the reader may be behind the log's end, where a subscription begins."""
    unread = Unread(first=2)
    world.log.add("a", unread)
    feed = world.feed("a", begin=2)
    world.send("a", *"abcd")
    assert unread.begin == 2
    assert read(feed, 2) == "cd"


def test_what_memory_has_no_room_for_is_read_from_the_log(world: World) -> None:
    """Of LOG-9: once caught up it is in memory again."""
    feed = world.feed("a", kept=3)
    world.send("a", *"abcdefgh")
    assert len(feed._kept[PARTITION]) == 3
    assert read(feed, 8) == "abcdefgh"
    world.send("a", *"ij")
    assert len(feed._kept[PARTITION]) == 2
    assert read(feed, 2) == "ij"


def test_it_reads_again_from_where_it_is_told(world: World) -> None:
    """As of every `GroupConsumer`: a channel that is opened anew begins at its first that is not settled."""
    feed = world.feed("a")
    world.send("a", *"abcd")
    assert read(feed, 4) == "abcd"
    feed.seek(PARTITION, 4)  # where it stands: nothing happens
    world.send("a", "e")
    assert read(feed, 1) == "e"
    feed.seek(PARTITION, 2)
    assert read(feed, 3) == "cde"


def test_what_waits_in_memory_comes_once_when_it_is_read_again_from_before_it(world: World) -> None:
    """UNIT-1: and in its place."""
    feed = world.feed("a")
    world.send("a", *"abcd")
    assert [record.value() for record in feed.consume(2, 5)] == [b"a", b"b"]
    feed.seek(PARTITION, 1)
    assert read(feed, 3) == "bcd"


def test_paused_it_returns_nothing_and_loses_nothing(world: World) -> None:
    """As of every `GroupConsumer`."""
    feed = world.feed("a")
    feed.consume(1, 0)
    world.send("a", *"ab")
    feed.pause([PARTITION])
    assert not feed.consume(10, 0)
    assert feed.ends_reached() == {}
    feed.resume([PARTITION])
    assert read(feed, 2) == "ab"


def test_it_joins_when_it_is_first_asked_and_again_with_the_next_client(world: World) -> None:
    """As of every `GroupConsumer`; alone it is given its partition at once, and keeps it."""
    feed = world.feed("a", is_started=False)
    assert not feed.joined()
    assert feed.assignment() == frozenset()
    feed.consume(1, 0)
    assert feed.joined()
    assert feed.assignment() == {PARTITION}
    feed.close()
    world.send("a", "a")
    assert not feed.consume(1, 0), "nobody said where to begin"
    feed.join(world.listener)
    feed.consume(1, 0)
    feed.seek(PARTITION, 0)
    assert read(feed, 1) == "a"
    assert world.listener.told == [("assigned", [PARTITION])] * 2
    feed.end()
    world.send("a", "b")
    assert not feed.consume(1, 0)


def test_a_handler_that_fails_keeps_nothing_from_others(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The reader of all goes on."""
    got: list[object] = []

    def take(record: object) -> None:
        got.append(record)
        raise RuntimeError("a bug")

    world.log.call("a", take)
    world.send("a", *"ab")
    wait_until(lambda: len(got) == 2, about="both are handed over", timeout_s=10)
    world.log.call("a", None)
    world.send("a", "c")
    feed = world.feed("b")
    world.send("b", "x")
    assert read(feed, 1) == "x"
    assert len(got) == 2
    assert "could not be handed over" in caplog.text


def test_what_retention_took_is_left_out_and_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Not promised: messages beyond an hour."""
    sender = world.kafka.sender()
    for body in (b"a", b"b", b"c"):
        sender.send(Outgoing(TOPIC, PARTITION, None, body, ((TEMPORARY_HEADER, b"a"),)), None)
    assert sender.flush(10)
    sender.close(1)
    world.admin.delete_records(TOPIC, {PARTITION: 2})
    again = world.new_log()
    feed = feed_of(again, "a", 0)
    again._worker = again._workers.start("again", again._run())
    wait_until(lambda: again.positions[PARTITION] == 3, about="it goes on", timeout_s=10)
    again.stop(Patience(lambda _: True))
    assert [record.value() for record in feed._kept[PARTITION]] == [b"c"]
    assert "does not hold position 0 any more" in caplog.text
