"""Contract: who has a transaction open on a partition; and how Kafka's own records of transactions are read."""

import time
from collections.abc import Callable

import pytest

from jbm_kafka.kafka.transaction_log import RECORDS_AT_ONCE, _parts, recorded, transactional_id_of
from jbm_kafka.ports import FoundTransactions, Kafka, KafkaClientError, Outgoing
from tests.kafka.world import WAIT_S, consume_until, member, producer


def until(find: Callable[[], FoundTransactions], is_so: Callable[[FoundTransactions], bool]) -> FoundTransactions:
    """A commit returns before the coordinator has recorded that every partition has its mark."""
    deadline = time.monotonic() + WAIT_S
    while not is_so(found := find()):
        assert time.monotonic() < deadline, found
    return found


def test_an_open_transaction_is_found_on_the_partitions_it_wrote_to(kafka: Kafka, wide_topic: str) -> None:
    """UNIT-4: the foreign producer whose open transaction delays a partition can be named."""
    name = f"{wide_topic}-shipping"
    before_ms = time.time_ns() // 1_000_000
    writer, log = producer(kafka, name), kafka.transaction_log()
    assert log.open_on(wide_topic, 1) == FoundTransactions((), is_whole=True)
    writer.begin()
    writer.produce(Outgoing(wide_topic, 1, b"joe", b"1"))
    writer.produce(Outgoing(wide_topic, 3, b"ann", b"2"))
    found = until(lambda: log.open_on(wide_topic, 3), lambda found: bool(found.transactions))
    (open_,) = found.transactions
    assert (open_.transactional_id, open_.state, open_.timeout_ms) == (name, "Ongoing", 10_000)
    assert before_ms - 1_000 <= open_.began_at_ms <= time.time_ns() // 1_000_000 + 1_000
    assert [each.producer_id for each in log.open_on(wide_topic, 1).transactions] == [open_.producer_id]
    assert log.open_on(wide_topic, 0).transactions == ()
    writer.commit(WAIT_S)
    until(lambda: log.open_on(wide_topic, 3), lambda found: not found.transactions)
    writer.close()
    log.close()


def test_members_tell_which_partitions_are_theirs(kafka: Kafka, wide_topic: str) -> None:
    group, admin = f"{wide_topic}-group", kafka.admin()
    assert list(admin.members(group, wide_topic)) == []
    first, second = member(kafka, group, wide_topic), member(kafka, group, wide_topic)
    consume_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)

    def shared() -> list[frozenset[int]]:
        return sorted((each.partitions for each in admin.members(group, wide_topic)), key=min)

    consume_until(lambda: all(shared()) and len(shared()) == 2, first, second)
    assert set(shared()) == {first.assignment(), second.assignment()}
    assert {each.partitions for each in admin.members(group, "another")} == {frozenset()}
    assert len({each.member_id for each in admin.members(group, wide_topic)}) == 2
    first.close()
    second.close()


ONGOING = bytes.fromhex(
    "0001" "0000000000000007" "0002" "0000ea60" "01"
    "02" "08" + b"foreign".hex() + "03" "00000001" "00000004" "00"
    "000001a208215b01" "000001a208215b00" "01" "00" "08" "0000000000000000"
)  # fmt: skip
"""Version 1, as a broker of Kafka 4.3.1 wrote one, but for the numbers."""
OLD = bytes.fromhex(
    "0000" "0000000000000007" "0002" "0000ea60" "02"
    "00000001" "0007" + b"foreign".hex() + "00000001" "00000001"
    "000001a208215b01" "000001a208215b00"
)  # fmt: skip
"""Version 0, which brokers before Kafka 3.8 or so wrote."""


def test_records_of_transactions_are_read_as_kafka_writes_them() -> None:
    assert transactional_id_of(b"\x00\x00\x00\x03abc") == "abc"
    new, old = recorded(ONGOING), recorded(OLD)
    assert new is not None
    assert old is not None
    assert (new.producer_id, new.timeout_ms, new.state) == (7, 60_000, 1)
    assert new.partitions == {"foreign": frozenset({1, 4})}
    assert new.began_at_ms == 0x1A208215B00
    assert (old.state, old.partitions, old.began_at_ms) == (2, {"foreign": frozenset({1})}, new.began_at_ms)
    empty = recorded(bytes.fromhex("0001000000000000000700020000ea600000" + "00" * 17))
    assert empty is not None
    assert not empty.partitions


def test_what_is_not_known_of_them_is_passed_over() -> None:
    for key in (None, b"", b"\x00\x00\x00", b"\x00\x01\x00\x03abc"):
        assert transactional_id_of(key) is None
    assert recorded(None) is None
    assert recorded(b"\x00\x02" + ONGOING[2:]) is None
    with pytest.raises(KafkaClientError, match="ends too early"):
        recorded(ONGOING[:40])


def test_no_more_than_some_records_are_read_at_once() -> None:
    sizes = [20_000, 0, 20_000, 20_000, 5, 50_000]
    begins, ends = dict.fromkeys(range(6), 7), {place: 7 + size for place, size in enumerate(sizes)}
    parts = list(_parts(range(6), 1, begins, ends))
    assert [list(part) for part in parts] == [[0, 2], [3, 4], [5]]
    assert all(sum(end - begin for begin, end in part.values()) <= RECORDS_AT_ONCE for part in parts)
