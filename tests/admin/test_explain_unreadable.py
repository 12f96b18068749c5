"""What `explain` says where what is held cannot be read: a process that died has left a checkpoint open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.admin.explain.diagnosis import OFFSETS_TIMEOUT_S
from jbm_kafka.cli.explain import _show
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.ports import Unreachable
from tests.jms.support import receive


@pytest.fixture
def url(kafka_name: str) -> str:
    return f"memory://{kafka_name}"


@pytest.fixture
def orders(admin: Admin, url: str, kafka_name: str) -> Iterator[Queue]:
    """A queue with a message that somebody has."""
    admin.create_queue(kafka_name, partitions=1)
    orders = Queue(kafka_name)
    with ConnectionFactory(url, namespace=kafka_name).create_context() as jms:
        jms.create_producer().send(orders, "1", unit_of_order="joe")
        receive(jms.create_consumer(orders))
        yield orders


class Broken:
    """Committed offsets that cannot be read, and how long was waited for each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Unreachable) -> None:
        self.waited_s: list[object] = []

        def committed(*_: object, timeout_s: float | None = None) -> object:
            self.waited_s.append(timeout_s)
            raise error

        monkeypatch.setattr(MemoryAdmin, "committed", committed)


def test_what_could_not_be_read_was_shown_as_0_held(
    admin: Admin, orders: Queue, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of UNIT-17, in a crash loop: and "no answer from Kafka … Timed out" was all that was told, after 30 s."""
    broken = Broken(monkeypatch, Unreachable("committed offsets: Timed out"))
    found = admin.explain(orders)
    (why,) = found.reasons
    assert (why.rule, broken.waited_s) == (Rule.IN_DOUBT, [OFFSETS_TIMEOUT_S])
    assert "jbm-kafka docs runbook, A message kills its workers" in why.remedy
    (partition,) = found.partitions or (None,)
    _show(found, is_all=True, log=None)
    lines = capsys.readouterr().out.splitlines()
    assert " 0 held" not in "".join(lines)
    assert "there is more than was looked at" not in lines
    if partition is not None:
        assert partition.held is None
        assert any(line.startswith("partition 0: not readable now, owner process ") for line in lines)


def test_a_missing_changelog_is_a_reason(admin: Admin, kafka_name: str) -> None:
    admin.create_queue(kafka_name)
    (topic,) = [each for each in admin._core.admin.topic_names() if kafka_name in each and "changelog" in each]
    admin._core.admin.delete_topics([topic])
    why = admin.explain(kafka_name).reasons[0]
    assert (why.rule, why.remedy) == (Rule.NO_CHANGELOG, "")
