"""An operator names messages that the owner has not read yet: what is read for that counts as what it reads itself."""

import threading
from collections.abc import Sequence

from jbm_kafka.codec.command_records import Command
from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_log import MemoryRecord
from jbm_kafka.ports import Headers, Outgoing
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.operators.operator_departures import _Errand
from tests.sidecar.parts import channel_of, group_worker_of

AUDIT = Subscription(Topic("orders"), SubscriptionKind.SHARED_DURABLE, "audit", selector="JMSType = 'chosen'")


def taken_in(messages: Sequence[Headers], group: ChannelGroup | None = None) -> tuple[list[int], list[int]]:
    """What the channel holds when all of these are named, read and taken in; and what may be taken out."""
    channel, offsets = channel_of(ChannelState()), range(len(messages))
    operator = group_worker_of(channel, group=group).commands._taking_out
    records = [
        MemoryRecord(Outgoing("orders", 0, None, b"", headers), offset, (1, 1_000))
        for offset, headers in enumerate(messages)
    ]
    command = Command("id", "g", 0, Verb.REMOVE.value, {})
    errand = _Errand(command, channel, Verb.REMOVE, offsets, None, False, lambda _: None, 0)
    operator._take_in(errand, len(messages), records, threading.Event())
    return list(channel.state.unsettled), list(errand.known)


def test_what_another_subscription_has_is_not_taken_in() -> None:
    """TOPIC-1: neither what the selector leaves out, nor what was sent again to another one alone."""
    record = SubscriptionRecord(
        subscription=AUDIT, topic_id="t", incarnation="1", begins=(0,), holders=(), created_ms=0
    )
    group = ChannelGroup.of_subscription(AUDIT, record, namespace="", partitions=1)
    chosen = encode_headers(type="chosen")
    others = [*chosen, ("JBMSubscription", b"another")]
    assert taken_in([encode_headers(type="left out"), others, chosen], group) == ([2], [2])


def test_what_repeats_a_duplicate_id_is_not_taken_in() -> None:
    """SEND-8: where the owner has not come yet the window is asked as well."""
    twice = encode_headers(duplicate_id="once")
    assert taken_in([twice, twice])[0] == [0]
