"""The two ways of a connection's plain sends, and who takes which; without a broker."""

from __future__ import annotations

from functools import partial

import pytest

from jbm_kafka.jms.sends.send_order import SendOrder
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.memory.memory_sender import MemorySender
from jbm_kafka.ports import KafkaClientError, Outgoing, Unreachable
from jbm_kafka.providers.plain_sends import GATHER_MS, PlainSends
from tests.support.manual_clock import ManualClock

WAITED, BESIDE = True, False


def test_a_session_changes_ways_only_when_all_it_sent_is_confirmed() -> None:
    """ORDER-1: there is no order between the two ways."""
    order = SendOrder()
    assert order.count(is_waited_for=True) is WAITED
    order.confirm(None)
    assert order.count(is_waited_for=False) is BESIDE
    assert order.count(is_waited_for=False) is BESIDE
    order.confirm(None)
    assert order.count(is_waited_for=True) is BESIDE, "one with a callback is still under way"
    order.confirm(None)
    order.confirm(None)
    assert order.count(is_waited_for=True) is WAITED


def test_what_follows_a_failed_send_stays_behind_it() -> None:
    """SEND-4: it may still be written, and nothing overtakes one that is sent again."""
    order = SendOrder()
    order.count(is_waited_for=True)
    order.confirm(Unreachable("not confirmed"))
    assert order.count(is_waited_for=False) is WAITED
    order.confirm(None)
    assert order.count(is_waited_for=False) is WAITED


def test_a_send_that_was_refused_at_once_is_not_waited_for() -> None:
    order = SendOrder()
    order.count(is_waited_for=False)
    order.take_back()
    assert order.count(is_waited_for=True) is WAITED


@pytest.fixture
def cluster() -> MemoryCluster:
    """Nothing is written before somebody delivers it."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    cluster.create_topic("t", 1, {})
    return cluster


def test_who_waits_for_a_send_does_not_wait_for_a_flood_of_others(cluster: MemoryCluster) -> None:
    """SEND-1: of one partition, too."""
    senders: list[MemorySender] = []
    sends, reported = PlainSends(partial(_made, MemoryKafka(cluster), senders)), list[str]()
    for _ in range(1_000):
        sends.send(_RECORD, lambda _: reported.append("flood"), is_waited_for=BESIDE)
    sends.send(_RECORD, lambda _: reported.append("waited for"), is_waited_for=WAITED)
    senders[-1].deliver()
    assert reported == ["waited for"]
    assert sends.flush(0.0)
    assert len(reported) == 1_001


def test_each_way_of_sending_has_one_client(cluster: MemoryCluster) -> None:
    senders: list[MemorySender] = []
    sends = PlainSends(partial(_made, MemoryKafka(cluster), senders))
    sends.prepare()
    sends.prepare()
    for way, clients in ((WAITED, 1), (BESIDE, 2), (WAITED, 2)):
        sends.send(_RECORD, None, is_waited_for=way)
        sends.send(_RECORD, None, is_waited_for=way)
        sends.prepare()
        assert len(senders) == clients
    sends.close(0.0)


def test_only_who_is_not_waited_for_waits_for_others_to_go_with(cluster: MemoryCluster) -> None:
    lingers: list[int] = []

    def make(linger_ms: int) -> MemorySender:
        lingers.append(linger_ms)
        return MemoryKafka(cluster).sender()

    sends = PlainSends(make)
    sends.prepare()
    sends.send(_RECORD, None, is_waited_for=BESIDE)
    assert lingers == [0, GATHER_MS]
    sends.close(0.0)


def test_a_closed_connection_makes_no_new_client(cluster: MemoryCluster) -> None:
    senders: list[MemorySender] = []
    sends = PlainSends(partial(_made, MemoryKafka(cluster), senders))
    sends.send(_RECORD, None, is_waited_for=WAITED)
    sends.close(0.0)
    for way in (WAITED, BESIDE):
        with pytest.raises(KafkaClientError, match="closed"):
            sends.send(_RECORD, None, is_waited_for=way)
    assert len(senders) == 1


_RECORD = Outgoing("t", 0, None, b"value")


def _made(kafka: MemoryKafka, senders: list[MemorySender], linger_ms: int) -> MemorySender:
    senders.append(kafka.sender(linger_ms=linger_ms))
    return senders[-1]
