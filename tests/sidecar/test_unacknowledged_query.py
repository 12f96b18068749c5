"""What is in hand is answered by owners; without an answer it is as if nobody asked."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.browsing import unacknowledged_offsets as hand
from jbm_kafka.browsing import unacknowledged_query as hands
from jbm_kafka.browsing.browse import browse
from jbm_kafka.browsing.unacknowledged_offsets import UnacknowledgedOffsets
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.codec.command_records import IN_HAND
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import GroupConsumer, Kafka, Outgoing
from jbm_kafka.registry import command_client as conversation
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.lane.own_partitions import WorkerPartitions
from tests.jms.support import Aside, eventually
from tests.kafka.world import send_all
from tests.sidecar.parts import link_of
from tests.sidecar.processes import Processes
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

QUEUE = Queue("orders")
GROUP = ChannelGroup.of_queue(QUEUE, namespace="")
OFFSETS = st.frozensets(st.integers(0, 300) | st.integers(2**40, 2**40 + 300))


@given(OFFSETS, OFFSETS)
def test_an_answer_says_what_was_in_hand(delivered: frozenset[int], leaving: frozenset[int]) -> None:
    answer = json.loads(json.dumps(hand.to_answer(UnacknowledgedOffsets(delivered, leaving))))
    assert hand.from_answer(answer) == UnacknowledgedOffsets(delivered, leaving)


def test_an_answer_fits_a_record_however_much_is_in_hand() -> None:
    worst = frozenset(range(2**40, 2**40 + 3 * hand.OFFSETS_MAX, 2))
    answer = json.dumps(hand.to_answer(UnacknowledgedOffsets(worst)))
    assert len(answer) < 1_000_000
    assert len(hand.from_answer(json.loads(answer)).delivered) == hand.OFFSETS_MAX


class NoListener:
    """A member of a group that never says anything."""

    def on_assigned(self, partitions: object) -> dict[int, int]:
        return {}

    def on_revoked(self, partitions: object) -> None:
        return None

    def on_lost(self, partitions: object) -> None:
        return None


def with_member(kafka: Kafka) -> GroupConsumer:
    consumer = kafka.group_consumer(
        group=GROUP.group_id,
        topic=QUEUE.name,
        partitions=1,
        listener=NoListener(),
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        memory_bytes=1_000_000,
    )
    consumer.consume(1, 0.01)
    return consumer


@pytest.fixture
def kafka() -> MemoryKafka:
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=1, config={})
    send_all(kafka, [Outgoing(QUEUE.name, 0, None, b"a")])
    return kafka


def shown(kafka: MemoryKafka) -> list[tuple[MessageState, bool]]:
    looking = UnacknowledgedQuery(kafka, namespace="", ours=None)
    found = browse(kafka, GROUP, now_ms=500, hands=looking, include_all=True)
    return [(seen.state, seen.is_deliverable) for seen in found]


AS_IF_IT_WAITED = [(MessageState.NEW, True)]


def test_nobody_is_asked_where_nobody_receives(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert shown(kafka) == AS_IF_IT_WAITED
    assert caplog.messages == []
    assert "jbm.commands" not in kafka.admin().topic_names()


def test_an_owner_who_does_not_answer_is_not_waited_for_for_ever(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of UNIT-13: one that is frozen, or older than the question."""
    monkeypatch.setattr(hands, "OTHERS_TIMEOUT_S", 0.3)
    with_member(kafka)
    kafka.admin().create_topic("jbm.commands", partitions=1, config={})
    with caplog.at_level(logging.WARNING):
        assert shown(kafka) == AS_IF_IT_WAITED
    (line,) = caplog.messages
    assert "queue:orders: what receivers have in hand of partition 0 is not known" in line
    assert "did not answer within 0.3 s" in line


def test_who_browsed_a_frozen_process_waited_without_a_word(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of UNIT-13: for whom it waits, and how long at most, is logged while it does."""
    monkeypatch.setattr(hands, "OTHERS_TIMEOUT_S", 0.3)
    monkeypatch.setattr(conversation, "ASK_AGAIN_S", 0.1)
    with_member(kafka)
    kafka.admin().create_topic("jbm.commands", partitions=1, config={})
    (frozen,) = kafka.admin().members(GROUP.group_id, QUEUE.name)
    lines: list[str] = []
    looking = UnacknowledgedQuery(kafka, namespace="", ours=None, tell=lines.append)
    with caplog.at_level(logging.WARNING):
        assert looking.of(GROUP, [0], kafka.admin()) == {}
    assert lines == [
        f"queue:orders: waits for {frozen.name}, which has partition 0 and did not answer yet; 1 s more at most"
    ]
    (line,) = caplog.messages
    assert line.endswith(f"{frozen.name} did not answer within 0.3 s")


def test_a_process_that_was_put_out_while_it_was_asked_was_said_to_have_something_in_hand(
    kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of UNIT-13."""
    monkeypatch.setattr(hands, "OTHERS_TIMEOUT_S", 0.3)
    monkeypatch.setattr(conversation, "ASK_AGAIN_S", 0.1)
    killed = with_member(kafka)
    kafka.admin().create_topic("jbm.commands", partitions=1, config={})
    looking = UnacknowledgedQuery(kafka, namespace="", ours=None, tell=lambda text: killed.close())
    with caplog.at_level(logging.WARNING):
        looking.of(GROUP, [0], kafka.admin())
    (line,) = caplog.messages
    assert "the group has put it out meanwhile: what it had in hand of partition 0 waits again" in line


def test_whom_a_group_that_shares_its_partitions_may_still_have_is_not_named() -> None:
    line = conversation.waited_for([], [5, 3], 1.2)
    assert line == (
        "waits for whoever may still have partitions 3, 5, which the group is giving to others; 2 s more at most"
    )


def test_nobody_is_asked_of_a_partition_that_the_only_receiver_has_not_got_yet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of UNIT-13: while it is given partitions, or more are added; it waited 5 s for its own answer, and warned."""
    processes = Processes()
    _, only = processes.start()
    try:
        link = link_of("s")
        worker = link.group_worker = only.sources.attach(QUEUE, link)
        eventually(lambda: worker.is_settled, "the consumer is not served")
        ours = WorkerPartitions(lambda: only.sources.group_worker_of(QUEUE))
        looking = UnacknowledgedQuery(MemoryKafka(processes.cluster), namespace="", ours=ours)
        with caplog.at_level(logging.WARNING):
            found = looking.of(GROUP, [0, 1, 2], MemoryKafka(processes.cluster).admin())
        assert sorted(found) == [0, 1]
        assert "is not known" not in caplog.text
    finally:
        processes.close()


def test_what_was_acknowledged_just_now_was_shown_as_if_it_waited() -> None:
    """UNIT-13: it is in no hand any more, and in no changelog before the next checkpoint, which is not due."""
    processes = Processes()
    kafka, only = processes.start(checkpoint_interval_ms=60_000)
    try:
        link = link_of("s")
        worker = link.group_worker = only.sources.attach(QUEUE, link)
        eventually(lambda: worker.is_settled, "the consumer is not served")
        send_all(kafka, [Outgoing(QUEUE.name, 0, None, b"a")])
        link.request(1)
        eventually(lambda: len(link.buffer) > 0, "nothing came")
        taken = link.pop()
        assert taken is not None
        taken.lease.acknowledge(taken.offset)
        ours = WorkerPartitions(lambda: only.sources.group_worker_of(QUEUE))
        looking = UnacknowledgedQuery(kafka, namespace="", ours=ours)
        found = browse(kafka, GROUP, now_ms=500, hands=looking, include_all=True)
        assert [seen.state for seen in found] == []
    finally:
        processes.close()


def test_a_browser_asked_the_group_worker_that_was_there_when_it_began() -> None:
    """UNIT-13: the last receiver left while Kafka was asked for the partitions, and another came. The browser waited
    10 s for a group worker that had ended, and failed; of the next one it would not have asked what it has in hand."""
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    link = process.attach("s")
    ours = WorkerPartitions(lambda: process.sidecar.sources.group_worker_of(QUEUE))
    process.send("a")
    process.run(lambda: process.group_worker.is_settled)
    link.leave()
    process.run(lambda: not process.group_worker.is_alive)
    assert (ours.memberships, ours.unacknowledged()) == (0, {})
    next_link = process.attach("t")
    assert process.receive(next_link, 1) == [0]
    found: list[object] = []
    asking = Aside(lambda: found.append(ours.unacknowledged()))
    process.run(lambda: not asking.is_running)
    assert found == [{0: UnacknowledgedOffsets(frozenset([0]))}]
    assert ours.memberships == 1
    process.crash()


def test_who_cannot_ask_is_told_why(kafka: MemoryKafka, caplog: pytest.LogCaptureFixture) -> None:
    """Of UNIT-13: here the topic for commands is missing; on a cluster it may be the right to write there."""
    with_member(kafka)
    with caplog.at_level(logging.WARNING):
        assert shown(kafka) == AS_IF_IT_WAITED
    (line,) = caplog.messages
    assert "jbm.commands" in line


def test_looking_is_no_line_in_the_owners_log() -> None:
    """A monitor that browses every few seconds would fill it."""
    from jbm_kafka.codec.command_records import QUESTIONS

    assert IN_HAND in QUESTIONS
