"""The first questions that a cluster is ever asked."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError, Outgoing, UnknownTopic
from tests.kafka.world import WAIT_S
from tests.support.broker import local_broker
from tests.support.wire_broker import END_POSITION, wire_broker

SOON_S = 20.0

ASK = """
import sys
from jbm_kafka.kafka import ConfluentKafka
print(dict(ConfluentKafka(sys.argv[1]).admin().committed("jbm.queue.orders", "orders", [0, 1])))
"""


@pytest.mark.thorough
def test_a_group_is_asked_for_where_no_group_ever_was(tmp_path: Path) -> None:
    """The brokers make their topic of groups then; librdkafka's own question for it ends the process by a signal."""
    with local_broker(tmp_path) as broker:
        asked = subprocess.run(
            [sys.executable, "-c", ASK, broker.bootstrap], capture_output=True, text=True, timeout=60, check=False
        )
    assert (asked.returncode, asked.stdout.strip()) == (0, "{}"), asked.stderr


@pytest.mark.parametrize(
    "names_itself",
    [[False, True], [False, False, True], [True, False, True], [True, True, False, True], [True, False, False, True]],
)
def test_a_broker_that_knows_of_none_is_asked_again(names_itself: list[bool]) -> None:
    """One that is alone says so for a moment when it comes back. librdkafka's `describe_cluster` ends the process
    then, and its other questions may wait for minutes.
    """
    with wire_broker("orders", names_itself=names_itself) as bootstrap:
        began = time.monotonic()
        assert ConfluentKafka(bootstrap).admin().end_positions("orders", [0], stable=True) == {0: END_POSITION}
        assert time.monotonic() - began < SOON_S
    with wire_broker("orders", names_itself=names_itself) as bootstrap:
        assert ConfluentKafka(bootstrap).admin().cluster_id() == "a cluster"


def test_a_leader_that_has_not_heard_yet_of_its_topic_is_asked_again() -> None:
    """On a busy cluster for a minute after its making; each first use of a namespace failed meanwhile."""
    with wire_broker("orders", denials=5) as bootstrap:
        assert ConfluentKafka(bootstrap).admin().end_positions("orders", [0], stable=True) == {0: END_POSITION}


@pytest.mark.thorough
def test_no_question_and_no_record_makes_a_topic(tmp_path: Path) -> None:
    """Kafka's brokers make every topic that a client names and does not forbid to make."""
    with local_broker(tmp_path, {"auto.create.topics.enable": "true"}) as broker:
        kafka = ConfluentKafka(broker.bootstrap, send_timeout_ms=5_000)
        admin = kafka.admin()
        admin.describe(["described"])
        with pytest.raises(UnknownTopic):
            admin.end_positions("asked", [0], stable=True)
        sender = kafka.sender()
        errors: list[KafkaClientError | None] = []
        sender.send(Outgoing("sent", 0, None, b""), errors.append)
        sender.close(WAIT_S)
        transaction = kafka.transactional_producer("id", transaction_timeout_ms=10_000)
        transaction.initialise(WAIT_S, known_topic="deleted")
        transaction.begin()
        transaction.produce(Outgoing("committed", 0, None, b""))
        with pytest.raises(KafkaClientError):
            transaction.commit(WAIT_S)
        transaction.close()
        assert {name for name in admin.topic_names() if not name.startswith("__")} == set()
    assert isinstance(errors[0], UnknownTopic)
