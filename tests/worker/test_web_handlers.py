"""A web server whose handlers share one Sender: many posts at once, none refused and none lost."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI

from jbm_kafka import AddressSettings, ConnectionFactory, Queue, Sender
from tests.support.topics import delete_topics_beginning_with
from tests.support.waiting import wait_until

THREADS, SOON_S = 32, 120.0


def shop(sender: Sender, orders: Queue) -> FastAPI:
    """The application: each order is sent before the post is answered."""
    app = FastAPI()

    @app.post("/orders/{customer}")
    def order(customer: str, body: dict[str, int]) -> dict[str, str | None]:
        sent = sender.send(orders, json=body, unit_of_order=customer)
        return {"id": sent.message_id}

    return app


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address that it is served at."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started, about="the server", timeout_s=SOON_S)
        [listening] = server.servers[0].sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SOON_S)


@pytest.mark.parametrize("posts", [320, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_posts_from_many_threads_are_all_sent_in_the_order_of_each(bootstrap: str, kafka_name: str, posts: int) -> None:
    """CONN-1, ORDER-1: one global producer answered 186 of 200 posts with status 500."""
    orders = Queue(kafka_name)
    factory = ConnectionFactory(bootstrap, address_settings={"#": AddressSettings(partitions=4)})
    each = posts // THREADS

    def post(customer: int) -> list[int]:
        with httpx2.Client(base_url=address, timeout=SOON_S) as client:
            return [client.post(f"/orders/c{customer}", json={"number": n}).status_code for n in range(each)]

    try:
        with factory.create_sender() as sender, served(shop(sender, orders)) as address:
            with ThreadPoolExecutor(THREADS) as threads:
                codes = [code for found in threads.map(post, range(THREADS)) for code in found]
            assert set(codes) == {200}
        found: dict[str | None, list[int]] = defaultdict(list)
        with factory.create_context() as jms:
            consumer = jms.create_consumer(orders)
            for _ in range(each * THREADS):
                message = consumer.receive(SOON_S)
                assert message is not None, "a post that was answered is missing"
                found[message.unit_of_order].append(message.json()["number"])
        assert found == {f"c{customer}": list(range(each)) for customer in range(THREADS)}
    finally:
        delete_topics_beginning_with(bootstrap, kafka_name)
