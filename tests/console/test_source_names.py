"""The console asks for a subscription by the names that its full name is made of."""

import pytest

from jbm_kafka import Topic
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.core.subscription import Subscription, SubscriptionKind


@pytest.mark.parametrize("client_id", ["", "billing", "a/b%2F"])
@pytest.mark.parametrize("name", ["audit", "x/y", "50%"])
def test_names_may_have_slashes(client_id: str, name: str) -> None:
    """A view of such a subscription, or of a message's life in it, asked for another one."""
    kind = SubscriptionKind.DURABLE if client_id else SubscriptionKind.SHARED_DURABLE
    full_name = Subscription(Topic("prices"), kind, name, client_id).full_name
    found = SourceName.named("prices", full_name)
    assert (found.name, found.subscription, found.client_id) == ("prices", name, client_id)


def test_a_queue_has_no_subscription() -> None:
    assert SourceName.named("orders", "") == SourceName(name="orders")
