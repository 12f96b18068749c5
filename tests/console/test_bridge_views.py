"""Bridges of the console's configuration."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from jbm_kafka import ConnectionFactory, Queue, Topic
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.console_file import console_of
from jbm_kafka.codec.bridge_marks import batch_key, batch_value
from jbm_kafka.configuration.loaded import load
from jbm_kafka.jms.connection import provider_of
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking

FILE = """
cluster = "here"
clusters.here.bootstrap = "{here}"
clusters.there.bootstrap = "memory://x"
clusters.server = {{bootstrap = "amqp://127.0.0.1:1", login = {{user = "joe", password_file = "of-the-bridge-alone"}}}}
[bridges.in]
source = {{cluster = "there", destination = "orders"}}
target.destination = "orders"
[bridges.out]
source = {{destination = "topic:prices", subscription = "audit"}}
target = {{cluster = "there", destination = "prices"}}
[bridges.other]
source = {{destination = "orders", namespace = "other"}}
target.destination = "bills"
[bridges.server]
source = {{cluster = "server", destination = "orders"}}
target.destination = "orders"
"""


def test_what_waits_for_a_bridge_and_what_it_has_recorded(
    world: MemoryWorld, look_with: MakeLooking, tmp_path: Path
) -> None:
    path = tmp_path / "jbm-kafka.toml"
    path.write_text(FILE.format(here=world.url))
    looking = look_with(console_of(load(path), Cluster(world.url)).settings)
    with world.factory().create_connection() as connection:
        session = connection.create_session()
        session.create_shared_durable_consumer(Topic("prices"), "audit").close()
        for text in ("1.20", "1.30"):
            session.create_producer(Topic("prices")).send(text)
        looking.look_anew()
        assert [row["recorded"] for row in looking.json("/bridges")["bridges"]] == [None] * 4
        with closing(provider_of(connection).fenced_sends("in", "a process")) as bridge:  # type: ignore[attr-defined]
            bridge.take_over()
            bridge.commit((), {batch_key(1): batch_value([b"12 bytes, as", b"each mark is"])})
            looking.console.changed()
            rows = {row["name"]: row for row in looking.json("/bridges")["bridges"]}
            page = looking.page("/bridges")
            bridge.commit((), {batch_key(2): b"of a later version"})
            looking.console.changed()
            trouble = looking.json("/bridges")["trouble"]
    assert (rows["in"]["source"], rows["in"]["waits_in"], rows["in"]["held"]) == (
        "queue:orders at memory://x",
        None,
        None,
    )
    assert (rows["in"]["guarantee"], rows["in"]["recorded"]) == ("exactly-once", 2)
    assert rows["out"]["waits_in"]["path"] == "/topics/prices/subscription?subscription=audit"
    assert (rows["out"]["held"], rows["out"]["receivers"], rows["out"]["recorded"]) == (2, 0, None)
    assert rows["other"]["waits_in"] is None
    assert "password_file" in rows["server"]["fault"]
    assert "/topics/prices/subscription?subscription=audit" in page
    assert "is of a form that this version does not know" in trouble


def test_the_store_that_the_configuration_names_is_counted_while_a_sender_has_it(
    world: MemoryWorld, look_with: MakeLooking, tmp_path: Path
) -> None:
    path, folder = tmp_path / "jbm-kafka.toml", tmp_path / "stored"
    path.write_text(f'bootstrap = "{world.url}"\nconnection.store_and_forward = "stored"\n')
    looking = look_with(console_of(load(path), Cluster(world.url)).settings)
    before = looking.json("/bridges")["store"]
    assert before["waiting"] is None
    assert str(folder) in before["fault"]
    with ConnectionFactory("127.0.0.1:1", store_and_forward=folder).create_sender() as sender:  # nobody answers there
        sender.send(Queue("orders"), "1")
        sender.send(Queue("orders"), "2")
        looking.console.changed()
        store = looking.json("/bridges")["store"]
        page = looking.page("/bridges")
    assert (store["waiting"], store["dead_letters"], store["lost"]) == (2, 0, 0)
    assert store["process"] == str(os.getpid())
    assert store["oldest_at_ms"] > 0
    assert f"jbm-kafka store show {folder}" in page
    assert look_with().json("/bridges")["store"] is None
