"""Processes that receive from one queue select alike; here each is a sidecar of its own in one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jbm_kafka import Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import make_factory
from tests.jms.support import bodies, receive, receive_all

EU, US = "region = 'EU'", "region = 'US'"


@pytest.fixture
def other(bootstrap: str, tmp_path: Path) -> Iterator[Connection]:
    """Of another process: it keeps its state elsewhere."""
    with make_factory(bootstrap, state_dir=str(tmp_path)).create_connection() as made:
        made.start()
        yield made


def send_both(session: Session, queue: Queue, count: int) -> None:
    producer = session.create_producer(queue)
    for number in range(count):
        for region in ("EU", "US"):
            producer.send(f"{region} {number}", properties={"region": region}, unit_of_order=f"{number}")


def test_another_process_must_select_alike(
    connection: Connection, other: Connection, session: Session, orders: Queue
) -> None:
    """Of SEL-2: the other set is told; when its consumers are closed it binds nobody."""
    mine, theirs = connection.create_session(), other.create_session()
    first = mine.create_consumer(orders, selector=EU)
    for selector in (US, None):
        with pytest.raises(
            errors.IllegalStateError, match=r"other processes receive with the selector \"region = 'EU'"
        ):
            theirs.create_consumer(orders, selector=selector)
    second = theirs.create_consumer(orders, selector="(region) = 'EU'")
    with pytest.raises(errors.IllegalStateError, match=r"would receive with the selector .* and the selector "):
        mine.create_consumer(orders, selector=US)
    first.close()
    send_both(session, orders, 4)
    assert sorted(map(str, bodies(receive_all(second, 4)))) == [f"EU {number}" for number in range(4)]
    second.close()
    third = mine.create_consumer(orders, selector=US)
    assert receive(third).properties["region"] == "US"


def test_a_process_with_two_selectors_starts_when_both_are_made(
    connection: Connection, other: Connection, session: Session, orders: Queue
) -> None:
    """Of SEL-2: on a started connection the first alone is another set; and who has it receives from both processes."""
    mine = connection.create_session()
    ones = [mine.create_consumer(orders, selector=selector) for selector in (EU, US)]
    theirs = other.create_session()
    with pytest.raises(errors.IllegalStateError, match=r"made before connection.start\(\)"):
        theirs.create_consumer(orders, selector=EU)
    other.stop()
    ones += [theirs.create_consumer(orders, selector=selector) for selector in (EU, US)]
    other.start()
    send_both(session, orders, 5)
    found: list[str] = []
    while len(found) < 10:
        came = [message for each in ones if (message := each.receive(0.5)) is not None]
        found += [str(message.body) for message in came]
    assert sorted(found) == sorted(f"{region} {number}" for region in ("EU", "US") for number in range(5))


def test_a_consumer_without_a_selector_and_one_with_conflict(
    connection: Connection, other: Connection, orders: Queue
) -> None:
    """Of SEL-2: whoever comes first."""
    plain = connection.create_session().create_consumer(orders)
    theirs = other.create_session()
    with pytest.raises(errors.IllegalStateError, match="and other processes receive with no selector"):
        theirs.create_consumer(orders, selector=EU)
    theirs.create_consumer(orders).close()
    plain.close()
