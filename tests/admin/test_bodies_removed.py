"""Bodies that are kept beside Kafka: which there are, which are named still, and the removal of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Context, Queue, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.admin.bodies.named_bodies import names_in_kafka
from jbm_kafka.client.bodies.folder_store import UNFINISHED
from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.codec.large_body import body_name
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.errors import IllegalStateError, InvalidSettingError, InvalidTypeError, LargeBodyError
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import use_world
from jbm_kafka.registry.readers import renew_reader
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.counted_store import CountedStore

ORDERS, DLQ = Queue("orders"), Queue("DLQ")
TEXT = "a large text, " * 100
DAY_MS = 86_400_000
SETTINGS = {"#": AddressSettings(max_delivery_attempts=1, dead_letter_address="DLQ", partitions=2)}


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def store() -> CountedStore:
    return CountedStore()


@pytest.fixture
def jms(world: MemoryWorld, store: CountedStore) -> Iterator[Context]:
    factory = world.factory(large_bodies=store, large_body_bytes=1_000, address_settings=SETTINGS)
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as made:
        yield made


@pytest.fixture
def admin(world: MemoryWorld, store: CountedStore) -> Iterator[Admin]:
    with Admin(world.url, large_bodies=store) as made:
        yield made


def _left(store: CountedStore, world: MemoryWorld, age_ms: int = 0) -> str:
    """A body that nobody names, as one that was killed leaves it."""
    name = body_name("2026-01-01", world.clock.now_ms() - age_ms, f"{len(store.bodies):032x}")
    store.bodies[name] = b"left"
    return name


def test_bodies_are_listed_oldest_first_and_tell_whether_they_are_named(
    jms: Context, admin: Admin, store: CountedStore, world: MemoryWorld
) -> None:
    """BODY-8: with what each has, and when it was kept; what others lie there is none."""
    left = _left(store, world, DAY_MS)
    store.bodies["notes.txt"] = b"somebody else's"
    jms.create_producer().send(ORDERS, TEXT)
    found = admin.large_bodies()
    assert [(each.size_bytes, each.is_named) for each in found] == [(4, None), (len(TEXT), None)]
    assert found[0].name == left
    assert found[0].kept_at_ms == world.clock.now_ms() - DAY_MS
    assert [each.is_named for each in admin.large_bodies(with_names=True)] == [False, True]
    assert store.gets == []


def test_browsed_messages_and_letters_have_their_bodies(jms: Context, admin: Admin, store: CountedStore) -> None:
    """BODY-2: of operators' calls, fetched when they are looked at."""
    jms.create_producer().send(ORDERS, TEXT)
    (seen,) = admin.browse(ORDERS)
    assert store.gets == []
    assert seen.body == TEXT
    with jms.create_consumer(ORDERS) as consumer:
        message = consumer.receive(timeout=10)
        assert message is not None
        message.reject("wrong")
    ((_, letter),) = admin.dead_letters()
    assert letter.body == TEXT
    admin.retry_dead_letters()
    with jms.create_consumer(ORDERS) as consumer:
        assert consumer.receive_body(str, timeout=10) == TEXT
    assert len(store.bodies) == 1


def test_what_is_moved_exported_and_imported_keeps_its_reference(
    jms: Context, admin: Admin, store: CountedStore, tmp_path: Path
) -> None:
    """BODY-4, BODY-5: and its body is neither fetched nor kept twice."""
    jms.create_producer().send(ORDERS, TEXT)
    admin.create_queue("moved")
    admin.move(ORDERS, "moved", everything=True)
    admin.export_messages("moved", tmp_path / "moved.jbm")
    admin.create_queue("imported")
    admin.import_messages(tmp_path / "moved.jbm", to="imported")
    assert (store.gets, len(store.bodies)) == ([], 1)
    for name in ("moved", "imported"):
        assert [each.body for each in jms.create_browser(Queue(name))] == [TEXT]


def test_what_expires_keeps_its_reference(jms: Context, world: MemoryWorld, store: CountedStore) -> None:
    """BODY-4: at the expiry address."""
    jms.create_producer().send(ORDERS, TEXT, time_to_live_ms=1_000)
    world.clock.advance(2_000)
    with jms.create_consumer(ORDERS) as consumer:
        assert consumer.receive(timeout=0) is None
    world.wait_idle()
    assert [each.body for each in jms.create_browser(Queue("ExpiryQueue"))] == [TEXT]


def test_what_any_record_names_stays_and_the_rest_goes_when_it_is_old(
    jms: Context, admin: Admin, store: CountedStore, world: MemoryWorld
) -> None:
    """BODY-8: waiting, settled or given up; what is younger than a day stays, whoever names it."""
    for _ in range(3):
        jms.create_producer().send(ORDERS, TEXT)
    with jms.create_consumer(ORDERS) as consumer:
        first, second = consumer.receive(timeout=10), consumer.receive(timeout=10)
        assert first is not None
        assert second is not None
        first.acknowledge()
        second.reject("wrong")
    world.wait_idle()
    old, young = _left(store, world, DAY_MS + 1), _left(store, world)
    would = admin.remove_large_bodies(unnamed=True, dry_run=True)
    assert ([each.name for each in would.removed], would.kept, would.removed_bytes) == ([old], 4, 4)
    assert len(store.bodies) == 5
    done = admin.remove_large_bodies(unnamed=True)
    assert [each.name for each in done.removed] == [old]
    assert young in store.bodies
    world.clock.advance(2 * DAY_MS)
    assert [each.name for each in admin.remove_large_bodies(unnamed=True).removed] == [young]
    assert len(store.bodies) == 3
    admin.delete_destination(ORDERS, force=True)
    assert len(admin.remove_large_bodies(unnamed=True).removed) == 2
    assert [each.body for each in jms.create_browser(DLQ)] == [TEXT]


def test_an_aborted_transaction_leaves_what_clean_up_removes(
    world: MemoryWorld, store: CountedStore, admin: Admin
) -> None:
    """BODY-6, BODY-8: nothing names it."""
    factory = world.factory(large_bodies=store, large_body_bytes=1_000)
    with factory.create_context(AcknowledgeMode.TRANSACTED) as jms:
        jms.create_producer().send(ORDERS, TEXT)
        jms.rollback()
    assert admin.remove_large_bodies(unnamed=True).removed == ()
    world.clock.advance(2 * DAY_MS)
    assert len(admin.remove_large_bodies(unnamed=True).removed) == 1
    assert store.bodies == {}


def _of_open_transaction(world: MemoryWorld, name: str) -> None:
    kafka = MemoryKafka(use_world(world.url.removeprefix("memory://")).cluster)
    producer = kafka.transactional_producer("another", transaction_timeout_ms=10**9)
    producer.initialise(10)
    producer.begin()
    producer.produce(Outgoing(ORDERS.name, 0, None, None, [("jbm.large-body", name.encode())]))


def _of_parked_record(world: MemoryWorld, name: str) -> None:
    parked = Parked(7, None, None, (("jbm.large-body", name.encode()),), 1, 1)
    key, value = encode_entry("jbm.queue.orders", parked)
    _write(world, Outgoing(f"{ORDERS.name}.jbm-changelog", 0, key, value))


def _write(world: MemoryWorld, record: Outgoing) -> None:
    with closing(MemoryKafka(use_world(world.url.removeprefix("memory://")).cluster).admin()):
        sender = MemoryKafka(use_world(world.url.removeprefix("memory://")).cluster).sender()
        sender.send(record, None)
        assert sender.flush(20)


@pytest.mark.parametrize("name_it", [_of_open_transaction, _of_parked_record])
def test_what_is_not_in_the_log_for_everybody_is_named_too(
    jms: Context,
    admin: Admin,
    store: CountedStore,
    world: MemoryWorld,
    name_it: Callable[[MemoryWorld, str], None],
) -> None:
    """BODY-8: by an open transaction, by a record that was parked."""
    jms.create_producer().send(ORDERS, "small")
    named, unnamed = _left(store, world, 2 * DAY_MS), _left(store, world, 2 * DAY_MS)
    name_it(world, named)
    assert [each.name for each in admin.remove_large_bodies(unnamed=True).removed] == [unnamed]
    assert named in store.bodies


def test_what_a_prepared_branch_sends_is_named(world: MemoryWorld, store: CountedStore, admin: Admin) -> None:
    """BODY-8: it may be decided much later."""
    factory = XAConnectionFactory(world.url, large_bodies=store, large_body_bytes=1_000)
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        session.tpc_begin(session.xid(1, "t", "b"))
        session.create_producer(ORDERS).send(TEXT)
        session.tpc_prepare()
        unnamed = _left(store, world)
        world.clock.advance(2 * DAY_MS)
        assert [each.name for each in admin.remove_large_bodies(unnamed=True).removed] == [unnamed]
        session.tpc_commit()
    with factory.create_context() as jms:
        assert [each.body for each in jms.create_browser(ORDERS)] == [TEXT]


def test_by_age_all_go_that_are_older(jms: Context, admin: Admin, store: CountedStore, world: MemoryWorld) -> None:
    """BODY-8: whoever needs them; nothing of Kafka is read."""
    jms.create_producer().send(ORDERS, TEXT)
    world.clock.advance(DAY_MS)
    jms.create_producer().send(ORDERS, TEXT)
    done = admin.remove_large_bodies(older_than_s=3_600)
    assert (len(done.removed), done.kept) == (1, 1)
    assert len(store.bodies) == 1


def test_archives_are_asked_for(jms: Context, admin: Admin, store: CountedStore, world: MemoryWorld) -> None:
    """BODY-8: while readers of Spark are registered nobody takes what only they know for unnamed."""
    jms.create_producer().send(ORDERS, "small")
    archived, unnamed = _left(store, world, 2 * DAY_MS), _left(store, world, 2 * DAY_MS)
    reader = RegisteredReader("spark", "orders-archive", ORDERS.name, "id", {0: 0}, 0, 2**53)
    with admin._core.asking("register a reader"):
        renew_reader(admin._core.registry.log, reader)
    with pytest.raises(IllegalStateError, match=r"orders-archive.*named_elsewhere"):
        admin.remove_large_bodies(unnamed=True)
    assert len(store.bodies) == 2
    done = admin.remove_large_bodies(unnamed=True, named_elsewhere=[archived])
    assert [each.name for each in done.removed] == [unnamed]


def test_files_that_were_not_finished_go_too(world: MemoryWorld, tmp_path: Path) -> None:
    """BODY-6, BODY-8: what a process left that was killed while it wrote."""
    name = body_name("2026-01-01", world.clock.now_ms() - 2 * DAY_MS, "0" * 32)
    (tmp_path / "2026-01-01").mkdir()
    (tmp_path / f"{name}{UNFINISHED}").write_bytes(b"half")
    with Admin(world.url, large_bodies=f"file:{tmp_path}") as admin:
        assert len(admin.remove_large_bodies(unnamed=True).removed) == 1
    assert list(tmp_path.iterdir()) == []


def test_many_large_records_are_read_in_steps(jms: Context, world: MemoryWorld, store: CountedStore) -> None:
    """BODY-8: nothing is passed over between two of them."""
    for n in range(250):
        jms.create_producer().send(ORDERS, TEXT if n in (0, 99, 100, 249) else "small", unit_of_order=str(n % 7))
    kafka = MemoryKafka(use_world(world.url.removeprefix("memory://")).cluster)
    with closing(kafka.admin()) as admin, closing(kafka.log_reader()) as reader:
        assert names_in_kafka(admin, reader) == set(store.bodies)


def test_what_does_not_say_which_bodies_is_refused(admin: Admin, world: MemoryWorld) -> None:
    """BODY-8: nothing goes by mistake."""
    with pytest.raises(InvalidSettingError, match="say which bodies"):
        admin.remove_large_bodies()
    with pytest.raises(InvalidSettingError, match="at least 3600"):
        admin.remove_large_bodies(unnamed=True, older_than_s=60)
    with pytest.raises(InvalidSettingError, match="with unnamed=True"):
        admin.remove_large_bodies(older_than_s=60, named_elsewhere=["a"])
    with pytest.raises(InvalidTypeError, match="named_elsewhere"):
        admin.remove_large_bodies(unnamed=True, named_elsewhere="a")
    with pytest.raises(InvalidTypeError, match="each is a str"):
        admin.remove_large_bodies(unnamed=True, named_elsewhere=[5])  # type: ignore[list-item]
    with Admin(world.url) as other, pytest.raises(InvalidSettingError, match="large_bodies"):
        other.large_bodies()


def test_a_store_that_refuses_is_told(admin: Admin, store: CountedStore, world: MemoryWorld) -> None:
    """BODY-8: by its own words."""
    _left(store, world, 2 * DAY_MS)

    def refuse(name: str) -> None:
        raise PermissionError("read only")

    store.remove = refuse  # type: ignore[method-assign]
    with pytest.raises(LargeBodyError, match="read only"):
        admin.remove_large_bodies(older_than_s=0)


def test_tests_of_applications_see_large_bodies(world: MemoryWorld, store: CountedStore) -> None:
    """BODY-2: `world.sent` and `world.dead_letters`."""
    with world.factory(large_bodies=store, large_body_bytes=1_000).create_context() as jms:
        jms.create_producer().send(ORDERS, TEXT)
        assert [each.body for each in world.sent(ORDERS)] == [TEXT]


def test_a_factory_of_other_programs_is_none_of_the_worlds(world: MemoryWorld, store: CountedStore) -> None:
    """BODY-3: of which the body cannot be shown, and is not taken for an empty one."""
    factory = ConnectionFactory(world.url, large_bodies=store, large_body_bytes=1_000)
    with factory.create_context() as jms:
        jms.create_producer().send(ORDERS, TEXT)
        (sent,) = world.sent(ORDERS)
        with pytest.raises(LargeBodyError, match="large_bodies="):
            _ = sent.body
