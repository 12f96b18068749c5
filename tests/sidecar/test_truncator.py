"""Goal: what is settled leaves the log, and nothing that anybody still needs does.

Method: whole sidecars, step by step, over a Kafka in memory; the log itself is looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.codec.settings_record import SettingsRecord, encode_settings, settings_key
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import CommittedOffset
from jbm_kafka.registry.readers import keep_original, renew_reader
from tests.sidecar.stepped import QUEUE, SteppedSidecar
from tests.support.manual_clock import ManualClock

SETTLED = AddressSettings(truncate="settled")
LONG_MS = 45_000
"""Two looks."""
Act = Callable[[SteppedSidecar], None]


def settled_ten(settings: AddressSettings | None = SETTLED, before: Act = lambda one: None) -> int:
    """Ten messages, of which all but the one at offset 7 are acknowledged; where the log begins two looks later."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    one = SteppedSidecar("one", cluster, settings=settings)
    link = one.attach("s")
    one.send(*"0123456789")
    taken = one.deliveries(link, 10)
    before(one)
    for delivery in taken:
        if delivery.offset != 7:
            delivery.lease.acknowledge(delivery.offset)
    return begin_after_looks(one)


def begin_after_looks(one: SteppedSidecar) -> int:
    one.run_for(LONG_MS)
    one.crash()
    with one.cluster.changed:
        return one.cluster.log(QUEUE.name, 0).begin


def topic_id(one: SteppedSidecar) -> str:
    return one.cluster.topics[QUEUE.name].topic_id


def with_a_reader(one: SteppedSidecar) -> None:
    registry = one.sidecar.destinations._registry
    renew_reader(registry, RegisteredReader("spark", "q", QUEUE.name, topic_id(one), {0: 3}, 0, 2**50))


def with_a_kept_original(one: SteppedSidecar) -> None:
    keep_original(one.sidecar.destinations._registry, QUEUE.name, topic_id(one), 0, 2)


def with_a_group(one: SteppedSidecar) -> None:
    one.kafka.admin().alter_offsets("theirs", QUEUE.name, {0: CommittedOffset(4, "")})


def with_numbers_that_are_no_positions(one: SteppedSidecar) -> None:
    """Of what is parked, here and in another namespace, and a producer's mark."""
    for group in ("jbm.queue.orders.parked", "shop.jbm.queue.orders.parked", "shop.jbm.f.0.mark"):
        one.kafka.admin().alter_offsets(group, QUEUE.name, {0: CommittedOffset(4, "")})


def with_a_group_of_a_like_name(one: SteppedSidecar) -> None:
    one.kafka.admin().alter_offsets("theirs.mark", QUEUE.name, {0: CommittedOffset(4, "")})


def with_a_share_group(one: SteppedSidecar) -> None:
    one.cluster.faults.share_groups = frozenset({"sharers"})


def with_hidden_groups(one: SteppedSidecar) -> None:
    one.cluster.faults.hides_groups = True


@pytest.mark.parametrize(
    ("before", "begin"),
    [
        (lambda one: None, 7),
        (with_a_reader, 3),
        (with_a_kept_original, 2),
        (with_a_group, 4),
        (with_numbers_that_are_no_positions, 7),
        (with_a_group_of_a_like_name, 4),
        (with_a_share_group, 0),
        (with_hidden_groups, 0),
    ],
    ids=[
        "nobody else",
        "a reader",
        "a kept original",
        "another group",
        "numbers that are no positions",
        "another of a like name",
        "a share group",
        "groups that are not seen",
    ],
)
def test_what_nobody_needs_any_more_is_deleted(before: Act, begin: int) -> None:
    """Of LOG-4, of REDELIVER-4: up to the first message that is not settled, or that somebody has not read."""
    assert settled_ten(before=before) == begin


def test_nothing_is_deleted_where_the_setting_says_never() -> None:
    """Of LOG-4."""
    assert settled_ten(AddressSettings(truncate="never")) == 0


def test_without_a_setting_what_we_made_is_deleted() -> None:
    """LOG-4."""
    assert settled_ten(None) == 7


def test_what_others_made_is_deleted_only_where_the_setting_asks_for_it() -> None:
    """LOG-4."""

    def begin(settings: AddressSettings | None) -> int:
        cluster = MemoryCluster(ManualClock(), waits=False)
        cluster.create_topic(QUEUE.name, 1, {})
        one = SteppedSidecar("one", cluster, settings=settings)
        link = one.attach("s")
        one.send(*"012")
        for delivery in one.deliveries(link, 3):
            delivery.lease.acknowledge(delivery.offset)
        return begin_after_looks(one)

    assert begin(None) == 0
    assert begin(AddressSettings(truncate="settled")) == 3


def test_a_setting_that_comes_while_programs_run_is_gone_by() -> None:
    """LOG-4."""
    assert settled_ten(AddressSettings(truncate="never"), record_settled) == 7


def record_settled(one: SteppedSidecar) -> None:
    record = SettingsRecord(AddressSettings(truncate="settled"))
    one.sidecar.destinations._registry.write({settings_key(QUEUE.name): encode_settings(record)})
