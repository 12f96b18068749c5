"""`jbm-kafka explain`: who has it, since when, and which rule holds it."""

import json
import os
import platform
import subprocess
import time
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.core.process_names import process_name
from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.java import find_java
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset, Outgoing
from tests.admin.test_explain_transactions import ConfluentKafkaWriter
from tests.cli.conftest import Run
from tests.jms.support import eventually, receive
from tests.kafka.world import consume_until, member
from tests.support.kafka_tool import reset_offsets

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def test_who_has_a_unit_is_told(kafka: Run, queue: str, bootstrap: str) -> None:
    """UNIT-17."""
    kafka("send", queue, "--text", "1", "--unit", "joe")
    kafka("send", queue, "--text", "2", "--unit", "joe")
    said = kafka("explain", queue)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[1:3] == ["nobody receives", "  start a receiver"]
    with ConnectionFactory(bootstrap, client_id=f"billing-{queue}").create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        consumer = session.create_consumer(Queue(queue))
        message = receive(consumer)
        said = kafka("explain", queue, "--unit", "joe")
        lines = said.out.splitlines()
        assert lines[0] == f"queue:{queue}: 1 process receives, consumer group {Queue(queue).group_id()}"
        assert lines[1].startswith("unit joe: partition ")
        assert lines[1].endswith(" UTC, 1 behind it")
        assert lines[2].startswith("  it is in the hand of ")
        assert f"(CLIENT) of client 'billing-{queue}' in process " in lines[2]
        values = json.loads(kafka("explain", f"queue:{queue}", "--id", str(message.message_id), "--json").out)
        (found,) = values["messages"]
        assert (found["message_id"], found["reasons"][0]["rule"]) == (message.message_id, "in-hand")
        assert [each["client_id"] for each in values["receivers"]] == [f"billing-{queue}"]
        said = kafka("explain", queue)
        assert any(line.startswith("partition ") and "1 in-hand" in line for line in said.out.splitlines())
        assert (
            said.out.splitlines()[-1]
            .rpartition(": ")[2]
            .startswith("1 message in hand, 0 of them unread; works on what it has; last asked ")
        )
        message.acknowledge()


def test_an_empty_queue_needs_no_receiver(kafka: Run, queue: str) -> None:
    assert "start a receiver" not in kafka("explain", queue).out


def test_what_a_transaction_hides_was_said_to_be_nothing(kafka: Run, queue: str, bootstrap: str) -> None:
    """UNIT-4: explain began with "nothing is held", and browse said "no messages" and no more."""
    with ConfluentKafkaWriter(bootstrap, f"{queue}-shipping") as foreign:
        foreign.write(Outgoing(queue, 0, b"ann", b"foreign"))
        lines = kafka("explain", queue).out.splitlines()
        assert "nothing that waits can be read yet" in lines
        assert "nothing is held" not in lines
        said = kafka("browse", queue)
        assert (said.code, said.out) == (0, f"queue:{queue}: no messages\n")
        assert said.err == (
            "1 record waits for the end of a Kafka transaction, and cannot be read before; "
            f"jbm-kafka explain {queue} tells whose\n"
        )
        said = kafka("explain", queue, "--unit", "ann")
        assert said.out.count("for the end of a Kafka transaction") == 1, "it was told of the unit and its partition"
    assert "nothing is held" in kafka("explain", queue).out.splitlines()


def test_a_checkpoint_that_is_left_open_is_told_soon(kafka: Run, queue: str, bootstrap: str) -> None:
    """UNIT-17: it took 30 s, and then "0 held"."""
    group = Queue(queue).group_id()
    kafka("send", queue, "--text", "1")
    with ConfluentKafkaWriter(bootstrap, f"{queue}-died") as died:
        died.hold(group, queue, {0: CommittedOffset(0, "")})
        began_s = time.monotonic()
        said = kafka("explain", queue)
        assert time.monotonic() - began_s < 12
        assert (
            "what is held cannot be read now: a process that died has, most likely, left a checkpoint open" in said.out
        )
    assert "cannot be read" not in kafka("explain", queue).out


def test_what_is_not_held_is_told_in_one_line(kafka: Run, queue: str) -> None:
    """With 1, as every command that finds nothing of what was named."""
    said = kafka("explain", queue, "--unit", "eve")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith(f"jbm-kafka: queue:{queue}: nothing of that is held: ")
    said = kafka("explain", queue, "--unit", "eve", "--older-than", "60", "--json")
    assert (said.code, json.loads(said.out)["messages"]) == (1, [])
    assert f"queue:{queue}: of what was sent more than 60 s ago, nothing of that is held: " in said.err
    said = kafka("explain", f"topic:{queue}")
    assert (said.code, said.err.count("\n")) == (1, 1)
    said = kafka("explain", queue, "--subscription", "audit")
    assert said.code == 1
    assert "leave that out" in said.err


def test_a_process_that_does_not_answer_was_waited_for_without_a_word(
    kafka: Run, queue: str, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    """UNIT-17, UNIT-13: for whom it waits and how long at most is told meanwhile, beside the answer."""
    kafka("send", queue, "--text", "1", "--unit", "joe")
    frozen = member(ConfluentKafka(bootstrap), Queue(queue).group_id(), queue, partitions=2)
    consume_until(lambda: bool(frozen.assignment()), frozen)
    name = process_name(platform.node(), os.getpid())
    said = kafka("explain", queue, "--unit", "joe", "--timeout", "3")
    assert said.out.splitlines()[0].startswith(
        f"queue:{queue}: 1 process receives (it did not answer), consumer group "
    )
    assert said.err.startswith(f"queue:{queue}: waits for {name}, which has partition ")
    assert said.err.endswith(" and did not answer yet; 1 s more at most (--timeout)\n")
    said = kafka("browse", queue)
    assert said.err.startswith(f"queue:{queue}: waits for {name}, which has partition ")
    assert caplog.messages[-1].endswith(f"is shown as if it waited: {name} did not answer within 5 s")
    frozen.close()


def test_a_reset_is_undone_by_the_command_that_explain_prints(
    kafka: Run, queue: str, bootstrap: str, tmp_path: Path
) -> None:
    """Of LOG-2: nothing was said of it before a worker delivered everything again."""
    for number in range(9):
        kafka("send", queue, "--text", str(number), "--unit", f"unit {number}")
    assert kafka("receive", queue, "--count", "9").out.count("\n") == 9
    group = Queue(queue).group_id()
    eventually(
        lambda: "Assignments can" not in reset_offsets(bootstrap, group, queue, "--to-earliest"),
        "the group has members still",
    )
    reset, undo, *rest = kafka("explain", queue).out.splitlines()[1:]
    assert reset.endswith("goes by that: again comes what was delivered of partitions 0-1 from 0 on")
    assert rest[0] == "nobody receives"
    assert "  start a receiver" not in rest, "and nobody was to receive before it is undone"
    assert "printf" in undo, "the partitions hold as many messages: send others"
    tool = f'kafka-consumer-groups.sh() {{ {find_java()} -cp "{ensure_jars()}/*" {TOOL} "$@"; }}\n'
    subprocess.run(["bash", "-c", tool + undo.partition("receives: ")[2]], cwd=tmp_path, check=True)
    lines = kafka("explain", queue).out.splitlines()
    assert (lines[1], "nothing is held" in lines) == ("nobody receives", True)
