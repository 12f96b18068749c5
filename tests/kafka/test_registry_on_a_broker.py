"""The registry's compare-and-set, on what real brokers do when two writers share a transactional id."""

import secrets
import threading
from collections.abc import Mapping

import pytest

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.registry.topic_configs import REGISTRY_CONFIG
from tests.conftest import MakeTopic
from tests.support.waiting import wait_until

KEY = b"counter"


def one_more(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    return {KEY: b"%d" % (int(values.get(KEY, b"0")) + 1)}


def test_no_change_is_lost_where_two_processes_change_one_key(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    kafkas = [ConfluentKafka(bootstrap) for _ in range(2)]
    admins = [kafka.admin() for kafka in kafkas]
    registries = [RegistryLog(kafka, admin, topic) for kafka, admin in zip(kafkas, admins, strict=True)]
    failures: list[BaseException] = []

    def count(registry: RegistryLog) -> None:
        try:
            for _ in range(5):
                registry.update(one_more)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=count, args=(registry,)) for registry in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for registry in registries:
        registry.refresh()
        assert registry.get(KEY) == b"10"
        registry.close()
    for admin in admins:
        admin.close()


@pytest.mark.thorough  # brokers look for what is to be compacted every 15 seconds
@pytest.mark.timeout(120)
def test_a_start_reads_little_of_a_registry_that_was_changed_often(bootstrap: str, make_topic: MakeTopic) -> None:
    """Of LOG-4: 144,376 records were read after 48,000 paths of units had come and gone."""
    topic = make_topic(config=REGISTRY_CONFIG)
    kafka = ConfluentKafka(bootstrap)
    sender = kafka.sender()
    for number in range(60_000):
        sender.send(Outgoing(topic, 0, b"unit|%d" % (number % 20), secrets.token_bytes(50)), None)
    assert sender.flush(60.0)
    sender.close(5.0)
    reader = kafka.log_reader()

    def is_compacted() -> bool:
        return len(reader.read(topic, {0: (0, 60_000)}, timeout_s=30.0)) < 25_000

    wait_until(is_compacted, about="compaction", timeout_s=90)
    reader.close()
