"""A foreign producer's open transaction, and an owner that does not answer, are told by explain: on a real broker."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.admin.explain.reasons import open_transactions
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset, FoundTransactions, GroupConsumer, Outgoing
from tests.jms.support import receive
from tests.kafka.world import WAIT_S, consume_until, member
from tests.support.kafka_tool import run_tool

TIMEOUT_MS = 600_000
"""Longer than the test takes on the slowest machine; brokers allow 15 minutes."""


def within_patience(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline


def member_that_never_answers(admin: Admin, bootstrap: str, queue: Queue) -> GroupConsumer:
    """A member that has the only partition of the queue, in the namespace of its name, and a message of joe's there."""
    namespace = queue.name
    admin.create_queue(queue.name, partitions=1)
    with ConnectionFactory(bootstrap, namespace=namespace).create_context() as jms:
        jms.create_producer().send(queue, "1", unit_of_order="joe")
    there = member(ConfluentKafka(bootstrap), queue.group_id(namespace), queue.kafka_topic(namespace), partitions=1)
    consume_until(lambda: bool(there.assignment()), there)
    return there


def test_a_foreign_open_transaction_is_named_with_its_remedy(bootstrap: str, kafka_name: str) -> None:
    """UNIT-4: it delays its whole partition, and explain says so: whose it is, since when, until when."""
    name, orders = f"{kafka_name}-shipping", Queue(kafka_name)
    with Admin(bootstrap, namespace=kafka_name) as admin, ConfluentKafkaWriter(bootstrap, name) as foreign:
        admin.create_queue(kafka_name, partitions=1)
        began_ms = time.time_ns() // 1_000_000
        foreign.write(Outgoing(orders.kafka_topic(kafka_name), 0, b"ann", b"foreign"))
        with ConnectionFactory(bootstrap, namespace=kafka_name).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.CLIENT)
            message = session.create_text_message("behind it")
            session.create_producer(orders).send(message, unit_of_order="joe")
            consumer = session.create_consumer(orders)
            assert consumer.receive(timeout=0) is None
            for asked in ({"unit": "joe"}, {"message_id": message.message_id}):
                (found,) = admin.explain(orders, unit=asked.get("unit"), message_id=asked.get("message_id")).messages
                (reason,) = found.reasons
                assert (found.message_id, found.unit, reason.rule) == (
                    message.message_id, "joe", Rule.OPEN_TRANSACTION,
                )  # fmt: skip
                assert f"transactional id {name!r}, producer id " in reason.text
                assert reason.since_ms is not None
                assert reason.until_ms is not None
                assert began_ms - 1_000 <= reason.since_ms <= began_ms + 20_000
                assert reason.until_ms - reason.since_ms == TIMEOUT_MS
                assert f"kafka-transactions.sh --bootstrap-server {bootstrap} describe" in reason.remedy
            (partition,) = admin.explain(orders).partitions
            assert [each.rule for each in partition.reasons] == [Rule.OPEN_TRANSACTION]
            end = ("forceTerminateTransaction", "--transactionalId", name)
            assert f"{' '.join(end)} ends it now" in reason.remedy, "no command that ends it was named"
            run_tool("TransactionsCommand", bootstrap, *end)
            foreign.is_open = False
            assert receive(consumer).body == "behind it"
            within_patience(lambda: not admin.explain(orders).partitions[0].reasons)


def test_a_transaction_that_no_coordinator_knows_is_told_to_be_ended_by_hand() -> None:
    """UNIT-4: as a broker that is killed between a commit and its marks leaves it."""
    nobody = FoundTransactions((), is_whole=True)
    (reason,) = open_transactions("orders", 3, 17, 5, nobody, bootstrap="kafka:9092")
    assert reason.text.startswith("records from offset 17 on, 5 so far, wait ")
    assert reason.remedy.endswith(" abort --topic orders --partition 3 --start-offset 17 ends it")
    for found in (FoundTransactions((), is_whole=False), "read __transaction_state: not allowed"):
        (reason,) = open_transactions("orders", 3, 17, 5, found, bootstrap="kafka:9092")
        assert "describe-producers --topic orders --partition 3" in reason.remedy


def test_an_owner_that_does_not_answer_is_named(bootstrap: str, kafka_name: str) -> None:
    """UNIT-17: also a process whose worker hangs, or of another program, that has the partition in the group."""
    orders = Queue(kafka_name)
    with Admin(bootstrap, namespace=kafka_name) as admin:
        stranger = member_that_never_answers(admin, bootstrap, orders)
        lines: list[str] = []
        found = admin.explain(orders, unit="joe", timeout_s=3, tell=lines.append)
        (reason,) = found.messages[0].reasons
        assert reason.rule is Rule.OWNER_SILENT
        owner = f"process {os.getpid()} at {platform.node()}"
        assert [each.owner for each in found.partitions] == [owner]
        assert reason.text.startswith(f"{owner} did not answer")
        assert list(found.reasons) == [reason]
        assert found.silent_members == (owner,)
        assert lines == [
            f"queue:{kafka_name}: waits for {owner}, which has partition 0 and did not answer yet; 1 s more at most"
        ], "it waited without a word"
        stranger.close()
        assert admin.explain(orders, unit="joe").messages[0].reasons[0].rule is Rule.NOBODY_RECEIVES


def test_of_a_process_that_was_put_out_while_it_was_asked_two_accounts_were_given(
    bootstrap: str, kafka_name: str
) -> None:
    """UNIT-17: one killed held its partition, received, was silent and was put out, all in one answer."""
    orders = Queue(kafka_name)
    with Admin(bootstrap, namespace=kafka_name) as admin:
        killed = member_that_never_answers(admin, bootstrap, orders)
        found = admin.explain(orders, timeout_s=3, tell=lambda text: killed.close())
        assert (found.members, found.silent_members) == (0, ())
        assert [each.rule for each in found.reasons] == [Rule.NOBODY_RECEIVES, Rule.OWNER_SILENT]
        assert "the group has put it out since" in found.reasons[1].text
        assert [each.rule for each in found.messages[0].reasons] == [Rule.NOBODY_RECEIVES]
        assert [(each.owner, each.reasons) for each in found.partitions] == [("", ())]


class ConfluentKafkaWriter:
    """A foreign application with a transaction of its own."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = ConfluentKafka(bootstrap).transactional_producer(name, transaction_timeout_ms=TIMEOUT_MS)
        self._kafka = ConfluentKafka(bootstrap)
        self.is_open = False

    def __enter__(self) -> ConfluentKafkaWriter:
        self._producer.initialise(WAIT_S)
        return self

    def write(self, record: Outgoing) -> None:
        """Into a transaction that stays open; it is in the log when this returns."""
        self._producer.begin()
        self.is_open = True
        self._producer.produce(record)
        admin = self._kafka.admin()
        within_patience(
            lambda: admin.end_positions(record.topic, [record.partition], stable=False)[record.partition] > 0
        )
        admin.close()

    def hold(self, group: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Offsets of a group, as a checkpoint that has not ended."""
        self._producer.begin()
        self.is_open = True
        self._producer.send_offsets(None, group, topic, offsets)

    def __exit__(self, *_: object) -> None:
        if self.is_open:
            self._producer.abort(WAIT_S)
        self._producer.close()
