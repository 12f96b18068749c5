from collections.abc import Callable, Iterator

import dramatiq
import pytest
from dramatiq_shop import app, broker, report, reports, ship, shipped, viewed
from fastapi.testclient import TestClient

client = TestClient(app)


@pytest.fixture
def drain() -> Iterator[Callable[[str], None]]:
    broker.flush_all()
    worker = dramatiq.Worker(broker, worker_timeout=100)
    worker.start()

    def until_done(queue: str) -> None:
        broker.join(queue, fail_fast=False)
        worker.join()

    yield until_done
    worker.stop()


def test_an_order_is_shipped(drain: Callable[[str], None]) -> None:
    assert client.post("/orders", json={"customer": "ann", "book": "Emma"}).status_code == 202
    drain("orders")
    assert shipped == ["Emma"]


def test_what_fails_five_times_is_a_dead_letter(drain: Callable[[str], None]) -> None:
    client.post("/orders", json={"customer": "ann", "book": "Ulysses"})
    drain("orders")
    (letter,) = broker.dead_letters
    assert letter.options["retries"] == 5
    assert "the warehouse does not answer" in letter.options["traceback"]


def test_what_is_no_order_is_refused(drain: Callable[[str], None]) -> None:
    assert client.post("/orders", json={"customer": "ann"}).status_code == 422
    ship.send({"customer": "ann"})
    drain("orders")
    (letter,) = broker.dead_letters
    assert "retries" not in letter.options


def test_views_are_stored(drain: Callable[[str], None]) -> None:
    for book in ("Emma", "Ulysses"):
        client.post(f"/views/{book}")
    drain("views")
    assert sorted(viewed) == ["Emma", "Ulysses"]


def test_each_night_there_is_a_report(drain: Callable[[str], None]) -> None:
    report.send()
    drain("reports")
    assert reports == [len(shipped)]
