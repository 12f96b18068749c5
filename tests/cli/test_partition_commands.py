"""`jbm-kafka admit-partitions` and `end-paths`, and what `show` tells of them."""

import json
import re
import signal
import subprocess
import sys

from jbm_kafka import ConnectionFactory, Queue
from tests.cli.conftest import Run
from tests.support.waiting import wait_until


def test_an_admission_that_was_interrupted_is_seen_and_goes_on(kafka: Run, queue: str, bootstrap: str) -> None:
    """Of UNIT-11: nothing told of one that had not ended, but slow sends."""
    with ConnectionFactory(bootstrap).create_context() as jms:
        producer = jms.create_producer()
        for number in range(20):
            producer.send(Queue(queue), "x", unit_of_order=f"u{number}")
    command = [sys.executable, "-m", "jbm_kafka.cli.main", "admit-partitions", queue, "--partitions", "5"]
    with subprocess.Popen([*command, "--bootstrap", bootstrap], stderr=subprocess.PIPE, text=True) as admitting:
        wait_until(
            lambda: json.loads(kafka("show", queue, "--json").out)["next_partitions"] == 5,
            about="it has begun",
            timeout_s=60,
        )
        admitting.send_signal(signal.SIGTERM)
        _, said = admitting.communicate()
    told = "jbm-kafka: interrupted: the same again goes on; jbm-kafka show tells of it until then\n"
    assert (admitting.returncode, said.partition("\n")[2]) == (1, told)
    assert re.match(rf"queue:{queue}: waiting until \d\d:\d\d:\d\d UTC \(130 s\), so that all senders have heard", said)
    assert "of it; Ctrl-C is safe: run it again to go on\n" in said, "two minutes were silent"
    shown = kafka("show", queue).out
    assert "an admission of 5 partitions has begun and not ended; if nobody runs it now: " in shown
    assert f"jbm-kafka admit-partitions {queue} --partitions 5 goes on with it\n" in shown
    explained = kafka("explain", queue).out
    assert "an admission of 5 partitions has begun and not ended: sends pass meanwhile\n" in explained
    assert "is refused" not in explained, "they are, before an admission begins"
    again = kafka("admit-partitions", queue, "--partitions", "5", "--wait", "0")
    begun = f"queue:{queue}: an admission of 5 partitions has begun already, and runs still or was killed"
    assert (again.code, again.err.startswith(begun), "waiting" in again.err) == (0, True, False)
    counted = json.loads(kafka("show", queue, "--json").out)
    assert (counted["next_partitions"], counted["kept_units"] > 1) == (0, True)
    keep = f"{counted['kept_units']} units keep their partition, of 5; when what is held of them was received: "
    assert f"{keep}jbm-kafka end-paths {queue}\n" in kafka("show", queue).out
    left = kafka("end-paths", queue, "--wait", "0").out
    assert "still keep their partition, for something of them is held, or was sent meanwhile: when that was " in left
