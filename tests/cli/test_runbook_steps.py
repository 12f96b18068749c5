"""The steps of the runbook, read from its page and carried out beside a worker: what they promise holds."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from tests.cli.conftest import Run
from tests.jms.support import receive

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
FAR_MS = 3_600_000


def steps_of(heading: str) -> Iterator[list[str]]:
    """The arguments of each step's command, in the order of the page."""
    section = RUNBOOK.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    for command in re.findall(r"^\d+\. `jbm-kafka ([^`]+)`$", section, flags=re.MULTILINE):
        yield shlex.split(command)


def test_a_unit_that_is_to_go_on_at_once_comes_in_its_order_and_with_its_attempts(
    cli: Run, queue: str, url: str
) -> None:
    """Of UNIT-1, UNIT-14, SEND-10: its head waits for an hour, and the others behind it."""
    steps = list(steps_of("A unit that is to go on at once"))
    assert [step[0] for step in steps] == ["send-now"]
    rules = {queue: AddressSettings(redelivery_delay_ms=FAR_MS)}
    unit = [f"joe {number}" for number in range(4)]
    with ConnectionFactory(url, address_settings=rules).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, worker = session.create_producer(Queue(queue)), session.create_consumer(Queue(queue))
        for body in unit:
            producer.send(body, unit_of_order="joe")
        failed = receive(worker)
        assert failed.body == unit[0]
        failed.nack()
        producer.send("ann", unit_of_order="ann")
        other = receive(worker)
        assert other.body == "ann", "the unit waits"
        other.acknowledge()
        for step in steps:
            said = cli(*(queue if each == "orders" else each for each in step))
            assert said.code == 0, said
        came = []
        for _ in unit:
            message = receive(worker)
            came.append((message.body, message.delivery_count))
            message.acknowledge()
        assert came == list(zip(unit, (2, 1, 1, 1), strict=True))
