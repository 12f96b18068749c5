"""What needs a real broker: commands in processes of their own, which are interrupted, and one of Kafka's own tools."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Pause
from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.java import find_java
from tests.cli.conftest import Run
from tests.jms.support import eventually
from tests.support.kafka_tool import reset_offsets
from tests.support.topics import delete_topics_beginning_with
from tests.support.waiting import wait_until

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def url(bootstrap: str, kafka_name: str) -> Iterator[str]:
    """The tests' broker."""
    yield bootstrap
    delete_topics_beginning_with(bootstrap, kafka_name)


def begin(url: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jbm_kafka", *arguments, "--bootstrap", url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_send_that_is_interrupted_tells_how_far_it_came(cli: Run, queue: str, url: str) -> None:
    """It said "interrupted" below an empty line, and nobody knew which of the lines were sent."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with begin(url, "send", queue, "--lines", "-") as sending:
            assert sending.stdin is not None
            sending.stdin.write("1\n2\n3\n")
            sending.stdin.flush()
            assert cli("receive", queue, "--count", "3", "--timeout", "60").code == 0
            sending.send_signal(number)
            _, said = sending.communicate()
        assert (sending.returncode, said) == (1, f"jbm-kafka: interrupted: the first 3 were sent to queue:{queue}\n")


def test_an_interrupted_pause_is_told_as_one_that_may_hold(cli: Run, queue: str, url: str) -> None:
    """It said "interrupted" alone, and nobody could send any more."""
    with begin(url, "pause", queue) as pausing:
        with Admin(url) as admin:
            wait_until(lambda: admin.paused(queue) != Pause(), about="it is recorded", timeout_s=60)
        pausing.send_signal(signal.SIGINT)
        out, said = pausing.communicate()
    told = f"jbm-kafka: interrupted: {queue} may be paused already; jbm-kafka resume {queue} ends that\n"
    assert (pausing.returncode, out, said) == (1, "", told)
    assert cli("resume", queue).code == 0


def test_an_admission_that_was_interrupted_is_seen_and_goes_on(cli: Run, queue: str, url: str) -> None:
    """Of UNIT-11: nothing told of one that had not ended, but slow sends."""
    with ConnectionFactory(url).create_context() as jms:
        producer = jms.create_producer()
        for number in range(20):
            producer.send(Queue(queue), "x", unit_of_order=f"u{number}")
    with begin(url, "admit-partitions", queue, "--partitions", "5") as admitting:
        wait_until(
            lambda: json.loads(cli("show", queue, "--json").out)["next_partitions"] == 5,
            about="it has begun",
            timeout_s=60,
        )
        admitting.send_signal(signal.SIGTERM)
        _, said = admitting.communicate()
    told = "jbm-kafka: interrupted: the same again goes on; jbm-kafka show tells of it until then\n"
    assert (admitting.returncode, said.partition("\n")[2]) == (1, told)
    assert re.match(rf"queue:{queue}: waiting until \d\d:\d\d:\d\d UTC \(130 s\), so that all senders have heard", said)
    assert "of it; Ctrl-C is safe: run it again to go on\n" in said, "two minutes were silent"
    shown = cli("show", queue).out
    assert "an admission of 5 partitions has begun and not ended; if nobody runs it now: " in shown
    assert f"jbm-kafka admit-partitions {queue} --partitions 5 goes on with it\n" in shown
    explained = cli("explain", queue).out
    assert "an admission of 5 partitions has begun and not ended: sends pass meanwhile\n" in explained
    assert "is refused" not in explained, "they are, before an admission begins"
    again = cli("admit-partitions", queue, "--partitions", "5", "--wait", "0")
    begun = f"queue:{queue}: an admission of 5 partitions has begun already, and runs still or was killed"
    assert (again.code, again.err.startswith(begun), "waiting" in again.err) == (0, True, False)
    counted = json.loads(cli("show", queue, "--json").out)
    assert (counted["next_partitions"], counted["kept_units"] > 1) == (0, True)
    keep = f"{counted['kept_units']} units keep their partition, of 5; when what is held of them was received: "
    assert f"{keep}jbm-kafka end-paths {queue}\n" in cli("show", queue).out
    left = cli("end-paths", queue, "--wait", "0").out
    assert "still keep their partition, for something of them is held, or was sent meanwhile: when that was " in left


def test_a_reset_is_undone_by_the_command_that_explain_prints(cli: Run, queue: str, url: str, tmp_path: Path) -> None:
    """Of LOG-2: nothing was said of it before a worker delivered everything again."""
    for number in range(9):
        cli("send", queue, "--text", str(number), "--unit", f"unit {number}")
    assert cli("receive", queue, "--count", "9").out.count("\n") == 9
    group = Queue(queue).group_id()
    eventually(
        lambda: "Assignments can" not in reset_offsets(url, group, queue, "--to-earliest"),
        "the group has members still",
    )
    reset, undo, *rest = cli("explain", queue).out.splitlines()[1:]
    assert reset.endswith(": again comes what was delivered of partitions 0-1 from 0 on")
    assert rest[0] == "nobody receives"
    assert "  start a receiver" not in rest, "and nobody was to receive before it is undone"
    assert "printf" in undo, "the partitions hold as many messages: send others"
    tool = f'kafka-consumer-groups.sh() {{ {find_java()} -cp "{ensure_jars()}/*" {TOOL} "$@"; }}\n'
    subprocess.run(["bash", "-c", tool + undo.partition("receives: ")[2]], cwd=tmp_path, check=True)
    lines = cli("explain", queue).out.splitlines()
    assert (lines[1], "nothing is held" in lines) == ("nobody receives", True)
