"""What the registry says of subscriptions, also what another version wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbm_kafka.codec.registry_records import (
    SubscriptionRecord,
    decode_subscription,
    encode_subscription,
    subscription_key,
    subscriptions_in,
)
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.subscription import Subscription, SubscriptionKind

AUDIT = SubscriptionRecord(
    subscription=Subscription(Topic("prices"), SubscriptionKind.DURABLE, "audit", "billing", no_local=True),
    topic_id="t1",
    incarnation="i1",
    begins=(5, 0),
    holders=("jbm.holder.1",),
    created_ms=7,
)
BY_A_VERSION_WITHOUT_SELECTORS = bytes.fromhex(
    "c30104489180c1faa3a70c7072696365730474310e64757261626c650e62696c6c696e670a61756469740001046931040a000002186a626d2e"
    "686f6c6465722e31000e00"
)
"""AUDIT; never written anew."""


@pytest.mark.parametrize("selector", ["", "region = 'EU' AND qty > 10", "name LIKE 'ä!%' ESCAPE '!'"])
def test_a_subscription_is_read_as_it_was_written(selector: str) -> None:
    """Of TOPIC-2: with its selector."""
    record = replace(AUDIT, subscription=replace(AUDIT.subscription, selector=selector))
    assert decode_subscription(encode_subscription(record)) == record


def test_what_a_version_without_selectors_wrote_is_read() -> None:
    assert decode_subscription(BY_A_VERSION_WITHOUT_SELECTORS) == AUDIT


def test_a_selector_that_only_a_newer_version_understands_is_said_so_and_passed_over_in_lists() -> None:
    newer = replace(AUDIT, subscription=replace(AUDIT.subscription, selector="region MATCHES 'E.'"))
    value = encode_subscription(newer)
    with pytest.raises(JMSError, match=r"'audit' has a selector that only a newer jbm-kafka understands: .*column 8"):
        decode_subscription(value)
    values = {subscription_key("g1"): value, subscription_key("g2"): encode_subscription(AUDIT)}
    assert list(subscriptions_in(values)) == [(subscription_key("g2"), AUDIT)]
