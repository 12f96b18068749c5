"""Where a subscription begins, whatever its process knew of the topic before."""

from __future__ import annotations

import pytest

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.ports import Outgoing
from tests.sidecar.processes import Processes
from tests.sidecar.test_thought_dead import recorded

PRICES = Topic("prices")
KINDS = [
    Subscription(PRICES, SubscriptionKind.DURABLE, "audit", client_id="billing"),
    Subscription(PRICES, SubscriptionKind.SHARED, "workers"),
]


@pytest.mark.parametrize("subscription", KINDS, ids=str)
def test_what_was_sent_before_to_partitions_that_were_added_unheard_of_came_to_a_new_subscription(
    subscription: Subscription,
) -> None:
    """TOPIC-2: it keeps what arrives from the moment when it was made."""
    processes = Processes()
    kafka, one = processes.start()
    assert one.destinations.ensure(PRICES).partitions == 2
    kafka.admin().add_partitions(PRICES.name, 3)
    with processes.cluster.changed:
        processes.cluster.append(Outgoing(PRICES.name, 2, None, b"earlier"), None)
    one.sources.subscribe(subscription)
    assert recorded(one, subscription).begins == (0, 0, 1)
    one.sources.end_use(subscription)
    processes.close()


def test_what_has_ended_is_forgotten() -> None:
    """TOPIC-3: a server whose clients come and go kept a record of each of their subscriptions."""
    processes = Processes()
    _, one = processes.start()
    held, locks = one.claims.subscriptions._records, one.claims.subscriptions._locks
    for number in range(3):
        shared = Subscription(PRICES, SubscriptionKind.SHARED, f"made-up-{number}")
        one.sources.subscribe(shared)
        assert len(held) == 1
        one.sources.end_use(shared)
        assert not held
        assert not locks
    one.sources.subscribe(KINDS[0])
    one.sources.end_use(KINDS[0])
    assert list(held) == [KINDS[0].group_id("")]  # it is there still
    processes.close()
