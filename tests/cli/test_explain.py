"""`jbm-kafka explain`: who has it, since when, and which rule holds it."""

import json

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import World
from tests.cli.conftest import Run
from tests.jms.support import receive
from tests.kafka.world import consume_until, member

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def test_who_has_a_unit_is_told(cli: Run, queue: str, url: str) -> None:
    """UNIT-17."""
    cli("send", queue, "--text", "1", "--unit", "joe")
    cli("send", queue, "--text", "2", "--unit", "joe")
    said = cli("explain", queue)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[1:3] == ["nobody receives", "  start a receiver"]
    with ConnectionFactory(url, client_id=f"billing-{queue}").create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        consumer = session.create_consumer(Queue(queue))
        message = receive(consumer)
        said = cli("explain", queue, "--unit", "joe")
        lines = said.out.splitlines()
        assert lines[0] == f"queue:{queue}: 1 process receives, consumer group {Queue(queue).group_id()}"
        assert lines[1].startswith("unit joe: partition ")
        assert lines[1].endswith(" UTC, 1 behind it")
        assert lines[2].startswith("  it is in the hand of ")
        assert f"(CLIENT) of client 'billing-{queue}' in process " in lines[2]
        values = json.loads(cli("explain", f"queue:{queue}", "--id", str(message.message_id), "--json").out)
        (found,) = values["messages"]
        assert (found["message_id"], found["reasons"][0]["rule"]) == (message.message_id, "in-hand")
        assert [each["client_id"] for each in values["receivers"]] == [f"billing-{queue}"]
        said = cli("explain", queue)
        assert any(line.startswith("partition ") and "1 in-hand" in line for line in said.out.splitlines())
        assert "1 in hand, 0 unread; at work for " in said.out.splitlines()[-1]
        message.acknowledge()


def test_an_empty_queue_needs_no_receiver(cli: Run, queue: str) -> None:
    assert "start a receiver" not in cli("explain", queue).out


def test_what_a_transaction_hides_was_said_to_be_nothing(cli: Run, queue: str, world: World) -> None:
    """UNIT-4: explain began with "nothing is held", and browse said "no messages" and no more."""
    foreign = MemoryKafka(world.cluster).transactional_producer("shipping", transaction_timeout_ms=60_000)
    foreign.initialise(20)
    foreign.begin()
    foreign.produce(Outgoing(queue, 0, b"ann", b"foreign"))
    lines = cli("explain", queue).out.splitlines()
    assert "nothing is held" not in lines
    said = cli("browse", queue)
    assert (said.code, said.out) == (0, f"queue:{queue}: no messages\n")
    assert said.err == (
        "1 record waits for the end of a Kafka transaction, and cannot be read before; "
        f"jbm-kafka explain {queue} tells whose\n"
    )
    said = cli("explain", queue, "--unit", "ann")
    assert said.out.count("for the end of a Kafka transaction") == 1, "it was told of the unit and its partition"
    foreign.abort(20)
    foreign.close()
    assert "nothing is held" in cli("explain", queue).out.splitlines()


def test_what_is_not_held_is_told_in_one_line(cli: Run, queue: str) -> None:
    """With 1, as every command that finds nothing of what was named."""
    said = cli("explain", queue, "--unit", "eve")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"jbm-kafka: queue:{queue}: nothing of that is held: ")
    said = cli("explain", queue, "--unit", "eve", "--older-than", "60", "--json")
    assert (said.code, json.loads(said.out)["messages"]) == (1, [])
    said = cli("explain", f"topic:{queue}")
    assert (said.code, said.err.count("\n")) == (1, 1)
    said = cli("explain", queue, "--subscription", "audit")
    assert said.code == 1
    assert "only topics have subscriptions" in said.err


def test_a_process_that_does_not_answer_was_waited_for_without_a_word(
    cli: Run, queue: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """UNIT-17, UNIT-13: for whom it waits and how long at most is told meanwhile, beside the answer."""
    cli("send", queue, "--text", "1", "--unit", "joe")
    frozen = member(MemoryKafka(world.cluster), Queue(queue).group_id(), queue, partitions=2)
    consume_until(lambda: bool(frozen.assignment()), frozen)
    said = cli("explain", queue, "--unit", "joe", "--timeout", "3")
    assert said.out.splitlines()[0].startswith(f"queue:{queue}: 1 process receives (1 did not answer), consumer group ")
    assert said.err.startswith(f"queue:{queue}: waits for ")
    assert said.err.endswith(" and did not answer yet; 1 s more at most (--timeout)\n")
    said = cli("browse", queue)
    assert said.err.startswith(f"queue:{queue}: waits for ")
    assert caplog.messages[-1].endswith(" did not answer within 5 s")
    frozen.close()
