"""Copies of messages that leave for another address, tried until they are written: over an in-memory Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.codec.dead_letter import origin_of
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.registry.readers import is_kept
from tests.sidecar.parts import link_of
from tests.sidecar.stepped import CHECKPOINTS, QUEUE, SteppedSidecar
from tests.support.manual_clock import ManualClock

DLQ = "DLQ"
DLQ_BYTES_MAX = 3_000
LARGE = 3_000_000


@pytest.fixture
def cluster() -> MemoryCluster:
    made = MemoryCluster(ManualClock(), waits=False)
    config = {"max.message.bytes": str(DLQ_BYTES_MAX), "compression.type": "uncompressed"}
    made.create_topic(DLQ, 1, config)  # by somebody else: nobody makes it larger
    return made


@pytest.fixture
def process(cluster: MemoryCluster) -> Iterator[SteppedSidecar]:
    made = SteppedSidecar("one", cluster, settings=AddressSettings(max_delivery_attempts=1))
    yield made
    made.crash()


def test_a_copy_that_compression_was_to_make_fit_goes_without_its_body_when_it_is_refused(
    process: SteppedSidecar, cluster: MemoryCluster
) -> None:
    """Of REDELIVER-4: the next try counts on no compression. Else it is refused for ever, and its unit waits. The
    original is kept by the topic's whole id: with what stands before its first slash truncation did not know it.

    This topic keeps nothing compressed, as one whose producer's compression did less than judged.
    """
    link = process.attach("s")
    process.send("x" * 2 * DLQ_BYTES_MAX, "next of the unit", unit=b"u")
    link.demand.credit = 1
    process.run(lambda: bool(link.buffer))
    refused = link.pop()
    assert refused is not None
    link.give_back([(refused, Modified(refused.offset, counted=True))])
    assert process.receive(link, 1) == [refused.offset + 1], "its unit goes on"
    letters = cluster.log(DLQ, 0)
    records, _ = letters.read(letters.begin, 2, committed_only=True)
    assert [(record.key(), record.value()) for record in records] == [(b"u", None)]
    process.sidecar.destinations._registry.refresh()
    kept = process.sidecar.destinations._registry.values()
    assert is_kept(kept, QUEUE.name, cluster.topics[QUEUE.name].topic_id, 0, refused.offset)


def test_a_dead_letter_topic_deleted_again_and_again_is_made_anew_as_large_as_it_was(
    process: SteppedSidecar, cluster: MemoryCluster
) -> None:
    """Of REDELIVER-4: what was known of it stayed known, each copy was refused, and their units waited for ever."""
    cluster.delete_topic(DLQ)
    cluster.create_topic(DLQ, 1, {"max.message.bytes": str(LARGE)})
    link = process.attach("s")
    process.send("first", "second", "third")
    for offset, body in enumerate((b"first", b"second", b"third")):
        link.demand.credit = 1
        process.run(lambda: bool(link.buffer))
        failed = link.pop()
        assert failed is not None
        assert failed.offset == offset
        if offset > 0:
            cluster.delete_topic(DLQ)
        link.give_back([(failed, Modified(offset, counted=True))])
        process.run(
            lambda: not process.group_worker.data.channels[0].state.in_hand and not process.group_worker.data.credit()
        )
        process.run_for(5_000)
        letters = cluster.log(DLQ, 0)
        records, _ = letters.read(letters.begin, 3, committed_only=True)
        assert [record.value() for record in records] == [body]
    assert int(cluster.topics[DLQ].config["max.message.bytes"]) == LARGE


def test_what_could_not_be_moved_goes_to_the_receiver_whose_selector_chooses_it(cluster: MemoryCluster) -> None:
    """Of SEL-2, UNIT-14: it waited again without anybody having been asked, and nobody ever got it."""
    process = SteppedSidecar("one", cluster)
    link = link_of("s", parse_selector("region = 'EU'"))
    process.sidecar.claims.selector_sets.use(QUEUE, "region = 'EU'")
    link.group_worker = process.sidecar.sources.attach(QUEUE, link)
    link.is_attached = True
    process.run(lambda: 0 in process.group_worker.data.channels)
    process.send("a", headers=[("jms.string.region", b"EU")])
    process.send("b", headers=[("jms.string.region", b"US")])
    process.run(lambda: len(process.group_worker.data.channels[0].state.unsettled) == 2)
    cluster.create_topic("parked", 1, {})
    cluster.faults.refuse = lambda record: "Invalid record" if record.topic == "parked" else None
    answers: list[Answer] = []
    command = Command("id", QUEUE.group_id(), 0, "move", {"offsets": [0, 1], "to": "parked"})
    process.group_worker.command(command, answers.append)
    process.run(lambda: bool(answers))
    assert "Invalid record" in answers[0].error
    assert process.receive(link, 1) == [0]
    link.demand.credit = 1
    process.run_for(500)
    assert not link.buffer, "the other is chosen by nobody"
    process.crash()


def test_a_letter_that_an_operator_made_tells_how_often_its_message_was_tried(cluster: MemoryCluster) -> None:
    """Of REDELIVER-4."""
    process = SteppedSidecar("one", cluster)
    link = process.attach("s")
    process.send("a")
    link.demand.credit = 1
    process.run(lambda: bool(link.buffer))
    failed = link.pop()
    assert failed is not None
    link.give_back([(failed, Modified(0, counted=True))])
    answers: list[Answer] = []
    process.run(lambda: not process.group_worker.data.channels[0].state.in_hand)
    command = Command("id", QUEUE.group_id(), 0, "dead-letter", {"offsets": [0]})
    process.group_worker.command(command, answers.append)
    process.run(lambda: bool(answers))
    assert answers[0].result["done"] == [0]
    ((record,), _) = cluster.log(DLQ, 0).read(0, 1, committed_only=True)
    assert origin_of(record.headers()).delivery_count == 1
    process.crash()


def test_why_a_copy_cannot_leave_is_logged_without_its_unit(
    process: SteppedSidecar, cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The line went on with what a sender is told: `and unit 'joe' is in it and goes nowhere else`."""
    link = process.attach("s")
    process.send("x", unit=b"joe")
    cluster.faults.leaderless = frozenset({(DLQ, 0)})
    link.demand.credit = 1
    process.run(lambda: bool(link.buffer))
    refused = link.pop()
    assert refused is not None
    link.give_back([(refused, Modified(refused.offset, counted=True))])
    process.run(lambda: "cannot leave for DLQ" in caplog.text)
    assert "its unit is in it" in caplog.text
    assert "joe" not in caplog.text


def moves(process: SteppedSidecar, *commands: Command) -> list[Answer]:
    """What the owner says to moves that come in the same turn, in the order of its answers."""
    answers: list[Answer] = []
    for command in commands:
        process.group_worker.command(command, answers.append)
    process.run(lambda: len(answers) == len(commands))
    return answers


def move_of(*offsets: int, partition: int = 0) -> Command:
    arguments = {"offsets": offsets, "to": "parked"}
    return Command(f"move {offsets} of {partition}", QUEUE.group_id(), partition, "move", arguments)


def bodies_at(cluster: MemoryCluster, topic: str) -> list[bytes | None]:
    log = cluster.log(topic, 0)
    return [record.value() for record in log.read(log.begin, 10, committed_only=True)[0]]


def test_a_move_that_comes_with_another_passes_nothing_that_could_not_be_moved(cluster: MemoryCluster) -> None:
    """Of UNIT-14, UNIT-1: of a unit the later message was moved, and the earlier one waited where it had been."""
    process = SteppedSidecar("one", cluster)
    process.attach("s")
    process.run(lambda: 0 in process.group_worker.data.channels)
    process.send("first", "second", unit=b"u")
    process.run(lambda: len(process.group_worker.data.channels[0].state.unsettled) == 2)
    cluster.create_topic("parked", 1, {})
    refusals = ["too odd"]
    cluster.faults.refuse = lambda record: refusals.pop() if record.topic == "parked" and refusals else None
    failed, moved = moves(process, move_of(0), move_of(0, 1))
    assert "too odd" in failed.error
    assert (moved.result["done"], moved.result["gone"]) == ([0, 1], [])
    assert bodies_at(cluster, "parked") == [b"first", b"second"]
    process.crash()


def test_two_moves_that_come_together_are_both_carried_out_and_each_is_answered_again(cluster: MemoryCluster) -> None:
    """Of UNIT-14: of the same partition one after the other, of another at once; who asks again hears the same."""
    process = SteppedSidecar("one", cluster, partitions=2)
    process.attach("s")
    process.run(lambda: len(process.group_worker.data.channels) == 2)
    for partition in range(2):
        process.send("a", "b", partition=partition)
    channels = process.group_worker.data.channels
    process.run(lambda: all(len(channel.state.unsettled) == 2 for channel in channels.values()))
    cluster.create_topic("parked", 1, {})
    asked = [move_of(0), move_of(1), move_of(0, partition=1)]
    done = {answer.id: answer.result["done"] for answer in moves(process, *asked)}
    assert [done[each.id] for each in asked] == [[0], [1], [0]]
    assert bodies_at(cluster, "parked") == [b"a", b"a", b"b"], "one partition waited for the other"
    again = moves(process, move_of(1), move_of(0, partition=1))
    assert [answer.result["done"] for answer in again] == [[1], [0]]
    assert len(bodies_at(cluster, "parked")) == 3
    process.crash()


def test_who_asks_again_for_a_move_that_is_on_its_way_is_not_told_that_nothing_was_there(
    cluster: MemoryCluster,
) -> None:
    """Of UNIT-14: an answer was late, so the command came a second time."""
    process = SteppedSidecar("one", cluster)
    process.attach("s")
    process.run(lambda: 0 in process.group_worker.data.channels)
    process.send("a")
    state = process.group_worker.data.channels[0].state
    process.run(lambda: bool(state.unsettled))
    cluster.create_topic("parked", 1, {})
    process.held.add(CHECKPOINTS)
    answers: list[Answer] = []
    process.group_worker.command(move_of(0), answers.append)
    process.run(lambda: DEPARTING in state.in_hand)
    process.group_worker.command(move_of(0), answers.append)
    process.run_for(500)
    process.held.clear()
    process.run(lambda: bool(answers))
    process.run_for(500)
    assert [answer.result["done"] for answer in answers] == [[0]]
    process.crash()
