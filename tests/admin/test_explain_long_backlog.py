"""Of a long backlog `explain` reads what was asked about, and tells how far it is."""

from __future__ import annotations

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.admin.explain import diagnosis
from jbm_kafka.cli.main import main

QUEUE = Queue("orders")


def test_what_is_asked_about_is_found_among_others_and_those_are_counted(
    kafka_name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """UNIT-17: with its unit, before and behind it; how far the look is, is told."""
    monkeypatch.setattr(diagnosis, "TELL_EACH_S", 0.0)
    url, told = f"memory://{kafka_name}", list[str]()
    with ConnectionFactory(url).create_connection() as connection, Admin(url) as admin:
        admin.create_queue(QUEUE, partitions=1)
        with connection.create_session() as session, session.create_producer(QUEUE) as producer:
            for number in range(9):
                producer.send(str(number), unit_of_order=f"u{number % 3}")
            producer.send("alone")
        ids = {message.body: message.message_id for message in admin.browse(QUEUE, include="all")}
        by_unit = admin.explain(QUEUE, unit="u1", tell=told.append)
        by_id = admin.explain(QUEUE, message_id=ids["4"])
        alone = admin.explain(QUEUE, message_id=ids["alone"])
        assert main(["explain", "orders", "--unit", "u1", "--bootstrap", url]) == 0
    assert [(each.message_id, each.behind) for each in by_unit.messages] == [(ids["1"], 2)]
    assert [each.message_id for each in by_id.messages] == [ids["4"]]
    assert [(each.message_id, each.behind) for each in alone.messages] == [(ids["alone"], 0)]
    assert [each.held for each in by_unit.partitions] == [10]
    assert [each.held for each in by_id.partitions] == [10]
    assert told == ["queue:orders: 0 of 10 records looked at"]
    assert capsys.readouterr().err == "queue:orders: 0 of 10 records looked at\n"
