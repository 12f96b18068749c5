"""A message's life on a real broker (LIFE-1): retries, a dead letter, its retry, an acknowledgement, as one page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from starlette.testclient import TestClient

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue
from jbm_kafka.console import app
from jbm_kafka.console.frame.console import LookedAtCluster
from jbm_kafka.core.channel.message_past import SKEW_MS
from tests.console.looking import Looking
from tests.support.waiting import wait_until

ATTEMPTS = 3


@pytest.fixture
def looking(bootstrap: str, kafka_name: str) -> Iterator[Looking]:
    application = app(LookedAtCluster(bootstrap, None, kafka_name))
    client = TestClient(
        application, base_url="http://127.0.0.1:8161", client=("127.0.0.1", 50_000), follow_redirects=False
    )
    yield Looking(client, application.state.console)
    application.state.console.close()


def test_a_message_that_failed_was_retried_and_is_done_is_one_timeline(
    bootstrap: str, kafka_name: str, looking: Looking
) -> None:
    queue, letters = Queue(f"{kafka_name}-orders"), f"{kafka_name}-letters"
    settings = AddressSettings(
        partitions=2,
        max_delivery_attempts=ATTEMPTS,
        redelivery_delay_ms=50,
        record_deliveries=True,
        dead_letter_address=letters,
        truncate="never",
    )
    factory = ConnectionFactory(bootstrap, namespace=kafka_name, address_settings={"#": settings})
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        message = connection.create_session().create_text_message('{"order": 17}')
        producer.send(message, unit_of_order="ann")
        producer.send("behind", unit_of_order="ann")
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(queue)
        for _ in range(ATTEMPTS):
            failed = consumer.receive(30.0)
            assert failed is not None
            assert failed.message_id == message.message_id
            failed.nack()
        _acknowledged(consumer.receive(30.0), "behind")
        (row,) = wait_until(
            lambda: looking.client.get(f"/api/v1/queues/{letters}/messages").json().get("messages"),
            about="the letter",
            timeout_s=30.0,
        )
        at = f"{row['partition']}.{row['offset']}"
        run = looking.act("retry-letters", name=letters, places=at)
        assert run["state"] == "done", run
        _acknowledged(consumer.receive(30.0), '{"order": 17}')
        consumer.close()

    def settled() -> dict[str, object] | None:
        found: dict[str, object] = looking.json(f"/queues/{queue.name}/life", message_id=message.message_id)["life"]
        hops = found["hops"]
        assert isinstance(hops, list)
        return found if len(hops) == 3 and hops[-1]["state"] == "settled" else None

    life = wait_until(settled, about="its end", timeout_s=30.0)
    hops = life["hops"]
    assert isinstance(hops, list)
    assert [hop["source"]["name"] for hop in hops] == [queue.name, letters, queue.name]
    first, letter, again = ([step["kind"] for step in hop["steps"]] for hop in hops)
    assert first == ["handed", "returned"] * (ATTEMPTS - 1) + ["handed", "dead-lettered"]
    # The retry received it, by a session of its own: deliveries of all queues are recorded here.
    assert letter[-1] == "acknowledged"
    assert again == ["handed", "acknowledged"]
    assert hops[1]["ended_by"] == "local"
    times = [step["at_ms"] for hop in hops for step in hop["steps"]]
    assert all(later >= earlier - SKEW_MS for earlier, later in pairwise(times))
    assert looking.json(f"/queues/{letters}/life", at=at)["life"]["hops"] == hops
    page = looking.page(f"/queues/{letters}/life?at={at}")
    order = ("Handed over, attempt 3", "Came here as a dead letter", "Sent here again")
    assert [page.index(text) for text in order] == sorted(page.index(text) for text in order)


def _acknowledged(message: Message | None, body: str) -> None:
    assert message is not None
    assert message.body == body
    message.acknowledge()


def test_pages_of_a_log_with_transactions_have_each_message_once(
    bootstrap: str, kafka_name: str, looking: Looking
) -> None:
    """Marks of transactions stand between records, and are no messages."""
    queue = Queue(f"{kafka_name}-orders")
    factory = ConnectionFactory(
        bootstrap, namespace=kafka_name, address_settings={"#": AddressSettings(partitions=3, truncate="never")}
    )
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = session.create_producer(queue)
        for number in range(60):
            producer.send(str(number), unit_of_order=f"unit-{number}")
            if number % 5 == 4:
                if number % 10 == 4:
                    session.rollback()
                else:
                    session.commit()
    seen: list[str] = []
    after = ""
    while True:
        found = looking.json(f"/queues/{queue.name}/messages", count=7, after=after)
        seen += [each["preview"] for each in found["messages"]]
        if not found["next"]:
            break
        after = dict(part.split("=") for part in found["next"].split("&"))["after"]
    assert sorted(seen, key=int) == [str(number) for number in range(60) if number % 10 >= 5]
    first = looking.json(f"/queues/{queue.name}/messages")["messages"][0]
    since = looking.json(f"/queues/{queue.name}/messages", since=first["sent_at_ms"] / 1_000)
    assert len(since["messages"]) == 30
