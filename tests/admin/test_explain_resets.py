"""A reset of a group's offsets is told before anybody receives by it, on Kafka and in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Explanation, Rule
from jbm_kafka.admin.explain.reasons import offsets_reset
from jbm_kafka.core.channel.entries import OffsetRange
from jbm_kafka.core.channel.start_position import Reset
from jbm_kafka.ports import CommittedOffset, GroupFenced
from jbm_kafka.registry.channel_group import ChannelGroup
from tests.jms.support import eventually, receive, receive_all, send

GROUP = ChannelGroup.of_queue(Queue("orders"), namespace="")


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    admin.create_queue(kafka_name, partitions=1)
    return ConnectionFactory(url, namespace=kafka_name, address_settings={"#": AddressSettings(partitions=1)})


def reset(admin: Admin, queue: Queue, group: str, position: int) -> None:
    """As Kafka's tool does it; who has just closed may be a member still."""

    def is_done() -> bool:
        try:
            admin._core.admin.alter_offsets(group, queue.name, {0: CommittedOffset(position, "")})
        except GroupFenced:
            return False
        return True

    eventually(is_done, "the group has members still")


def rules(found: Explanation) -> list[Rule]:
    return [each.rule for each in found.reasons]


def test_a_reset_was_not_told_before_messages_came_twice(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of LOG-2: "start a receiver" was all the advice."""
    queue = Queue(kafka_name)
    with factory.create_connection() as connection, connection.create_session() as session:
        send(session, queue, "a", "b", unit="joe")
        receive_all(session.create_consumer(queue), 2)
    done = admin.explain(queue)
    assert rules(done) == [Rule.NOBODY_RECEIVES]
    reset(admin, queue, done.group, 0)
    found = admin.explain(queue)
    assert rules(found) == [Rule.OFFSETS_RESET, Rule.NOBODY_RECEIVES]
    why = found.reasons[0]
    assert why.text.endswith(": again comes what was delivered of partition 0 from 0 on")
    assert f" --group {done.group} --reset-offsets --execute --topic {kafka_name}:0 --to-offset " in why.remedy
    reset(admin, queue, done.group, int(why.remedy.rpartition(" ")[2]))
    assert rules(admin.explain(queue)) == [Rule.NOBODY_RECEIVES], "it was undone"


def test_a_message_that_a_reset_skips_was_said_never_to_have_been_there(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of LOG-2: whatever is asked about, the reset is named with what it skips."""
    queue = Queue(kafka_name)
    with factory.create_connection() as connection, connection.create_session(AcknowledgeMode.INDIVIDUAL) as session:
        send(session, queue, "done", "left", "left too", unit="joe")
        receive(session.create_consumer(queue, prefetch=1)).acknowledge()
    group = admin.explain(queue).group
    first, last = admin.browse(queue, include="all")
    assert last.kafka is not None
    reset(admin, queue, group, last.kafka.offset + 1)
    found = admin.explain(queue, message_id=first.message_id)
    assert rules(found) == [Rule.NOT_HELD, Rule.OFFSETS_RESET, Rule.NOBODY_RECEIVES]
    assert "never comes what was not settled of partition 0 from " in found.reasons[1].text
    with factory.create_connection() as connection, connection.create_session() as session:
        consumer = session.create_consumer(queue)
        send(session, queue, "next")
        assert receive(consumer).body == "next"
        assert Rule.OFFSETS_RESET not in rules(admin.explain(queue)), "a receiver has begun there, as its log says"


@pytest.mark.parametrize(
    ("resets", "effect", "undo"),
    [
        pytest.param(
            {place: Reset(0, 17, None, comes_again=True) for place in range(16)},
            "again comes what was delivered of partitions 0-15 from 0 on",
            "--topic orders:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 --to-offset 17",
            id="all alike",
        ),
        pytest.param(
            {
                3: Reset(30, 20, OffsetRange(20, 29), comes_again=True),
                0: Reset(5, 9, None, comes_again=True),
                2: Reset(9, None, OffsetRange(0, 8), comes_again=False),
            },
            "again comes what was delivered of partition 0 from 5 on, partition 3 from 30 on; "
            "never comes what was not settled of partition 2 from 0 to 8, partition 3 from 20 to 29",
            "--from-file before.csv",
            id="some back, some on",
        ),
        pytest.param(
            {0: Reset(9, 9, None, comes_again=True)},
            "again comes what was delivered of partition 0 from 9 on",
            "",
            id="to where it was: that is no way back",
        ),
    ],
)
def test_however_many_partitions_were_reset_one_line_tells_it(
    resets: Mapping[int, Reset], effect: str, undo: str
) -> None:
    reason = offsets_reset(resets, GROUP, "broker:9092")
    assert reason.text.endswith(f": {effect}")
    assert reason.remedy.endswith(undo)
    assert bool(reason.remedy) == bool(undo)
    if "csv" in undo:
        assert "printf '%s\\n' orders,0,9 orders,3,20 > before.csv; kafka-consumer-groups.sh " in reason.remedy
