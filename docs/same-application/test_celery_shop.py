from unittest.mock import MagicMock

import celery_shop
import pytest
from celery.schedules import crontab
from celery_shop import app, celery, reports, ship, shipped, viewed
from fastapi.testclient import TestClient

client = TestClient(app)


@pytest.fixture(autouse=True)
def dead(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    celery.conf.task_always_eager = True
    monkeypatch.setattr(celery_shop.dead_letter, "apply_async", letters := MagicMock())
    return letters


def test_an_order_is_shipped() -> None:
    assert client.post("/orders", json={"customer": "ann", "book": "Emma"}).status_code == 202
    assert shipped == ["Emma"]


def test_what_fails_five_times_is_a_dead_letter(dead: MagicMock) -> None:
    client.post("/orders", json={"customer": "ann", "book": "Ulysses"})
    ((letter,), _) = dead.call_args
    assert letter[3:] == ("ConnectionError('the warehouse does not answer')", 4)


def test_what_is_no_order_is_refused(dead: MagicMock) -> None:
    assert client.post("/orders", json={"customer": "ann"}).status_code == 422
    ship.delay({"customer": "ann"})
    ((letter,), _) = dead.call_args
    assert letter[4] == 0


def test_views_are_stored() -> None:
    for book in ("Emma", "Ulysses"):
        client.post(f"/views/{book}")
    assert viewed == ["Emma", "Ulysses"]


def test_each_night_there_is_a_report() -> None:
    due = celery.conf.beat_schedule["nightly"]
    assert due["schedule"] == crontab(hour="3", minute="0")
    celery.tasks[due["task"]].delay()
    assert reports == [len(shipped)]
