"""A topic that others copied, with another Kafka id than its source, is received from where the operator says."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import Queue, Topic
from jbm_kafka.errors import IllegalStateError, InvalidDestinationError, InvalidSettingError, JMSError
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.memory.memory_process import ProcessCrashed
from jbm_kafka.ports import Outgoing
from jbm_kafka.registry.topic_configs import DESTINATION_CONFIG
from tests.admin.moving_place import MINUTE_MS, ORDERS, PRICES, Place, in_every_state
from tests.jms.support import receive

CHANGELOG, REGISTRY = "orders.jbm-changelog", "jbm.registry"
KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
"""As of a destination; else it keeps nothing for a durable subscription."""


def copy_exactly(here: Place, there: Place, *topics: str) -> None:
    """With equal offsets, as tools of brokers do."""
    for name in topics:
        source = here.cluster.topics[name]
        with closing(MemoryKafka(there.cluster).admin()) as admin:
            admin.create_topic(name, partitions=len(source.logs), config=KEPT)
        there.cluster.topics[name].logs[:] = source.logs
    there.catch_up(here)


def copy_committed(here: Place, there: Place, *topics: str, skipped: int = 0) -> None:
    """As MirrorMaker does: one record after the other, without what marks transactions."""
    kafka = MemoryKafka(there.cluster)
    for name in topics:
        partitions = range(len(here.cluster.topics[name].logs))
        with closing(kafka.admin()) as admin:
            admin.create_topic(name, partitions=len(partitions), config={})
        source = MemoryKafka(here.cluster)
        with closing(source.admin()) as admin, closing(source.log_reader()) as reader:
            ends = admin.end_positions(name, partitions, stable=True)
            rows = reader.read(name, {p: (skipped, ends[p]) for p in partitions if ends[p] > skipped}, timeout_s=5)
        sender = kafka.sender()
        for row in rows:
            headers, at_ms = row.headers() or (), row.timestamp()[1]
            sender.send(Outgoing(name, row.partition() or 0, row.key(), row.value(), headers, at_ms), None)
        assert sender.flush(5)
        sender.close(5)
    there.catch_up(here)


def test_what_was_held_comes_with_a_copied_changelog(here: Place, there: Place) -> None:
    """LOG-14: before it is adopted, all of it is delivered again, for it is about another topic."""
    in_every_state(here)
    before = here.seen(ORDERS)
    copy_exactly(here, there, "orders", CHANGELOG)
    # MirrorMaker copies the configuration too, by which our own topics are known; a copy is nobody's to truncate.
    there.cluster.topics["orders"].config = dict(DESTINATION_CONFIG)
    assert "settled" in {row[0] for row in there.seen(ORDERS)}
    found = there.admin.adopt(ORDERS, begin="held")
    assert (found.destination, found.has_held, found.is_kept, list(found.begins)) == (ORDERS, True, True, ["orders"])
    assert there.seen(ORDERS) == before
    assert "did not make its topic" in there.admin.truncate(ORDERS, dry_run=True).not_by_itself
    assert sorted(there.receive_all(ORDERS)) == [("counted", 2), ("counted2", 1), ("settled2", 1), ("urgent", 1)]
    there.world.clock.advance(5 * MINUTE_MS)
    assert there.receive_all(ORDERS) == [("delayed", 3), ("delayed2", 1)]


@pytest.mark.parametrize(("begin", "bodies"), [("begin", ["a", "b", "c"]), ("end", []), ({0: 1, 1: 1}, ["b", "c"])])
@pytest.mark.parametrize("has_changelog", [False, True])
def test_receivers_begin_where_the_operator_says(
    here: Place, there: Place, begin: Any, bodies: list[str], has_changelog: bool
) -> None:
    """Of LOG-14: what a changelog of other offsets says counts for nothing, then either."""
    with here.context() as jms:
        consumer = jms.create_consumer(ORDERS)
        for body in ("a", "b", "c"):
            jms.create_producer().send(ORDERS, body, unit_of_order="u", duplicate_id=body)
        for delay_ms in (0, 0):
            receive(consumer).nack(delay_ms)
        for _ in ("a", "b"):
            receive(consumer).acknowledge()
        receive(consumer).nack(0)
    copy_committed(here, there, "orders", *([CHANGELOG] if has_changelog else []))
    (place,) = [p for p, log in enumerate(there.cluster.topics["orders"].logs) if log.end]
    if isinstance(begin, dict):
        begin = {p: offset if p == place else 0 for p, offset in begin.items()}
    found = there.admin.adopt("orders", begin=begin)
    assert (found.has_held, found.records) == (False, len(bodies))
    if bodies:  # and whoever takes over then finds nothing older either
        with there.context() as jms:
            receive(jms.create_consumer(ORDERS)).acknowledge()
    assert there.receive_all(ORDERS) == [(body, 1) for body in bodies[1:]]
    with there.context() as jms:
        jms.create_producer().send(ORDERS, "d", unit_of_order="u")
    assert there.receive_all(ORDERS) == [("d", 1)]


def test_offsets_that_are_not_equal_are_refused(here: Place, there: Place) -> None:
    """Of LOG-14: what was held would be other messages."""
    in_every_state(here)
    copy_committed(here, there, "orders", skipped=2)
    copy_committed(here, there, CHANGELOG)
    with pytest.raises(IllegalStateError, match="copied with equal offsets"):
        there.admin.adopt(ORDERS, begin="held")
    with pytest.raises(InvalidSettingError, match="begin of partition 1 is None: the log has 0 to"):
        there.admin.adopt(ORDERS, begin={0: 0})
    with pytest.raises(InvalidSettingError, match="begin is 'middle'"):
        there.admin.adopt(ORDERS, begin="middle")  # type: ignore[arg-type]
    assert there.admin.adopt(ORDERS, begin="end").records == 0


def test_another_unit_at_an_offset_is_refused(here: Place, there: Place) -> None:
    """Of LOG-14: the log is as long, and is another one."""
    in_every_state(here)
    copy_exactly(here, there, "orders", CHANGELOG)
    kafka = MemoryKafka(there.cluster)
    with closing(kafka.admin()) as admin:
        ends = admin.end_positions("orders", [0, 1], stable=False)
        admin.delete_topics(["orders"])
        admin.create_topic("orders", partitions=2, config={})
    sender = kafka.sender()
    for partition, end in ends.items():
        for _ in range(end):
            sender.send(Outgoing("orders", partition, b"other", b"x"), None)
    assert sender.flush(5)
    sender.close(5)
    with pytest.raises(IllegalStateError, match="the log has another unit than its changelog says"):
        there.admin.adopt(ORDERS, begin="held")


def test_durable_subscriptions_come_with_a_copied_registry(here: Place, there: Place, tmp_path: Path) -> None:
    """Of LOG-14: what was settled is, and who subscribes again has the same subscription."""
    with here.context(client_id="billing") as jms:
        consumer = jms.create_durable_consumer(PRICES, "audit")
        for body in ("a", "b", "c"):
            jms.create_producer().send(PRICES, body, unit_of_order=body)
        receive(consumer).acknowledge()
        receive(consumer).nack(0)
        here.world.wait_idle()
    before = here.seen(PRICES, subscription="audit", client_id="billing")
    copy_exactly(here, there, "prices", "prices.jbm-changelog")
    there.cluster.topics[REGISTRY].logs[:] = here.cluster.topics[REGISTRY].logs
    found = there.admin.adopt(PRICES, begin="held")
    assert list(found.begins) == ["billing/audit"]
    assert there.seen(PRICES, subscription="audit", client_id="billing") == before
    assert there.admin.export_messages(PRICES, tmp_path / "prices.avro").subscriptions == ("billing/audit",)
    assert there.receive_all(PRICES, client_id="billing") == [("b", 2), ("c", 1)]


def test_what_is_no_copy_is_refused(here: Place) -> None:
    in_every_state(here)
    with pytest.raises(IllegalStateError, match="its changelog is of this very topic"):
        here.admin.adopt(ORDERS, begin="end")
    with pytest.raises(InvalidDestinationError, match="there is no Kafka topic 'none'"):
        here.admin.adopt("none", begin="end")
    here.admin.create_topic("prices")
    with pytest.raises(InvalidDestinationError, match="no durable subscription"):
        here.admin.adopt(Topic("prices"), begin="end")
    with here.context() as jms:
        jms.create_consumer(Queue("given-up")).receive_nowait()
        with pytest.raises(JMSError, match="receives from it"):
            here.admin.adopt(Queue("given-up"), begin="end")


def test_until_somebody_receives_another_place_may_be_named(here: Place, there: Place) -> None:
    """Of LOG-14: an answer that was lost is no reason to refuse, and a wrong place is mended."""
    with here.context() as jms:
        for body in ("a", "b"):
            jms.create_producer().send(ORDERS, body, unit_of_order="u")
    copy_committed(here, there, "orders")
    assert [there.admin.adopt(ORDERS, begin=begin).records for begin in ("end", "end", "begin")] == [0, 0, 2]
    with there.context() as jms:
        receive(jms.create_consumer(ORDERS)).acknowledge()
    with pytest.raises(IllegalStateError, match="somebody has received from it"):
        there.admin.adopt(ORDERS, begin="end")
    assert there.receive_all(ORDERS) == [("b", 1)]


def test_killed_in_its_midst_it_is_done_again(here: Place, there: Place) -> None:
    """Of LOG-14: after the first of two partitions."""
    in_every_state(here)
    before = here.seen(ORDERS)
    copy_exactly(here, there, "orders", CHANGELOG)
    kafka = there.admin._core.kafka
    assert isinstance(kafka, MemoryKafka)
    seen: list[str] = []

    def fail(transactional_id: str, at: str) -> None:
        if at == "committed" and transactional_id.startswith("jbm.adopt"):
            seen.append(at)
            if len(seen) == 1:
                raise ProcessCrashed

    kafka.cluster.faults.step = fail
    with pytest.raises(ProcessCrashed):
        there.admin.adopt(ORDERS, begin="held")
    found = there.admin.adopt(ORDERS, begin="held")
    assert sorted(found.begins["orders"]) == [0, 1]
    assert there.seen(ORDERS) == before
