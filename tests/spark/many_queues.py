"""Measures how long many queues take to be archived and audited by one pattern: `make many-queues`.

    python -m tests.spark.many_queues [--queues 500] [--messages 1000] [--partitions 4] [--format delta] [--audit-alone]

A local Kafka of its own gets the queues, whose records are written by the codec: of each queue nine of ten messages
are settled, some at their second attempt and some as dead letters. In one queue a message is lost and in one another
is settled twice. Then one session archives them all, again with nothing new, and audits them, from the topics and with
the archive. Each phase is a line: seconds by the clock, and of the processor those of Spark's JVM (its compiler and
garbage too), of its tasks alone, and of this process, which plans. The exit code is 1 where a count or a finding is not
as the topics have it, or where all phases that a first night has take more than ten minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from pyroaring import BitMap
from pyspark.sql import SparkSession

from jbm_kafka import Queue
from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.codec.dead_letter import dead_letter_headers
from jbm_kafka.codec.events import encode_events
from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.codec.property_header import Property
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.channel.entries import (
    ChannelEvents,
    DeliveryRun,
    MessageEvent,
    MessageFate,
    OffsetRange,
    Position,
    Settled,
)
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import LogPlace
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import (
    CHANGELOG_CONFIG,
    DESTINATION_CONFIG,
    EVENTS_CONFIG,
    SYSTEM_PARTITIONS,
)
from jbm_spark.archiving import read_archive
from jbm_spark.jobs import archive, audit
from jbm_spark.messages import messages
from jbm_spark.processor_time import processor_seconds
from jbm_spark.session import build_session
from tests.support.topics import admin_client
from tests.support.waiting import wait_until

PATTERN, LIMIT_S = "orders.*", 600.0
LETTERS = Queue("DLQ")
_IN_UNIT, _IN_CHECKPOINT = 10, 50
_BODY = b"an order of some words, which is as long as the bodies of orders are: " * 3
_MADE_AT_ONCE = 100
_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be found of one queue."""

    messages: int
    letters: int
    faults: tuple[str, ...]


class Filling:
    """The queues, and what is to be found in them."""

    def __init__(self, bootstrap: str, queues: int, messages: int, partitions: int) -> None:
        self._bootstrap, self._messages, self._partitions = bootstrap, messages, partitions
        self._sent_ms = time.time_ns() // 1_000_000 - 3_600_000
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0,
                                   "queue.buffering.max.messages": 2_000_000})  # fmt: skip
        self._queues = [Queue(f"orders.q{number:03}") for number in range(queues)]
        self._ids: Mapping[str, str] = {}

    def fill(self) -> Mapping[str, Expected]:
        """Make and fill them all."""
        self._make()
        found = {}
        for number, queue in enumerate(self._queues):
            faults = (("lost",) if number == 1 else ()) + (("duplicated",) if number == 2 else ())
            found[queue.name] = self._fill(queue, faults)
        assert self._producer.flush(300) == 0
        return found

    def _make(self) -> None:
        admin = admin_client(self._bootstrap)
        topics = [NewTopic(LETTERS.name, self._partitions, config=dict(DESTINATION_CONFIG)),
                  NewTopic(LETTERS.changelog_topic(), self._partitions, config=dict(CHANGELOG_CONFIG)),
                  NewTopic(events_topic(""), SYSTEM_PARTITIONS, config=dict(EVENTS_CONFIG))]  # fmt: skip
        for queue in self._queues:
            topics.append(NewTopic(queue.name, self._partitions, config=dict(DESTINATION_CONFIG)))
            topics.append(NewTopic(queue.changelog_topic(), self._partitions, config=dict(CHANGELOG_CONFIG)))
        for at in range(0, len(topics), _MADE_AT_ONCE):
            for made in admin.create_topics(topics[at : at + _MADE_AT_ONCE], request_timeout=120).values():
                made.result(120)
        # A broker answers that topics are made, and knows some of them a moment later.
        wait_until(self._are_known, about=f"{len(self._queues)} topics to be known", timeout_s=120)

    def _are_known(self) -> bool:
        with closing(ConfluentKafka(self._bootstrap).admin()) as kafka:
            found = kafka.describe([each.name for each in self._queues])
        self._ids = {name: each.topic_id for name, each in found.items()}
        return len(self._ids) == len(self._queues)

    def _fill(self, queue: Queue, faults: tuple[str, ...]) -> Expected:
        letters = 0
        for part in range(self._partitions):
            count = self._messages // self._partitions + (part < self._messages % self._partitions)
            for offset in range(count):
                self._write(queue.name, f"{part}-{offset // _IN_UNIT}".encode(), _BODY, part, _headers(part, offset))
            letters += self._settle(queue, part, count, faults if part == 0 else ())
        return Expected(self._messages, letters, faults)

    def _settle(self, queue: Queue, part: int, count: int, faults: tuple[str, ...]) -> int:
        """Checkpoint after checkpoint, up to nine tenths; how many went as letters."""
        group, settled, letters = queue.group_id(""), count * 9 // 10 // _IN_UNIT * _IN_UNIT, 0
        for number, first in enumerate(range(0, settled, _IN_CHECKPOINT)):
            offsets = range(first, min(first + _IN_CHECKPOINT, settled))
            # The last of a unit dies, and that of another goes back: nothing of the unit comes behind it.
            dead = [each for each in offsets if each % 100 == 99]
            back = [each for each in offsets if each % 100 == 49]
            lost = [first + 1] if "lost" in faults and number == 0 else []
            for offset in dead:
                self._write(LETTERS.name, None, _BODY, part, self._letter(queue, part, offset))
            letters += len(dead)
            at_ms = self._sent_ms + 1_000 * (2 * number + 1)
            told = [_event(MessageFate.DEAD_LETTERED, each, target=str(LETTERS)) for each in dead]
            told += [_event(MessageFate.RETURNED, each) for each in back]
            self._event(queue, part, 2 * number, at_ms, set(offsets) - {*dead, *back, *lost}, told, offsets)
            again = set(back) | ({first + 2} if "duplicated" in faults and number == 0 else set())
            if again:
                self._event(queue, part, 2 * number + 1, at_ms + 1_000, again, [], range(0))
        ahead = {*range(settled, count, _IN_UNIT)}
        self._event(queue, part, 10_000, self._sent_ms + 1_000_000, ahead, [], range(0))
        position = Position(self._ids[queue.name], "jbm.x:9", settled, count, count, 0)
        for entry in (position, Settled(0, bytes(BitMap(ahead).serialize()))):
            self._write(queue.changelog_topic(), *encode_entry(group, entry), part)
        return letters

    def _event(
        self, queue: Queue, part: int, number: int, at_ms: int, acknowledged: set[int], told: list[MessageEvent],
        given: range,
    ) -> None:  # fmt: skip
        runs = (DeliveryRun(given.start, len(given), 1, "s-1", "CLIENT", at_ms - 500),) if given else ()
        key, value = encode_events(
            ChannelEvents(
                group=queue.group_id(""), topic=queue.name, partition=part, checkpoint_id=f"jbm.x:{part}-{number}",
                at_ms=at_ms, acknowledged=tuple(_ranges(acknowledged)), messages=tuple(told),
                topic_id=self._ids[queue.name], deliveries=runs,
            )
        )  # fmt: skip
        self._write(events_topic(""), key, value, partition_for(key, SYSTEM_PARTITIONS))

    def _letter(self, queue: Queue, part: int, offset: int) -> list[Header]:
        return dead_letter_headers(
            _headers(part, offset), destination=queue, message_id=f"ID:{part}-{offset}", partition=part, offset=offset,
            delivery_count=3, reason="max-delivery-attempts", topic_id=self._ids[queue.name],
        )  # fmt: skip

    def _write(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int, headers: Sequence[Header] = ()
    ) -> None:
        self._producer.produce(topic, value, key, partition, headers=[*headers],
                               timestamp=self._sent_ms if topic.startswith("orders.") else 0)  # fmt: skip
        self._producer.poll(0)


def _headers(part: int, offset: int) -> list[Header]:
    properties = {"qty": Property("int", offset % 50), "region": Property("string", "EU" if offset % 3 else "US")}
    return encode_headers(message_id=f"ID:{part}-{offset}", body_kind=b"text", properties=properties)


def _event(fate: MessageFate, offset: int, *, target: str | None = None) -> MessageEvent:
    due = (0, 0, 10, "continue") if fate is MessageFate.RETURNED else (None, None, None, None)
    return MessageEvent(fate, offset, None, 1, target, "max" if target else "returned", None, *due)


def _ranges(offsets: set[int]) -> Iterator[OffsetRange]:
    first = last = -2
    for each in sorted(offsets):
        if each != last + 1:
            if last >= 0:
                yield OffsetRange(first, last)
            first = each
        last = each
    if last >= 0:
        yield OffsetRange(first, last)


class Phases:
    """Times what it is given, and prints a line of each."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.seconds: dict[str, float] = {}
        print(f"{'':34}{'clock s':>9}{'JVM s':>9}{'tasks s':>9}{'here s':>9}{'load':>7}", flush=True)

    def time(self, name: str, work: Callable[[], _Done]) -> _Done:
        """Do it."""
        begun, before, here = time.monotonic(), self._used(), time.process_time()
        done = work()
        self.seconds[name] = time.monotonic() - begun
        used = [now - then for now, then in zip(self._used(), before, strict=True)]
        numbers = [self.seconds[name], *used, time.process_time() - here]
        line = "".join(f"{each:9.1f}" for each in numbers)
        print(f"{name:34}{line}{os.getloadavg()[0]:7.1f}", flush=True)
        return done

    def _used(self) -> tuple[float, float]:
        return processor_seconds(self._spark) or 0.0, task_seconds(self._spark)


def task_seconds(spark: SparkSession) -> float:
    """Return the processor time of the tasks of all stages that Spark still knows (its newest thousand)."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    gateway = context._gateway
    assert gateway is not None, "a session in a JVM of its own"
    nothing = gateway.jvm.java.util.ArrayList()
    stages = (
        context._jsc.sc()
        .statusStore()
        .stageList(nothing, False, False, gateway.new_array(gateway.jvm.double, 0), nothing)
    )
    return sum(int(stages.apply(at).executorCpuTime()) for at in range(stages.size())) / 1e9


def measured(bootstrap: str, folder: Path, expected: Mapping[str, Expected], given: argparse.Namespace) -> list[str]:
    """Archive, audit, and tell what is not as it must be."""
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(given.event_log)} if given.event_log else {}
    begun = time.monotonic()
    spark = build_session("many queues", starts_fast=given.fast, settings=settings)
    print(f"Spark has started after {time.monotonic() - begun:.1f} s")
    try:
        if given.audit_alone:
            return _audited_alone(spark, bootstrap, expected)
        return _compared(spark, bootstrap, folder, expected, given)
    finally:
        spark.stop()


def _audited_alone(spark: SparkSession, bootstrap: str, expected: Mapping[str, Expected]) -> list[str]:
    """Audit in a new JVM, read everything, and audit once more."""
    phases = Phases(spark)

    def audited() -> audit.AuditedQueues:
        return audit.run_queues(spark, PATTERN, bootstrap=bootstrap)

    def read() -> None:
        rows = messages(spark, Queue(*expected), bootstrap=bootstrap)
        rows.write.format("noop").mode("overwrite").save()

    results = phases.time("audit", audited), phases.time("audit once more", audited)
    if len(expected) == 1:
        phases.time("read, to nowhere", read)
        phases.time("read, to nowhere, once more", read)
    return [fault for result in results for fault in _wrong_findings(result, expected)]


def _wrong_findings(result: audit.AuditedQueues, expected: Mapping[str, Expected]) -> Iterator[str]:
    planted = {(name, fault): 1 for name, each in expected.items() for fault in each.faults}
    seen = {(name, fault): n for name, each in result.queues.items() for fault, n in each.faults.items() if n}
    if seen != planted or result.failures:
        yield f"found {seen}, failed {dict(result.failures)}, and planted were {planted}"
    counts = {name: each.messages for name, each in result.queues.items()}
    if counts != {name: each.messages for name, each in expected.items()}:
        yield f"audited {sum(counts.values())} messages of {len(counts)} queues"


def _compared(
    spark: SparkSession, bootstrap: str, folder: Path, expected: Mapping[str, Expected], given: argparse.Namespace
) -> list[str]:
    phases, faults = Phases(spark), []

    def archived() -> archive.ArchivedQueues:
        return archive.run_queues(spark, PATTERN, folder, bootstrap=bootstrap, file_format=given.format)

    def audited(kept: str | None = None) -> audit.AuditedQueues:
        return audit.run_queues(spark, PATTERN, bootstrap=bootstrap, archive=kept)

    first = phases.time("archive", archived)
    from_topics = phases.time("audit", audited)
    both = phases.time("audit with the archive", lambda: audited(str(folder)))
    again = phases.time("archive, nothing new", archived)
    rows = phases.time(
        "count the archive's rows", lambda: read_archive(spark, folder).groupBy("destination").count().collect()
    )
    ends = _counts(bootstrap, [*expected])
    found = {row["destination"].removeprefix("queue:"): row["count"] for row in rows}
    told: dict[str, Mapping[str, int]] = {
        "sent": {name: each.messages for name, each in expected.items()},
        "archived": first.queues,
        "read back": found,
    }
    for what, counts in told.items():
        if dict(counts) != ends:
            faults.append(f"{what}: {sum(counts.values())} of {len(counts)} queues, and the topics have "
                          f"{sum(ends.values())} of {len(ends)}")  # fmt: skip
    if again.batches or again.messages_in_all != sum(ends.values()):
        faults.append(f"again: {again.batches} batches, {again.messages_in_all} messages in all")
    faults += [fault for result in (from_topics, both) for fault in _wrong_findings(result, expected)]
    if not first.failures == again.failures == {}:
        faults.append(f"failed: {dict(first.failures)} {dict(again.failures)}")
    files = Counter(path.suffix for path in folder.rglob("*") if path.is_file())
    print(f"{files['.parquet']} data files, {first.events} events")
    if (whole := phases.seconds["archive"] + phases.seconds["audit"]) > LIMIT_S:
        faults.append(f"archive and audit took {whole:.0f} s, more than {LIMIT_S:.0f}")
    print(f"archive and audit: {whole:.0f} s")
    return faults


def _counts(bootstrap: str, topics: Sequence[str]) -> dict[str, int]:
    with closing(ConfluentKafka(bootstrap).admin()) as kafka:
        counts = {name: each.partitions for name, each in kafka.describe(topics).items()}
        return {name: sum(parts.values()) for name, parts in kafka.positions(counts, LogPlace.STABLE_END).items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill a cluster, measure, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=500)
    parser.add_argument("--messages", type=int, default=1_000, help="of each queue")
    parser.add_argument("--partitions", type=int, default=4, help="of each queue")
    parser.add_argument("--format", default="parquet", help="parquet or delta")
    parser.add_argument("--fast", action="store_true", help="a JVM that starts fast, as the commands for one queue do")
    parser.add_argument("--audit-alone", action="store_true", help="twice, and beside it reading the one queue")
    parser.add_argument("--event-log", type=Path, help="a folder for Spark's own log of events")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="jbm-many-") as folder, LocalBroker(Path(folder) / "broker") as broker:
        begun = time.monotonic()
        expected = Filling(broker.bootstrap, given.queues, given.messages, given.partitions).fill()
        print(f"{given.queues} queues of {given.messages} messages in {given.partitions} partitions, "
              f"{given.format}: filled in {time.monotonic() - begun:.0f} s")  # fmt: skip
        faults = measured(broker.bootstrap, Path(folder) / "archive", expected, given)
    for each in faults:
        print(f"wrong: {each}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
