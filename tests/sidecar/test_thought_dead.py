"""A process that others thought dead, as one that stood still, hears what they took; what they left it has again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from jbm_kafka.codec.registry_records import (
    ClientRecord,
    SubscriptionRecord,
    client_key,
    decode_client,
    decode_subscription,
    encode_client,
    encode_subscription,
    subscription_key,
)
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidClientIDError
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.ports.link import Link
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.jms.support import eventually
from tests.sidecar.parts import link_of
from tests.sidecar.processes import Processes

PRICES = Topic("prices")
SHARED = Subscription(PRICES, SubscriptionKind.SHARED, "workers")
DURABLE = Subscription(PRICES, SubscriptionKind.DURABLE, "audit", client_id="billing")
KINDS = [SHARED, replace(SHARED, kind=SubscriptionKind.SHARED_DURABLE), DURABLE]
Change = Callable[[SubscriptionRecord, str], SubscriptionRecord]


def registry_of(sidecar: Sidecar) -> RegistryLog:
    return sidecar.claims.client_ids._registry


def recorded(sidecar: Sidecar, subscription: Subscription) -> SubscriptionRecord:
    registry = registry_of(sidecar)
    registry.refresh()
    value = registry.get(subscription_key(subscription.group_id()))
    assert value is not None
    return decode_subscription(value)


def consumer(sidecar: Sidecar, subscription: Subscription) -> Link:
    """What a session does for one."""
    link = link_of(f"{id(sidecar)}")
    sidecar.sources.subscribe(subscription)
    link.notices.on_left = lambda: sidecar.sources.end_use(subscription)
    worker = link.group_worker = sidecar.sources.attach(subscription, link)
    link.is_attached = True
    eventually(lambda: worker.is_settled, "the consumer is not served")
    return link


def forget(processes: Processes, group: str) -> None:
    """The broker hears nothing of the group's one member for its session timeout."""
    processes.cluster.expire_member(group, next(iter(processes.cluster.group(group).members)))


def by_others(record: SubscriptionRecord, other: str) -> SubscriptionRecord:
    return replace(record, incarnation="another", holders=(other,))


def ended(record: SubscriptionRecord, other: str) -> SubscriptionRecord:
    return replace(record, holders=(), is_ending=True)


def write(sidecar: Sidecar, other: Sidecar, subscription: Subscription, change: Change) -> None:
    record = change(recorded(sidecar, subscription), other.claims.holder.ensure())
    registry_of(other).write({subscription_key(subscription.group_id()): encode_subscription(record)})


@pytest.mark.parametrize("subscription", KINDS, ids=str)
def test_a_process_that_was_thought_dead_has_its_subscription_again(
    processes: Processes, subscription: Subscription
) -> None:
    """Of TOPIC-2, TOPIC-3: another process could change it, or end it, under an open consumer."""
    (_, one), (_, other) = processes.start(), processes.start()
    link = consumer(one, subscription)
    found = recorded(one, subscription)
    assert found.holders == (one.claims.holder.name,)
    write(one, other, subscription, lambda record, _: replace(record, holders=()))
    forget(processes, one.claims.holder.name)
    eventually(lambda: recorded(one, subscription) == found, "it holds the subscription no longer")
    assert link.notices.failure is None


@pytest.mark.parametrize("forgotten", ["holder", "member"])
@pytest.mark.parametrize("change", [by_others, ended])
@pytest.mark.parametrize("subscription", KINDS, ids=str)
def test_the_consumer_of_a_subscription_that_others_made_anew_or_ended_hears_so(
    processes: Processes, subscription: Subscription, change: Change, forgotten: str
) -> None:
    """Of TOPIC-2, TOPIC-3, ACK-9: it went on, beside them, and acknowledged what then came to them as new."""
    (_, one), (_, other) = processes.start(), processes.start()
    link = consumer(one, subscription)
    write(one, other, subscription, change)
    forget(processes, one.claims.holder.name if forgotten == "holder" else subscription.group_id())
    eventually(lambda: link.notices.failure is not None, "nobody tells it")
    assert isinstance(link.notices.failure, IllegalStateError)
    assert "was ended or changed by another process" in str(link.notices.failure)
    link.leave()


@pytest.mark.parametrize("forgotten", ["holder", "member"])
def test_the_consumer_of_an_unshared_subscription_that_others_took_hears_so(
    processes: Processes, forgotten: str
) -> None:
    """Of TOPIC-2: two consumers of one unshared subscription, for good."""
    (_, one), (_, other) = processes.start(), processes.start()
    link = consumer(one, DURABLE)
    write(one, other, DURABLE, lambda record, holder: replace(record, holders=(holder,)))
    forget(processes, one.claims.holder.name if forgotten == "holder" else DURABLE.group_id())
    eventually(lambda: link.notices.failure is not None, "nobody tells it")
    assert "has a consumer in another process" in str(link.notices.failure)
    with pytest.raises(IllegalStateError, match="has a consumer"):
        one.sources.subscribe(DURABLE)


def test_a_second_process_cannot_have_an_unshared_subscription_before_the_first_lets_it_go(
    processes: Processes,
) -> None:
    """Of TOPIC-2"""
    (_, one), (_, other) = processes.start(), processes.start()
    link = consumer(one, DURABLE)
    with pytest.raises(IllegalStateError, match="has a consumer in another process"):
        other.sources.subscribe(DURABLE)
    with pytest.raises(IllegalStateError, match=r"in another process.*before unsubscribe"):
        other.sources.unsubscribe("billing", "audit")
    link.leave()
    other.sources.subscribe(DURABLE)


def test_a_connection_whose_client_id_others_took_hears_so(processes: Processes) -> None:
    """Of CONN-2: two connections had it, and neither knew."""
    (_, one), (_, other) = processes.start(), processes.start()
    told: list[InvalidClientIDError] = []
    one.claims.client_ids.hold("billing", "c1", told.append)
    theirs = encode_client(ClientRecord(other.claims.holder.ensure(), "c2"))
    registry_of(other).write({client_key("billing"): theirs})
    forget(processes, one.claims.holder.name)
    eventually(lambda: bool(told), "nobody tells it")
    assert "client id 'billing' is lost" in str(told[0])
    with pytest.raises(InvalidClientIDError, match="a connection of another process has it"):
        one.claims.client_ids.hold("billing", "c3", told.append)
    one.claims.client_ids.release("billing", "c1")
    registry_of(one).refresh()
    assert registry_of(one).get(client_key("billing")) == theirs


def test_a_client_id_that_was_thought_free_is_had_again(processes: Processes) -> None:
    """Of CONN-2: a third one could take it then."""
    _, one = processes.start()
    told: list[InvalidClientIDError] = []
    one.claims.client_ids.hold("billing", "c1", told.append)
    registry_of(one).write({client_key("billing"): None})
    forget(processes, one.claims.holder.name)

    def is_back() -> bool:
        registry_of(one).refresh()
        value = registry_of(one).get(client_key("billing"))
        return value is not None and decode_client(value) == ClientRecord(one.claims.holder.name, "c1")

    eventually(is_back, "it is free still")
    assert not told


def test_a_client_id_that_is_let_go_while_others_are_looked_for_stays_free(processes: Processes) -> None:
    """Of CONN-2: an application that hears of one loss closes all; the id was then nobody's, and in use for good."""
    (_, one), (_, other) = processes.start(), processes.start()
    mine, told = one.claims.client_ids, list[InvalidClientIDError]()

    def close_all(error: InvalidClientIDError) -> None:
        mine.release("orders", "c2")
        told.append(error)

    mine.hold("billing", "c1", close_all)
    mine.hold("orders", "c2", told.append)
    theirs = encode_client(ClientRecord(other.claims.holder.ensure(), "c3"))
    registry_of(other).write({client_key("billing"): theirs})
    forget(processes, one.claims.holder.name)
    eventually(lambda: bool(told) and not one.claims.holder._membership.is_new, "nobody tells it")
    registry_of(other).refresh()
    assert registry_of(other).get(client_key("orders")) is None


def test_who_is_given_a_partition_after_its_last_consumer_closed_holds_nothing_again(processes: Processes) -> None:
    """Of TOPIC-2: the subscription could not be changed or ended before this process was."""
    (_, one), (_, other) = processes.start(), processes.start()
    one.sources.subscribe(DURABLE)
    found = recorded(one, DURABLE)
    one.sources.end_use(DURABLE)
    one.claims.subscriptions.check(DURABLE.group_id(), found.incarnation)
    assert recorded(one, DURABLE).holders == ()
    other.sources.unsubscribe("billing", "audit")


def test_closing_one_of_several_shared_consumers_waits_for_nobody(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    """Of TOPIC-3: it took 15 s, for the others to leave a subscription that had not ended."""
    (_, one), (_, other) = processes.start(), processes.start()
    mine, theirs = consumer(one, SHARED), consumer(other, SHARED)
    mine.leave()
    assert "has members still" not in caplog.text
    assert recorded(other, SHARED).holders == (other.claims.holder.name,)
    assert theirs.notices.failure is None


def test_a_shared_subscription_outlasts_the_latest_of_its_consumers(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    """TOPIC-1, of TOPIC-3: not the last that came, but the last that goes ends it."""
    (_, one), (_, other) = processes.start(), processes.start()
    mine, theirs = consumer(one, SHARED), consumer(other, SHARED)
    theirs.leave()
    found = recorded(one, SHARED)
    assert (found.holders, found.is_ending) == ((one.claims.holder.name,), False)
    assert "has members still" not in caplog.text
    assert mine.notices.failure is None
