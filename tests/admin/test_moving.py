"""What is held goes into a file and from there to another cluster: each message with its past, once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import Queue, Topic, XAConnectionFactory
from jbm_kafka.admin import Admin, ExportReport
from jbm_kafka.admin.cluster.administered import administered
from jbm_kafka.admin.moving import importing
from jbm_kafka.admin.moving.export_file import read_export, write_export
from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import Parked, Position
from jbm_kafka.core.channel.log_id import topic_id_of
from jbm_kafka.errors import IllegalStateError, InvalidDestinationError, InvalidSettingError, JMSError, JMSSecurityError
from jbm_kafka.jms.context import Context
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.memory.memory_process import ProcessCrashed
from jbm_kafka.ports import CommittedOffset, Outgoing
from tests.admin.moving_place import MINUTE_MS, ORDERS, PRICES, Place, in_every_state
from tests.jms.support import receive


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.avro"


def test_every_state_of_a_message_is_as_it_was(here: Place, there: Place, file: Path) -> None:
    """LOG-13: and is so for receivers, not only for those that look."""
    in_every_state(here)
    before = here.seen(ORDERS)
    report = here.admin.export_messages(ORDERS, file)
    assert report == ExportReport(ORDERS, str(file), 10, (), 0, 0)
    assert here.seen(ORDERS) == before
    there.catch_up(here)
    done = there.admin.import_messages(file)
    assert (done.destination, done.messages, done.present, done.subscriptions) == (ORDERS, 10, 0, ())
    assert there.seen(ORDERS) == before
    assert there.admin.counts(ORDERS).for_operator == 1
    assert sorted(there.receive_all(ORDERS)) == [("counted", 2), ("counted2", 1), ("settled2", 1), ("urgent", 1)]
    assert [message.body for message in there.admin.browse("ExpiryQueue")] == ["expired"]
    there.world.clock.advance(4 * MINUTE_MS)
    assert there.receive_all(ORDERS) == []
    there.world.clock.advance(MINUTE_MS)
    assert there.receive_all(ORDERS) == [("delayed", 3), ("delayed2", 1)]
    there.admin.release(ORDERS, "held", again=True)
    there.world.clock.advance(5 * MINUTE_MS)
    assert sorted(there.receive_all(ORDERS)) == [("held", 2), ("held2", 1), ("later", 1)]


@pytest.mark.parametrize("topic", ["orders", "orders.jbm-changelog"])
def test_a_topic_that_may_not_be_written_is_named_and_nothing_is_there(
    here: Place, there: Place, file: Path, topic: str
) -> None:
    """Kafka refuses the transaction and does not say for which topic; it was told to do it again."""
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    there.admin.create_queue(ORDERS, partitions=2)
    there.cluster.faults.denied = frozenset({topic})
    with pytest.raises(JMSSecurityError, match=rf"no access rule of Kafka's allows Write on topic {topic}$"):
        there.admin.import_messages(file)
    there.cluster.faults.denied = frozenset()
    assert there.admin.import_messages(file).messages == 10


def test_what_a_receiver_has_in_hand_comes_as_after_its_death(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and REDELIVER-7."""
    with here.context() as jms:
        jms.create_producer().send(ORDERS, "a", unit_of_order="a")
        message = receive(jms.create_consumer(ORDERS))
        here.world.wait_idle()
        report = here.admin.export_messages(ORDERS, file)
        assert (report.messages, report.members) == (1, 1)
        message.acknowledge()
    there.admin.import_messages(file)
    assert there.receive_all(ORDERS) == [("a", 2)]


def test_a_file_is_imported_once_however_often_it_is_asked_for(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13."""
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    there.admin.import_messages(file)
    there.receive_all(ORDERS)
    left = there.seen(ORDERS)
    again = there.admin.import_messages(file)
    assert (again.messages, again.present) == (0, 10)
    assert there.seen(ORDERS) == left


STEPS = ("produce", "offsets written", "send_offsets", "commit", "committed")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("time", [1, 3])
def test_killed_in_its_midst_and_begun_again_it_writes_each_message_once(
    here: Place, there: Place, file: Path, monkeypatch: pytest.MonkeyPatch, step: str, time: int
) -> None:
    """Of LOG-13: at each step of the first slice, and of a later one."""
    monkeypatch.setattr(importing, "SLICE_MESSAGES", 3)
    in_every_state(here)
    before = here.seen(ORDERS)
    here.admin.export_messages(ORDERS, file)
    there.catch_up(here)
    with Admin(there.world.url) as killed:
        kafka = killed._core.kafka
        assert isinstance(kafka, MemoryKafka)
        seen = 0

        def kill(transactional_id: str, at: str) -> None:
            nonlocal seen
            if at == step and transactional_id.startswith("jbm.import."):
                seen += 1
                if seen == time:
                    kafka.crash()
                    raise ProcessCrashed

        kafka.cluster.faults.step = kill
        with pytest.raises(ProcessCrashed):
            killed.import_messages(file)
        kafka.cluster.faults.step = None
        for member in list(kafka.cluster.group("jbm.queue.orders").members):
            kafka.cluster.expire_member("jbm.queue.orders", member)
        done = there.admin.import_messages(file)
        assert done.messages + done.present == 10
        assert there.seen(ORDERS) == before


def test_a_receiver_that_comes_meanwhile_fences_the_import(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13: what was not written then is written by the next import, behind what is there."""
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    there.admin.create_queue("orders", partitions=2)
    kafka = there.admin._core.kafka
    assert isinstance(kafka, MemoryKafka)
    came: list[Context] = []

    def come(transactional_id: str, at: str) -> None:
        if at == "send_offsets" and transactional_id.startswith("jbm.import.") and not came:
            group = kafka.cluster.group("jbm.queue.orders")
            came.append(there.context())
            group.join("orders", 2, 10_000)

    kafka.cluster.faults.step = come
    with pytest.raises(IllegalStateError, match="receives from it"):
        there.admin.import_messages(file)
    kafka.cluster.faults.step = None
    came[0].close()
    group = kafka.cluster.group("jbm.queue.orders")
    for member in list(group.members):
        kafka.cluster.expire_member(group.name, member)
    assert there.seen(ORDERS) == []
    assert there.admin.import_messages(file).messages == 10


def test_while_somebody_receives_nothing_is_imported(here: Place, there: Place, file: Path) -> None:
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    with there.context() as jms:
        jms.create_consumer(ORDERS).receive_nowait()
        with pytest.raises(IllegalStateError, match="receives from it"):
            there.admin.import_messages(file)
    assert there.seen(ORDERS) == []
    assert there.admin.import_messages(file).messages == 10


def test_what_is_there_already_goes_before_what_is_imported(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13: also what nobody has read yet, and what came back."""
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    with there.context() as jms:
        jms.create_producer().send(ORDERS, "counted0", unit_of_order="counted")
        receive(jms.create_consumer(ORDERS)).nack(0)
        jms.create_producer().send(ORDERS, "counted1", unit_of_order="counted")
    there.catch_up(here)
    there.admin.import_messages(file)
    found = [row for row in there.receive_all(ORDERS) if str(row[0]).startswith("counted")]
    assert found == [("counted0", 2), ("counted1", 1), ("counted", 2), ("counted2", 1)]


def test_duplicate_ids_count_as_before(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and SEND-8: of what was settled, of what is held, and of what repeats an id and was not read yet."""
    with here.context() as jms:
        producer = jms.create_producer()
        for body in ("settled", "held"):
            producer.send(ORDERS, body, unit_of_order="a", duplicate_id=body)
        consumer = jms.create_consumer(ORDERS)
        receive(consumer).acknowledge()
        receive(consumer).nack(0)
        here.world.wait_idle()
    with here.context() as jms:
        for body in ("settled", "held", "new", "new"):
            jms.create_producer().send(ORDERS, body, unit_of_order="a", duplicate_id=body)
    here.admin.export_messages(ORDERS, file)
    there.admin.import_messages(file)
    with there.context() as jms:
        for body in ("settled", "held", "new"):
            jms.create_producer().send(ORDERS, f"{body} again", unit_of_order="a", duplicate_id=body)
    assert there.receive_all(ORDERS) == [("held", 2), ("new", 1)]


def test_after_a_reset_a_message_is_no_repetition_of_itself(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and SEND-8: the id of a message that is held names where it is now."""
    with here.context() as jms:
        consumer = jms.create_consumer(ORDERS)
        for body in ("settled", "a"):
            jms.create_producer().send(ORDERS, body, unit_of_order="a", duplicate_id=body)
        receive(consumer).acknowledge()
        receive(consumer).nack(0)
    here.admin.export_messages(ORDERS, file)
    there.admin.import_messages(file)
    (message,) = there.admin.browse(ORDERS, include="all")
    assert message.kafka is not None
    with closing(MemoryKafka(there.cluster).admin()) as cluster:
        begin = {message.kafka.partition: CommittedOffset(message.kafka.offset, "")}
        cluster.alter_offsets("jbm.queue.orders", "orders", begin)
    assert there.receive_all(ORDERS) == [("a", 1)]


def test_a_partition_that_only_remembers_ids_does_so_elsewhere(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and SEND-8: nothing is held, and the log there is empty."""
    with here.context() as jms:
        jms.create_producer().send(ORDERS, "a", unit_of_order="a", duplicate_id="a")
        receive(jms.create_consumer(ORDERS)).acknowledge()
    here.admin.export_messages(ORDERS, file)
    there.admin.import_messages(file)
    with there.context() as jms:
        for body in ("a", "b"):
            jms.create_producer().send(ORDERS, body, unit_of_order="a", duplicate_id=body)
    assert there.receive_all(ORDERS) == [("b", 1)]


def test_what_is_parked_is_in_the_file(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and LOG-8: its record is in the changelog only."""
    here.admin.create_queue("orders", partitions=2)
    reached = administered(here.world.url, None, 5)
    with here.context() as jms:
        for body in ("a", "b", "c"):
            jms.create_producer().send(ORDERS, body, unit_of_order="a")
    here.world.wait_idle()
    with closing(reached.kafka.admin()) as cluster, closing(reached.kafka.log_reader()) as reader:
        partition = next(p for p, end in cluster.end_positions("orders", [0, 1], stable=True).items() if end)
        first = reader.read("orders", {partition: (0, 3)}, timeout_s=5)[0]
        row = Parked(0, first.key(), first.value(), tuple(first.headers() or ()), *first.timestamp())
        topic_id = cluster.describe(["orders"])["orders"].topic_id
        mine = "jbm.test:1"
        producer = reached.kafka.transactional_producer("jbm.test", transaction_timeout_ms=5_000)
        producer.initialise(5)
        producer.begin()
        for entry in (Position(topic_id, mine, 2, 2, 2, 2), row):
            key, value = encode_entry("jbm.queue.orders", entry)
            producer.produce(Outgoing("orders.jbm-changelog", partition, key, value))
        producer.send_offsets(None, "jbm.queue.orders", "orders", {partition: CommittedOffset(2, mine)})
        producer.commit(5)
        cluster.delete_records("orders", {partition: 2})
    reached.let_go()
    assert here.admin.export_messages(ORDERS, file).messages == 2
    there.admin.import_messages(file)
    assert there.receive_all(ORDERS) == [("a", 2), ("c", 1)]


def test_each_subscription_has_what_it_had(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13: one has settled what another one holds, and what a selector leaves out nobody gets."""
    billing: dict[str, Any] = {"client_id": "billing"}
    with here.context(**billing) as jms, here.context() as other:
        dear = jms.create_durable_consumer(PRICES, "audit", selector="price > 10")
        every = other.create_shared_durable_consumer(PRICES, "all")
        producer = jms.create_producer()
        for price in (5, 20, 30):
            producer.send(PRICES, str(price), unit_of_order=str(price), properties={"price": price})
        receive(dear).acknowledge()
        receive(dear).nack(0)
        receive(every).acknowledge()
        here.world.wait_idle()
    with here.context() as jms:
        jms.create_producer().send(PRICES, "40", unit_of_order="40", properties={"price": 40})
        jms.create_producer().send(PRICES, "6", unit_of_order="6", properties={"price": 6})
    named: list[dict[str, Any]] = [{"subscription": "audit", "client_id": "billing"}, {"subscription": "all"}]
    before = [here.seen(PRICES, **each) for each in named]
    assert [len(rows) for rows in before] == [2, 4]
    report = here.admin.export_messages(PRICES, file)
    assert (report.messages, sorted(report.subscriptions)) == (4, ["all", "billing/audit"])
    done = there.admin.import_messages(file)
    assert sorted(done.subscriptions) == ["all", "billing/audit"]
    assert [there.seen(PRICES, **each) for each in named] == before
    with there.context(**billing) as jms:
        consumer = jms.create_durable_consumer(PRICES, "audit", selector="price > 10")
        assert [(m.body, m.delivery_count) for m in (receive(consumer), receive(consumer))] == [("30", 2), ("40", 1)]
        assert consumer.receive_nowait() is None
    assert there.admin.import_messages(file).present == 4


def test_the_log_of_a_subscription_tells_its_topic_whoever_made_it(here: Place, there: Place, file: Path) -> None:
    """Of SPARK-17, LOG-2: one that an operator or an import made has a longer incarnation."""
    with here.context(client_id="billing") as jms:
        jms.create_durable_consumer(PRICES, "audit")
    here.admin.create_subscription(PRICES, "later", shared=True)
    here.admin.export_messages(PRICES, file)
    there.admin.import_messages(file)
    for place in (here, there):
        core = place.admin._core
        with core.asking("look"):
            records = core.catalog.records_of(PRICES)
            told = [topic_id_of(core.group(each).log_id(each.topic_id)) for each in records]
        assert told == [each.topic_id for each in records]
        assert len(told) == 2


def test_what_no_subscription_wants_is_not_in_the_file(here: Place, file: Path) -> None:
    with here.context() as jms:
        jms.create_shared_durable_consumer(PRICES, "dear", selector="price > 10").close()
    with here.context() as jms:
        for price in (5, 20):
            jms.create_producer().send(PRICES, "x", properties={"price": price})
    assert here.admin.export_messages(PRICES, file).messages == 1


def test_a_subscription_that_is_there_already_is_refused(here: Place, there: Place, file: Path) -> None:
    """It, or one that the file does not have, would get messages that were never for it."""
    with here.context(client_id="billing") as jms:
        jms.create_durable_consumer(PRICES, "audit")
        jms.create_producer().send(PRICES, "5")
    here.admin.export_messages(PRICES, file)
    with there.context(client_id="billing") as jms:
        jms.create_durable_consumer(PRICES, "audit")
    with pytest.raises(IllegalStateError, match="is there already"):
        there.admin.import_messages(file)
    there.admin.unsubscribe("audit", client_id="billing")
    with there.context(client_id="shop") as jms:
        jms.create_durable_consumer(PRICES, "other")
    with pytest.raises(IllegalStateError, match="shop/other"):
        there.admin.import_messages(file)


def test_dead_letters_keep_where_they_are_from(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and REDELIVER-9: they are sent again to where they came from, on the other cluster."""
    given_up = Queue("given-up")
    with here.context() as jms:
        jms.create_producer().send(given_up, "2 books", unit_of_order="ann")
        receive(jms.create_consumer(given_up)).nack()
    here.world.wait_idle()
    here.admin.export_messages("DLQ", file)
    there.admin.import_messages(file)
    ((letter, message),) = there.admin.dead_letters()
    assert (letter.origin.destination, letter.attempts, message.body) == (str(given_up), 1, "2 books")
    there.admin.create_queue("given-up", partitions=1)
    assert there.admin.retry_dead_letters().sent == 1
    assert there.receive_all(given_up) == [("2 books", 1)]


def test_a_queue_goes_to_another_name_of_the_same_cluster(here: Place, file: Path) -> None:
    in_every_state(here)
    before = here.seen(ORDERS)
    here.admin.export_messages(ORDERS, file)
    assert here.admin.import_messages(file, to="restored").messages == 10
    assert here.seen(Queue("restored")) == before
    with Admin(here.world.url, namespace="other") as other:
        with pytest.raises(InvalidDestinationError, match="is where the file is from"):
            other.import_messages(file)
        with pytest.raises(InvalidDestinationError, match="others receive from its topic in ''"):
            other.import_messages(file, to="restored")
        assert other.import_messages(file, to="theirs").messages == 10


def test_a_prepared_branch_is_refused_in_a_line(here: Place, file: Path) -> None:
    factory = XAConnectionFactory(here.world.url)
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        with connection.create_session() as plain:
            plain.create_producer(ORDERS).send("a")
        session.tpc_begin(session.xid(1, "t", "b"))
        receive(session.create_consumer(ORDERS))
        session.tpc_prepare()
    with pytest.raises(IllegalStateError, match="1 prepared branches") as caught:
        here.admin.export_messages(ORDERS, file)
    assert "\n" not in str(caught.value)
    assert not file.exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:-20], "it is damaged"),
        (lambda data: b"hello", "no file of jbm-kafka export"),
        (lambda data: data.replace(b"jbm.format\x021", b"jbm.format\x027"), "its format is '7'"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_before_anything_is_written(
    here: Place, there: Place, file: Path, change: Callable[[bytes], bytes], why: str
) -> None:
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(JMSError, match=why):
        there.admin.import_messages(file)
    assert not there.admin.exists(ORDERS)


def test_a_file_without_its_end_is_refused(here: Place, there: Place, file: Path) -> None:
    """It has whole blocks, and rows of the middle are no less readable."""
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    rows = list(read_export(file))
    cut = file.with_name("cut.avro")
    for left in (rows[:-1], [*rows[:3], rows[-1]], rows[1:], []):
        cut.unlink(missing_ok=True)
        write_export(cut, left)
        with pytest.raises(JMSError, match=r"is cut off|is damaged"):
            there.admin.import_messages(cut)
    assert not there.admin.exists(ORDERS)


def test_a_wrong_place_is_refused(here: Place, there: Place, file: Path) -> None:
    in_every_state(here)
    here.admin.export_messages(ORDERS, file)
    with pytest.raises(InvalidSettingError, match="there is such a file"):
        here.admin.export_messages(ORDERS, file)
    there.admin.create_queue("narrow", partitions=1)
    with pytest.raises(InvalidDestinationError, match="has 1 partitions, and in the file they are 2"):
        there.admin.import_messages(file, to="narrow")
    with pytest.raises(InvalidDestinationError, match="is of the queue 'orders', and topic:news is a topic"):
        there.admin.import_messages(file, to=Topic("news"))
    with pytest.raises(FileNotFoundError):
        there.admin.import_messages(file.with_name("none.avro"))


def test_units_that_keep_another_partition_do_so_there(here: Place, there: Place, file: Path) -> None:
    """Of LOG-13 and UNIT-11."""
    with here.context() as jms:
        for unit in "abcdefgh":
            jms.create_producer().send(ORDERS, unit, unit_of_order=unit)
    here.admin.admit_partitions(ORDERS, partitions=5)
    paths = here.admin.unit_paths(ORDERS)
    assert paths
    here.admin.export_messages(ORDERS, file)
    there.admin.import_messages(file)
    assert there.admin.unit_paths(ORDERS) == paths
    assert there.admin.counts(ORDERS).misplaced == 0
    with there.context() as jms:
        for unit in "abcdefgh":
            jms.create_producer().send(ORDERS, f"{unit}2", unit_of_order=unit)
    assert sorted(there.receive_all(ORDERS)) == sorted((f"{unit}{n}", 1) for unit in "abcdefgh" for n in ("", "2"))
    there.admin.create_queue("elsewhere", partitions=5)
    with there.context() as jms:
        jms.create_producer().send(Queue("elsewhere"), "x", unit_of_order="x")
    with pytest.raises(InvalidDestinationError, match="has units in other partitions than the file"):
        there.admin.import_messages(file, to="elsewhere")
