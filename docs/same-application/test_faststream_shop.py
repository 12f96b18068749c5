import asyncio
from collections.abc import AsyncIterator
from unittest.mock import AsyncMock, call

import pytest
from fastapi.testclient import TestClient
from faststream.kafka import KafkaBroker, TestKafkaBroker
from faststream_shop import app, reports, router, shipped, viewed

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
client = TestClient(app)
dead: list[object] = []


@router.subscriber("dead")
async def keep(letter: dict[str, str]) -> None:
    dead.append(letter)


@pytest.fixture
async def broker() -> AsyncIterator[KafkaBroker]:
    dead.clear()
    async with TestKafkaBroker(router.broker) as made:
        yield made


async def test_an_order_is_shipped(broker: KafkaBroker) -> None:
    assert client.post("/orders", json={"customer": "ann", "book": "Emma"}).status_code == 202
    assert shipped == ["Emma"]


async def test_what_fails_five_times_is_a_dead_letter(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "sleep", pause := AsyncMock())
    client.post("/orders", json={"customer": "ann", "book": "Ulysses"})
    assert pause.await_args_list == [call(1), call(2), call(4), call(8), call(0)]
    assert dead == [{"customer": "ann", "book": "Ulysses"}]


async def test_what_is_no_order_is_refused(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "sleep", None)  # it does not wait
    assert client.post("/orders", json={"customer": "ann"}).status_code == 422
    await broker.publish({"customer": "ann"}, "orders")
    assert dead == [{"customer": "ann"}]


async def test_views_are_stored_together(broker: KafkaBroker) -> None:
    client.post("/views/Emma")
    await broker.publish_batch("Emma", "Ulysses", topic="views")
    assert viewed == [["Emma"], ["Emma", "Ulysses"]]


async def test_each_night_there_is_a_report(broker: KafkaBroker) -> None:
    await broker.publish("", "reports")
    assert reports == [len(shipped)]
