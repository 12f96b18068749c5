"""AMQP clients of a sidecar with a store."""

import socket
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.amqp.access import OPEN
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.errors import JMSError
from jbm_kafka.ports.provider import ServingProvider
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")


def serving(factory: ConnectionFactory) -> Server:
    """A server, as `jbm-kafka sidecar run` makes it."""
    settings = ServerSettings([Listener(port=0)], OPEN, drain_s=0.0)
    return Server(settings, lambda: cast(ServingProvider, factory._open_provider()))


def test_its_clients_send_while_nobody_answers_and_all_of_it_arrives(tmp_path: Path) -> None:
    """SAF-1, SAF-2, SAF-7: plain sends and a transaction; who receives hears that nobody is there."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        with serving(ConnectionFactory(nobody, store_and_forward=tmp_path)) as server:
            client = ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}")
            with client.create_connection() as connection:
                session = connection.create_session()
                producer = session.create_producer(ORDERS)
                for number in range(10):
                    producer.send(str(number), unit_of_order="joe")
                transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
                with transacted.transaction():
                    transacted.create_producer(ORDERS).send("10", unit_of_order="joe")
                assert server.statistics().store_waiting == 11
                assert server.health(0.1).is_ready
                with pytest.raises(JMSError):
                    session.create_consumer(ORDERS)
    with MemoryWorld() as world:
        with world.factory(store_and_forward=tmp_path).create_connection():
            pass
        with world.factory().create_context() as jms:
            consumer = jms.create_consumer(ORDERS)
            found = [consumer.receive(timeout=20) for _ in range(11)]
        assert [message.body for message in found if message is not None] == [str(number) for number in range(11)]


def test_its_file_names_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.toml"
    text = 'bootstrap = "a:1"\nusers.anonymous.send = ["#"]\n[connection]\nstore_and_forward = "stored"\n'
    file.write_text(f"{text}store_fsync = false\nstore_bytes_max = 2000000\nstore_age_max_ms = 1000\n")
    store = read_sidecar_file(file).factory._store
    assert store is not None
    assert (store.folder, store.fsync) == (str(tmp_path / "stored"), False)
    assert (store.limits.bytes_max, store.limits.age_max_ms) == (2_000_000, 1_000)
