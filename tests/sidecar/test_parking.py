"""Goal: a message that is held for long holds up neither the log nor a new owner, and nothing of it is lost.

Method: whole sidecars, step by step, over a Kafka in memory; its logs are looked at, and processes end as if killed.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from jbm_kafka.browsing.browse import browse
from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.core.channel.freeze import freeze
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.memory.memory_producer import MemoryTransactionalProducer
from jbm_kafka.ports import CommittedOffset, KafkaRecord, TransactionAborted
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.branches.entry_kinds import EntryKinds
from jbm_kafka.sidecar.channel.parked_records import ParkedRecords
from tests.sidecar.stepped import QUEUE, Start, SteppedSidecar

DELAY_MS = 150_000
KEPT = AddressSettings(truncate="never", redelivery_delay_ms=DELAY_MS)
SETTINGS = AddressSettings(truncate="settled", redelivery_delay_ms=DELAY_MS, max_delivery_attempts=-1)
LOOKS_MS = 65_000
"""Looks enough for a message to be parked, and for what is settled behind it to be deleted."""
COUNT = 40
HELD = (3, 17)


def with_held_messages(one: SteppedSidecar, link: Link, *, unit: bytes | None = None) -> None:
    """Of these messages all but two are acknowledged; those came back, and wait for an hour."""
    one.send(*map(str, range(COUNT)), unit=unit)
    for delivery in one.deliveries(link, COUNT):
        if delivery.offset in HELD:
            link.give_back([(delivery, Modified(delivery.offset, counted=True))])
        else:
            delivery.lease.acknowledge(delivery.offset)


def log_begin(one: SteppedSidecar) -> int:
    with one.cluster.changed:
        return one.cluster.log(QUEUE.name, 0).begin


def committed(one: SteppedSidecar) -> int:
    group = one.group_worker.data.group
    return one.kafka.admin().committed(group.group_id, group.topic, [0])[0].position


def has_committed(one: SteppedSidecar, offset: int) -> bool:
    """Also while a transaction on it is open."""
    found = one.cluster.decided_offset(QUEUE.group_id(), QUEUE.name, 0)
    return found is not None and found.position == offset


def parked_and_deleted(start: Start) -> SteppedSidecar:
    """A process whose two held messages are in the changelog alone."""
    one = start("one", settings=SETTINGS)
    with_held_messages(one, one.attach("s"))
    one.run_for(LOOKS_MS)
    assert (log_begin(one), committed(one)) == (COUNT, COUNT)
    return one


def wait_for_the_delay(one: SteppedSidecar) -> None:
    for _ in range(2):
        one.run_for(DELAY_MS // 2 + 1_000)


def value_of(delivery: Delivery) -> bytes | None:
    return cast(KafkaRecord, delivery.reference.record).value()


def another(start: Start, name: str = "two") -> tuple[SteppedSidecar, Link]:
    one = start(name, settings=SETTINGS)
    return one, one.attach("s")


def test_what_is_held_holds_up_neither_the_log_nor_the_groups_lag(start: Start) -> None:
    """LOG-2, LOG-8."""
    parked_and_deleted(start)


def test_a_new_owner_delivers_what_is_parked_with_its_count_in_order_and_once(start: Start) -> None:
    """LOG-8, REDELIVER-1."""
    parked_and_deleted(start).crash()
    two, link = another(start)
    two.send("behind")
    assert two.receive(link, 1) == [COUNT]
    wait_for_the_delay(two)
    back = two.deliveries(link, 2)
    assert [(each.offset, each.count.attempts, value_of(each)) for each in back] == [(3, 1, b"3"), (17, 1, b"17")]
    for delivery in back:
        delivery.lease.acknowledge(delivery.offset)
    two.run_for(1_000)
    two.crash()
    three, link = another(start, "three")
    three.send("last")
    assert three.receive(link, 1)[0] >= COUNT
    assert list(three.group_worker.data.channels[0].state.durable.parked) == []


def test_its_own_process_delivers_it_though_the_log_has_it_no_more(start: Start) -> None:
    """LOG-8."""
    one = parked_and_deleted(start)
    link = one.attach("t")
    wait_for_the_delay(one)
    assert sorted(one.receive(link, 2)) == list(HELD)


def test_a_unit_keeps_its_order_behind_a_parked_message(start: Start) -> None:
    """LOG-8, UNIT-1."""
    one = start("one", settings=SETTINGS)
    link = one.attach("s")
    one.send("head", unit=b"u")
    (head,) = one.deliveries(link, 1)
    link.give_back([(head, Modified(0, counted=True))])
    one.send("behind it", unit=b"u")
    one.send(*map(str, range(COUNT)))
    for delivery in one.deliveries(link, COUNT):
        delivery.lease.acknowledge(delivery.offset)
    one.run_for(LOOKS_MS)
    assert log_begin(one) == COUNT + 2
    one.crash()
    two, link = another(start)
    two.send("last of it", unit=b"u")
    wait_for_the_delay(two)
    received = []
    for _ in range(3):
        (delivery,) = two.deliveries(link, 1)
        received.append(value_of(delivery))
        delivery.lease.acknowledge(delivery.offset)
    assert received == [b"head", b"behind it", b"last of it"]


@pytest.mark.parametrize("to", [0, 30, COUNT, COUNT + 1], ids=["back to what is gone", "back", "to where it is", "on"])
def test_a_reset_of_the_group_leaves_what_is_parked(start: Start, to: int) -> None:
    """LOG-2, LOG-8: the group's offset says nothing of it, and it comes once."""
    one = start("one", settings=KEPT)
    with_held_messages(one, one.attach("s"))
    one.run_for(LOOKS_MS)
    one.send("skipped by one of these", "left")
    one.run_for(1_000)
    group = one.group_worker.data.group
    one.crash()
    one.clock.advance(10_000)
    MemoryKafka(one.cluster).admin().alter_offsets(group.group_id, group.topic, {0: CommittedOffset(to, "")})
    two = start("two", settings=KEPT)
    link = two.attach("s")
    expected = sorted({*(offset for offset in HELD if offset < to), *range(to, COUNT + 2)})
    wait_for_the_delay(two)
    assert sorted(two.receive(link, len(expected))) == expected


def test_it_is_seen_by_whoever_looks_from_outside(start: Start) -> None:
    """LOG-3, LOG-8."""
    one = parked_and_deleted(start)
    group = one.group_worker.data.group
    seen = list(browse(one.kafka, group, now_ms=one.clock.now_ms(), hands=None, include_all=True))
    assert [(each.record.offset(), each.record.value(), each.attempts) for each in seen] == [
        (3, b"3", 1),
        (17, b"17", 1),
    ]


def test_an_operator_moves_it(start: Start) -> None:
    """LOG-8."""
    one = parked_and_deleted(start)
    one.cluster.create_topic("elsewhere", 1, {})
    answers: list[Answer] = []
    command = Command("id", QUEUE.group_id(), 0, "move", {"offsets": [3], "to": "elsewhere"})
    one.group_worker.command(command, answers.append)
    one.run(lambda: bool(answers))
    assert (answers[0].error, answers[0].result["done"]) == ("", [3])
    wait_for_the_delay(one)
    assert one.receive(one.attach("t"), 1) == [17]
    with one.cluster.changed:
        assert one.cluster.log("elsewhere", 0).end > 0


def test_what_is_read_of_the_changelog_alone_is_read_in_portions(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-8, LOG-9."""
    monkeypatch.setattr("jbm_kafka.sidecar.lane.fetching.FED_COUNT", 1)
    parked_and_deleted(start).crash()
    two, link = another(start)
    wait_for_the_delay(two)
    assert sorted(two.receive(link, 2)) == list(HELD)


def test_a_killed_owner_that_had_not_read_all_of_it_loses_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-8."""
    monkeypatch.setattr("jbm_kafka.sidecar.lane.fetching.FED_COUNT", 1)
    parked_and_deleted(start).crash()
    two, _ = another(start)
    two.run(lambda: bool(two.group_worker.data.channels and two.group_worker.data.feeding))
    two.crash()
    three, link = another(start, "three")
    wait_for_the_delay(three)
    assert sorted(three.receive(link, 2)) == list(HELD)


def test_a_channel_that_is_opened_anew_reads_what_is_parked_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-8: while the client still reads the log on."""
    monkeypatch.setattr("jbm_kafka.sidecar.lane.fetching.FED_COUNT", 1)
    one = parked_and_deleted(start)
    one.group_worker.post(lambda: one.group_worker.assignment.read_anew("for a test"))
    link = one.attach("t")
    one.run(lambda: bool(one.group_worker.data.feeding))
    one.send("behind")
    wait_for_the_delay(one)
    assert sorted((each.offset, each.count.attempts) for each in one.deliveries(link, 3)) == [
        *((offset, 1) for offset in HELD),
        (COUNT, 0),
    ]


def test_nothing_is_parked_while_a_member_cannot_read_it(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-8: a process of an older version would find its partition closed."""
    monkeypatch.setattr(EntryKinds, "members_without", lambda *asked: ["process 4711 at worker-3"])
    one = start("one", settings=SETTINGS)
    with_held_messages(one, one.attach("s"))
    one.run_for(LOOKS_MS)
    assert log_begin(one) == HELD[0]


def test_a_record_that_is_too_large_stays_in_the_log(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-8."""
    monkeypatch.setattr("jbm_kafka.sidecar.stages.parked.RECORD_BYTES_MAX", 1)
    one = start("one", settings=SETTINGS)
    link = one.attach("s")
    one.send("ab")
    (delivery,) = one.deliveries(link, 1)
    link.give_back([(delivery, Modified(0, counted=True))])
    one.send(*map(str, range(COUNT)))
    for each in one.deliveries(link, COUNT):
        each.lease.acknowledge(each.offset)
    one.run_for(LOOKS_MS)
    assert log_begin(one) == 0


def test_what_is_parked_keeps_its_time_and_the_kind_of_that(start: Start) -> None:
    """LOG-8: of a topic with LogAppendTime the time is the broker's, and nothing else says so."""
    one = start("one", settings=SETTINGS)
    one.cluster.create_topic(QUEUE.name, 1, {"message.timestamp.type": "LogAppendTime"})
    with_held_messages(one, one.attach("s"))
    one.run_for(LOOKS_MS)
    one.crash()
    two, link = another(start)
    wait_for_the_delay(two)
    stamps = [cast(KafkaRecord, each.reference.record).timestamp() for each in two.deliveries(link, len(HELD))]
    assert [kind for kind, _ in stamps] == [2, 2]
    assert all(at_ms > 0 for _, at_ms in stamps)


COMPANION = companion_of(QUEUE.group_id())
CHANGELOG = QUEUE.changelog_topic()


def number_beside(one: SteppedSidecar) -> CommittedOffset | None:
    """How many messages are parked, as the companion group says."""
    return MemoryKafka(one.cluster).admin().committed(COMPANION, QUEUE.name, [0]).get(0)


def test_how_many_are_parked_is_written_beside_when_it_changes_and_then_only(start: Start) -> None:
    """LOG-11: by the checkpoint that parks or settles them, so a checkpoint costs no request more."""
    one = parked_and_deleted(start)
    parked = number_beside(one)
    assert parked is not None
    assert parked.position == len(HELD)
    one.send("behind")
    one.run_for(1_000)
    link = one.attach("t")
    (behind,) = one.deliveries(link, 1)
    behind.lease.acknowledge(behind.offset)
    one.run_for(1_000)
    assert committed(one) == COUNT + 1
    assert number_beside(one) == parked
    wait_for_the_delay(one)
    for left in (1, 0):
        (delivery,) = one.deliveries(link, 1)
        delivery.lease.acknowledge(delivery.offset)
        one.run_for(1_000)
        now = number_beside(one)
        assert now is not None
        assert now.position == left


def test_nothing_is_written_beside_where_nothing_was_ever_parked(start: Start) -> None:
    """Of LOG-11: no queue has a second group for nothing."""
    one = start("one", settings=SETTINGS)
    link = one.attach("s")
    one.send(*map(str, range(COUNT)))
    for delivery in one.deliveries(link, COUNT):
        delivery.lease.acknowledge(delivery.offset)
    one.run_for(LOOKS_MS)
    assert committed(one) == COUNT
    assert COMPANION not in one.kafka.admin().groups()


def test_a_number_is_written_again_once_an_hour(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-11: a broker forgets offsets of a group without members, and a message may wait for weeks."""
    one = parked_and_deleted(start)
    MemoryKafka(one.cluster).admin().delete_groups([COMPANION])
    one.run_for(20_000)
    assert number_beside(one) is None
    monkeypatch.setattr("jbm_kafka.sidecar.channel.parked_records.AGAIN_MS", 20_000)
    one.run_for(20_000)
    again = number_beside(one)
    assert again is not None
    assert again.position == len(HELD)


def test_a_new_owner_writes_the_number_of_what_an_older_version_had_parked(start: Start) -> None:
    """LOG-11: until then it is unknown."""
    one = parked_and_deleted(start)
    one.crash()
    MemoryKafka(one.cluster).admin().delete_groups([COMPANION])
    two, _ = another(start)
    two.run(lambda: two.cluster.decided_offset(COMPANION, QUEUE.name, 0) is not None)
    now = number_beside(two)
    assert now is not None
    assert (now.position, now.metadata.partition(":")[0]) == (len(HELD), "jbm.two.0")


def test_what_was_parked_was_gone_without_a_word_with_its_changelog(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """LOG-11: nothing of that partition goes on, until somebody accepts the loss."""
    one = parked_and_deleted(start)
    one.crash()
    one.cluster.delete_topic(CHANGELOG)
    two, link = another(start)
    two.send("behind")
    two.run(lambda: bool(two.group_worker.assignment.closed))
    two.run_for(20_000)
    assert not link.buffer
    (closed,) = two.group_worker.assignment.closed.values()
    assert "lacks 2 messages that were parked there" in str(closed)
    assert caplog.text.count("lacks 2 messages that were parked there") == 1
    assert f"delete the group {COMPANION}" in caplog.text
    two.crash()
    MemoryKafka(two.cluster).admin().delete_groups([COMPANION])
    three, link = another(start, "three")
    assert three.receive(link, 1) == [COUNT]


def test_what_was_parked_was_gone_where_the_changelog_was_made_again_a_moment_before_it_moved(start: Start) -> None:
    """LOG-11: its owner had written a checkpoint there, and had not looked whose it is."""
    one = parked_and_deleted(start)
    one.cluster.delete_topic(CHANGELOG)
    one.cluster.create_topic(CHANGELOG, 1, {"cleanup.policy": "compact"})
    link = one.attach("t")
    one.send("behind")
    (behind,) = one.deliveries(link, 1)
    behind.lease.acknowledge(behind.offset)
    one.run(lambda: has_committed(one, COUNT + 1))
    one.crash()
    two, _ = another(start)
    two.run(lambda: bool(two.group_worker.assignment.closed))


def test_a_changelog_that_a_living_owner_writes_anew_has_all_that_was_parked(start: Start) -> None:
    """LOG-7, LOG-11."""
    one = parked_and_deleted(start)
    one.cluster.delete_topic(CHANGELOG)
    one.run_for(15_000)
    one.crash()
    two, link = another(start)
    wait_for_the_delay(two)
    assert sorted(two.receive(link, 2)) == list(HELD)


def test_a_group_that_may_not_be_written_keeps_nothing_else_from_being_recorded(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """LOG-11: rights of before cover the group alone."""
    send_offsets = MemoryTransactionalProducer.send_offsets

    def refuse(self: MemoryTransactionalProducer, metadata: object, group: str, *rest: Any) -> None:
        if group == COMPANION:
            raise TransactionAborted("GROUP_AUTHORIZATION_FAILED")
        send_offsets(self, metadata, group, *rest)

    monkeypatch.setattr(MemoryTransactionalProducer, "send_offsets", refuse)
    one = parked_and_deleted(start)
    assert number_beside(one) is None
    assert caplog.text.count(f"allow Read on the group {COMPANION}") == 1
    checkpoints = one.sidecar.checkpointer.checkpoints
    one.run_for(5_000)
    assert one.sidecar.checkpointer.checkpoints <= checkpoints + 1, "it is not tried for ever"


def test_a_number_whose_checkpoint_failed_is_written_again() -> None:
    """LOG-11: also where it is the one before, for a checkpoint that was taken for failed may have been committed."""
    records = ParkedRecords()
    state = ChannelState()
    taken = freeze(state, topic_id="T", checkpoint_id="jbm.f.0:1", offered_position=0)
    assert records.note(2) == 2
    records.ended(taken, durable=False)
    assert records.must_note(2)
    assert records.must_note(0)
    assert records.note(0) == 0
    records.ended(taken, durable=True)
    assert not records.must_note(0)


def test_what_kafka_left_open_of_a_number_is_ended_with_its_checkpoint(start: Start) -> None:
    """LOG-5, LOG-11: else its group could not be read for good."""
    one = parked_and_deleted(start)
    link = one.attach("t")
    wait_for_the_delay(one)
    (delivery,) = one.deliveries(link, 1)
    one.cluster.faults.forgotten_marks = 1
    delivery.lease.acknowledge(delivery.offset)
    one.run(lambda: one.cluster.faults.forgotten_marks == 0)
    silent_since_ms = one.clock.monotonic_ms()
    group = QUEUE.group_id()
    one.cluster.expire_member(group, next(iter(one.cluster.group(group).members)))
    before = one.group_worker.data.channels[0]
    one.run(lambda: one.group_worker.data.channels.get(0) is not before)
    assert not one.cluster.is_stable(COMPANION, QUEUE.name, 0)
    one.sidecar.checkpointer.schedule.note_back(silent_since_ms)
    one.run(lambda: one.cluster.is_stable(COMPANION, QUEUE.name, 0))
    now = number_beside(one)
    assert now is not None
    assert now.position == 1
