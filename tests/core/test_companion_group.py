"""The number of parked messages beside the changelog: when it counts, and which groups have it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset
from jbm_kafka.core.channel.companion_group import (
    NUMBERS_APART_MAX,
    companion_of,
    is_companion,
    lost_of,
    lost_remedy,
    lost_text,
    parked_at,
)
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind

PRICES = Topic("prices")


@pytest.mark.parametrize(
    ("noted", "latest", "count"),
    [
        ("jbm.a.0:7", "jbm.a.0:7", 3),
        ("jbm.a.0:7", "jbm.a.0:900", 3),
        ("jbm.a.0:7", f"jbm.a.0:{NUMBERS_APART_MAX + 7}", 3),
        ("jbm.a.0:7", f"jbm.a.0:{NUMBERS_APART_MAX + 8}", None),
        ("jbm.a.0:7", "jbm.b.0:900", None),
        ("jbm.a.0:7", "jbm.a.0:6", None),
        ("jbm.a.0:7", "", None),
        ("", "jbm.a.0:7", None),
    ],
    ids=[
        "of that checkpoint",
        "of one before it",
        "an hour before it",
        "of a run before",
        "another process wrote since",
        "a checkpoint since, that the reader has not seen",
        "an operator's reset",
        "an operator's number",
    ],
)
def test_the_number_counts_as_of_the_run_that_wrote_it(noted: str, latest: str, count: int | None) -> None:
    """Of LOG-11: a version that writes none, in between, parks and settles without saying so."""
    assert parked_at(CommittedOffset(3, noted), latest) == count


def test_without_a_number_nobody_knows() -> None:
    assert parked_at(None, "jbm.a.0:7") is None


@pytest.mark.parametrize("namespace", ["", "shop", "jbm.queue"])
@pytest.mark.parametrize(
    "source",
    [
        Queue("orders.parked"),
        Subscription(PRICES, SubscriptionKind.DURABLE, "audit.parked", client_id="billing"),
        Subscription(PRICES, SubscriptionKind.SHARED_DURABLE, "audit"),
        Subscription(PRICES, SubscriptionKind.SHARED, "parked"),
    ],
    ids=str,
)
def test_a_companion_is_told_from_every_other_group(source: Queue | Subscription, namespace: str) -> None:
    group = source.group_id(namespace)
    assert (is_companion(companion_of(group)), is_companion(group)) == (True, False)


@pytest.mark.parametrize("name", ["theirs.parked", "jbm.parked", "jbm.queue.parked", "jbm.holder.a.parked", "parked"])
def test_what_another_program_calls_parked_is_its_own(name: str) -> None:
    """What lies behind its offsets is kept for it."""
    assert not is_companion(name)


@pytest.mark.parametrize(
    ("counts", "lost"), [([], 0), ([0, 0], 0), ([0, None], None), ([2, None, 1], 3), ([None], None)]
)
def test_of_several_partitions_what_is_known_counts(counts: Sequence[int | None], lost: int | None) -> None:
    assert lost_of(counts) == lost


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "is not known"), (1, "lacks 1 message that was parked"), (2, "lacks 2 messages that were parked")],
)
def test_a_loss_is_told_with_its_number_and_the_way_on(count: int | None, said: str) -> None:
    """Of LOG-11."""
    assert said in lost_text("orders.jbm-changelog", "jbm.queue.orders", count)
    assert "delete the group jbm.queue.orders.parked" in lost_remedy("jbm.queue.orders")
