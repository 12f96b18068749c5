"""Goal: the bodies of reliable messages are recorded with the references to them, and come back with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from jbm_kafka.contract import CoreMessage, MessageReference, MessageStore, PersistenceManager, TransactionManager
from jbm_kafka.core.jms_errors import (
    CorruptRecordError,
    IllegalStateError,
    MessageFormatError,
    RoutableNotAcceptedError,
    TransactionRolledBackError,
    UnknownMessageError,
)
from jbm_kafka.local import (
    LocalTransactionManager,
    MemoryMessageStore,
    MemoryPersistenceManager,
    QueueChannel,
    RocksPersistenceManager,
)
from jbm_kafka.local.persistence_managers import Records
from tests.local.parts import Hand, Text

Manager = MemoryPersistenceManager | RocksPersistenceManager


@pytest.fixture(params=["memory", "rocks"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """Both persistence managers keep the same promises."""
    if request.param == "memory":
        yield MemoryPersistenceManager()
        return
    with RocksPersistenceManager(tmp_path) as rocks:
        yield rocks


def queue_over(manager: PersistenceManager, name: str = "q", store: MessageStore | None = None) -> QueueChannel:
    """A queue as a new process would make it: over a new store, unless one is given."""
    store = store or MemoryMessageStore("bodies", persistence_manager=manager)
    return QueueChannel(
        name, message_store=store, persistence_manager=manager, transaction_manager=LocalTransactionManager()
    )


RICH = Text(
    "rich",
    body={"lines": [1, 2.5, None, True], "who": "Änne"},
    is_reliable=True,
    priority=7,
    expiration_ms=9_000_000_000_000,
    unit_of_order="u",
    headers={"a": 1, "raw": b"\x00\xff", "on": True},
)


def test_a_message_comes_back_as_it_was(manager: Manager) -> None:
    """STORE-1: reliable messages go to persistent storage, body and headers."""
    queue = queue_over(manager)
    queue.handle(RICH)
    queue.handle(Text("bytes", body=b"\x00\x01", is_reliable=True))
    queue.handle(Text("nothing", body=None, is_reliable=True))
    queue.handle(Text("passing"))
    back = queue_over(manager).browse()
    assert [(each.message_id, each.body) for each in back] == [
        ("rich", RICH.body),
        ("bytes", b"\x00\x01"),
        ("nothing", None),
    ]
    (rich, *_) = back
    assert (rich.priority, rich.expiration_ms, rich.unit_of_order) == (7, 9_000_000_000_000, "u")
    assert (rich.is_reliable, rich.headers) == (True, RICH.headers)


def test_what_cannot_be_written_is_refused_when_it_is_sent(manager: Manager) -> None:
    """STATE-11: rather than lost at the restart."""
    queue = queue_over(manager)
    for body in ((1, 2), object(), {1: "a"}, float("nan")):
        with pytest.raises(RoutableNotAcceptedError, match="cannot be kept"):
            queue.handle(Text("m", body=body, is_reliable=True))
        with pytest.raises(MessageFormatError, match="cannot be kept"):
            queue.message_store.store(Text("m", body=body, is_reliable=True))
    assert queue.handle(Text("m", body=object()))
    assert [each.message_id for each in queue.browse()] == ["m"]


def test_an_id_that_no_record_can_be_under_is_refused_and_named(manager: Manager) -> None:
    """STATE-11: a lone surrogate was a bare UnicodeEncodeError, in RocksDB only."""
    queue = queue_over(manager)
    with pytest.raises(RoutableNotAcceptedError, match=r"'\\ud800'.*surrogates not allowed"):
        queue.handle(Text("\ud800", is_reliable=True))
    assert queue.handle(Text("\ud800"))


def test_who_sent_it_first_as_unreliable_does_not_make_it_so_after_a_restart(manager: Manager) -> None:
    """STATE-11: its record was left behind for good when it was acknowledged."""
    store = MemoryMessageStore("bodies", persistence_manager=manager)
    queue_over(manager, "one", store).handle(Text("1"))
    queue_over(manager, "two", store).handle(Text("1", is_reliable=True))
    queue = queue_over(manager, "two")
    assert [(each.message_id, each.is_reliable) for each in queue.browse()] == [("1", True)]
    queue.state.update("1", "r", False)
    queue.acknowledge("1", "r")
    assert dict(manager.read("two")) == dict(manager.read("bodies")) == {}


def test_a_body_stays_recorded_until_the_last_channel_is_done_with_it(manager: Manager) -> None:
    """STORE-1: one store serves several channels, before and after a restart."""
    store = MemoryMessageStore("bodies", persistence_manager=manager)
    for name in ("p", "q", "r"):
        queue_over(manager, name, store).handle(RICH)
    for name in ("p", "q", "r"):
        store = MemoryMessageStore("bodies", persistence_manager=manager)
        queue = queue_over(manager, name, store)
        assert [each.body for each in queue.browse()] == [RICH.body]
        queue.add_receiver(Hand("r1", answer=True))
        assert queue.deliver()
        is_left = name != "r"
        assert bool(manager.read("bodies")) == is_left
    with pytest.raises(UnknownMessageError):
        store.retrieve("rich")


def test_nothing_is_recorded_of_a_send_before_its_commit(manager: Manager) -> None:
    """STATE-2, STORE-1: and nothing at all after its rollback."""
    queue = queue_over(manager)
    transactions = queue.transaction_manager
    assert transactions is not None
    for commits in (False, True):
        transactions.begin()
        queue.handle(RICH)
        assert not manager.read("bodies")
        assert not manager.read("q")
        transactions.commit() if commits else transactions.rollback()
        assert bool(manager.read("bodies")) == bool(manager.read("q")) == commits


def test_an_application_that_stores_a_message_itself_owns_what_it_stored(manager: Manager) -> None:
    """STORE-1: its share is recorded at once, and a channel takes a share of its own or, by `add`, this one."""
    queue = queue_over(manager)
    store, transactions = queue.message_store, queue.transaction_manager
    assert transactions is not None
    reference = store.store(RICH)
    queue.handle(reference)
    queue.state.remove("rich")
    assert MemoryMessageStore("bodies", persistence_manager=manager).retrieve("rich").body == RICH.body
    queue.state.add(reference)
    queue.state.remove("rich")
    assert not manager.read("bodies")
    reference = store.store(RICH)
    transactions.begin()
    queue.state.add(reference)
    transactions.rollback()
    assert not manager.read("bodies")
    store.store(RICH)
    store.store(RICH)
    store.remove("rich")
    assert MemoryMessageStore("bodies", persistence_manager=manager).retrieve("rich").body == RICH.body
    store.remove("rich")
    assert not manager.read("bodies")


def test_a_store_takes_what_it_holds_along_to_another_manager(manager: Manager) -> None:
    """STORE-1"""
    store = MemoryMessageStore("bodies", persistence_manager=MemoryPersistenceManager())
    store.store(RICH)
    store.store(RICH)
    store.store(Text("passing"))
    store.persistence_manager = manager
    again = MemoryMessageStore("bodies", persistence_manager=manager)
    again.remove("rich")
    assert again.retrieve("rich").body == RICH.body
    again.remove("rich")
    assert not manager.read("bodies")


def test_a_damaged_body_is_named(manager: Manager) -> None:
    for damaged in (b"{", b"{}", b"[]", b'{"body": 1, "headers": {}}'):
        manager.write("bodies", {"body|m": damaged})
        with pytest.raises(CorruptRecordError, match="no message of a store"):
            MemoryMessageStore("bodies", persistence_manager=manager)
    store = MemoryMessageStore("other", persistence_manager=manager)
    store.store(RICH)
    manager.write("bodies", {"body|m": manager.read("other")["body|rich"]})
    with pytest.raises(CorruptRecordError, match="rich"):
        MemoryMessageStore("bodies", persistence_manager=manager)


def test_a_channel_and_a_store_may_have_one_name(manager: Manager) -> None:
    queue = queue_over(manager, "bodies")
    queue.handle(RICH)
    assert [each.body for each in queue_over(manager, "bodies").browse()] == [RICH.body]


def test_owners_and_keys_are_kept_apart(manager: Manager) -> None:
    manager.write("a", {"b": b"1", "bc": b"2"})
    manager.write("ab", {"c": b"3"})
    manager.write("", {"ab": b"4"})
    assert manager.read("a") == {"b": b"1", "bc": b"2"}
    assert manager.read("ab") == {"c": b"3"}
    assert manager.read("nobody") == {}
    manager.write_all({"a": {"b": None}, "ab": {"d": b"5"}})
    assert (manager.read("a"), manager.read("ab")) == ({"bc": b"2"}, {"c": b"3", "d": b"5"})


def test_a_closed_persistence_manager_says_so(tmp_path: Path) -> None:
    rocks = RocksPersistenceManager(tmp_path, sync=True)
    rocks.write("a", {"b": b"1"})
    rocks.close()
    rocks.close()
    with pytest.raises(IllegalStateError, match="closed"):
        rocks.read("a")
    with RocksPersistenceManager(tmp_path) as again:
        assert again.read("a") == {"b": b"1"}


class Plain:
    """A persistence manager of the application's own, which writes for one owner at a time; fails when told to."""

    is_reliable = True

    def __init__(self) -> None:
        self.written: list[tuple[str, list[str]]] = []
        self.left_to_write = 1_000
        self._inner = MemoryPersistenceManager()

    def write(self, owner_id: str, records: Records, /) -> None:
        if not self.left_to_write:
            raise OSError("disk full")
        self.left_to_write -= 1
        self.written.append((owner_id, [f"{'-' if value is None else '+'}{key}" for key, value in records.items()]))
        self._inner.write(owner_id, records)

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        return self._inner.read(owner_id)


def test_without_joint_writes_bodies_come_before_references_and_go_after_them() -> None:
    """STORE-1: a reference is never without its body."""
    plain = Plain()
    queue = queue_over(plain)
    queue.handle(RICH)
    queue.state.remove("rich")
    key = f"message|{0:019d}"
    assert plain.written == [
        ("bodies", ["+body|rich"]),
        ("q", [f"+{key}"]),
        ("q", [f"-{key}"]),
        ("bodies", ["-body|rich"]),
    ]


def test_a_write_that_fails_halfway_is_a_message_not_taken() -> None:
    """STATE-11: the body alone is left, and is there for the next attempt."""
    plain = Plain()
    queue = queue_over(plain)
    plain.left_to_write = 1
    with pytest.raises(OSError, match="disk full"):
        queue.handle(RICH)
    assert queue.browse() == []
    plain.left_to_write = 1_000
    queue.handle(RICH)
    assert [each.body for each in queue_over(plain).browse()] == [RICH.body]
    plain.left_to_write = 0
    with pytest.raises(OSError, match="disk full"):
        queue.message_store.store(Text("n", is_reliable=True))
    with pytest.raises(UnknownMessageError):
        queue.message_store.retrieve("n")


class Foreign:
    """A message store of the application's own."""

    persistence_manager: PersistenceManager | None = None
    transaction_manager: TransactionManager | None = None
    is_reliable = True
    is_transactional = False
    store_id = "foreign"

    def __init__(self) -> None:
        self._inner = MemoryMessageStore("foreign", persistence_manager=MemoryPersistenceManager())

    def store(self, message: CoreMessage, /) -> MessageReference:
        return self._inner.store(message)

    def retrieve(self, message_id: str, /) -> CoreMessage:
        return self._inner.retrieve(message_id)

    def remove(self, message_id: str, /) -> None:
        self._inner.remove(message_id)


def test_a_store_of_the_application_s_own_keeps_bodies_as_the_contract_says() -> None:
    """STORE-1"""
    store, manager = Foreign(), MemoryPersistenceManager()
    queue = queue_over(manager, store=store)
    transactions = queue.transaction_manager
    assert transactions is not None
    with transactions.transaction():
        queue.handle(RICH)
    assert [each.body for each in queue_over(manager, store=store).browse()] == [RICH.body]
    queue.state.remove("rich")
    with pytest.raises(UnknownMessageError):
        store.retrieve("rich")


class Failing(MemoryPersistenceManager):
    """Fails to write while it is told to."""

    is_failing = False

    def write_all(self, records: Mapping[str, Records], /) -> None:
        if self.is_failing:
            raise OSError("disk full")
        super().write_all(records)


def test_a_transaction_over_two_channels_is_one_write() -> None:
    """STATE-2, STATE-7: when that fails nothing of it happened, on neither."""
    manager, transactions = Failing(), LocalTransactionManager()
    store = MemoryMessageStore("bodies", persistence_manager=manager)
    source, target = (
        QueueChannel(name, message_store=store, persistence_manager=manager, transaction_manager=transactions)
        for name in ("source", "target")
    )
    source.add_receiver(Hand("r1"))
    source.handle(Text("m", is_reliable=True))
    source.deliver()
    transactions.begin()
    target.handle(RICH)
    source.acknowledge("m", "r1")
    manager.is_failing = True
    with pytest.raises(TransactionRolledBackError, match="disk full"):
        transactions.commit()
    assert source.state.nacks("m") == {"r1"}
    assert target.browse() == []
    manager.is_failing = False
    assert [each.message_id for each in queue_over(manager, "source").browse()] == ["m"]
    assert queue_over(manager, "target").browse() == []
