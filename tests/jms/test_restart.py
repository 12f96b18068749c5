"""A process that comes back with the state folder of one that was killed."""

import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin.cluster.catalog import DEFAULT_PARTITIONS
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.store.folder import StateFolder

FORGOTTEN_MS = 120_000
"""So long Kafka would keep a transaction open that nobody ends."""
SOON_S = 60.0


def test_a_restart_ends_at_once_the_transaction_that_a_kill_left_open(
    bootstrap: str, tmp_path: Path, orders: Queue
) -> None:
    """Recovery reads the changelog to its end, which an open transaction holds back; there is nothing to checkpoint
    before that, so whoever waits for the first checkpoint to fence the past waits until Kafka gives it up."""
    factory = ConnectionFactory(bootstrap, state_dir=str(tmp_path / "state"))
    with factory.create_connection() as connection, connection.create_session() as session:
        session.create_producer(orders).send("an order")
    killed = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": _transactional_id(bootstrap, tmp_path / "state"),
            "transaction.timeout.ms": FORGOTTEN_MS,
            "log_level": 0,
        }
    )
    killed.init_transactions(SOON_S)
    killed.begin_transaction()
    for partition in range(DEFAULT_PARTITIONS):
        killed.produce(orders.changelog_topic(), b"", b"half a checkpoint", partition)
    assert killed.flush(SOON_S) == 0

    began_s = time.monotonic()
    with factory.create_connection() as connection, connection.create_session() as session:
        message = session.create_consumer(orders).receive(timeout=SOON_S)
        assert message is not None
        assert message.body == "an order"
    assert time.monotonic() - began_s < SOON_S


def _transactional_id(bootstrap: str, path: Path) -> str:
    """Of the process that has the state folder."""
    with closing(ConfluentKafka(bootstrap).admin()) as admin:
        cluster_id = admin.cluster_id()
    with StateFolder.open(path, cluster_id=cluster_id) as folder:
        return folder.transactional_id(0)
