"""The registry's compare-and-set, on what real brokers do when two writers share a transactional id."""

import threading
from collections.abc import Mapping

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.registry.registry_log import RegistryLog
from tests.conftest import MakeTopic

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
