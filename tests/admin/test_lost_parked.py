"""What `explain`, `show` and counts say where a changelog is gone in which messages were parked (LOG-11)."""

from __future__ import annotations

import json

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.cli.explain import _show
from jbm_kafka.cli.queues import _list_beside, _summary
from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.ports import CommittedOffset
from tests.jms.support import receive

NOT_HELD = "nothing is held"


@pytest.fixture
def url(kafka_name: str) -> str:
    return f"memory://{kafka_name}"


@pytest.fixture
def orders(admin: Admin, url: str, kafka_name: str) -> Queue:
    """A queue of which everything is settled or parked, and whose changelog is gone."""
    admin.create_queue(kafka_name, partitions=1)
    orders = Queue(kafka_name)
    with (
        ConnectionFactory(url, namespace=kafka_name).create_connection() as connection,
        connection.create_session(AcknowledgeMode.CLIENT) as session,
    ):
        session.create_producer(orders).send("1")
        receive(session.create_consumer(orders)).acknowledge()
    admin._core.admin.delete_topics([orders.changelog_topic(kafka_name)])
    return orders


def note(admin: Admin, orders: Queue, count: int) -> str:
    """So many are parked, as the companion group says; its name."""
    client, group = admin._core.admin, orders.group_id(orders.name)
    latest = client.committed(group, orders.name, [0])[0].metadata
    client.alter_offsets(companion_of(group), orders.name, {0: CommittedOffset(count, latest)})
    return companion_of(group)


def test_nothing_was_said_to_be_held_where_it_was_lost(
    admin: Admin, orders: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    """LOG-11."""
    companion = note(admin, orders, 2)
    found = admin.explain(orders)
    (why,) = [each for each in found.reasons if each.rule is Rule.PARKED_LOST]
    assert "lacks 2 messages that were parked there" in why.text
    assert f"delete the group {companion} with kafka-consumer-groups.sh --delete" in why.remedy
    _show(found, is_all=True, log=None)
    assert NOT_HELD not in capsys.readouterr().out
    asked = admin.explain(orders, message_id="ID:1:1")
    assert Rule.NOT_HELD not in [each.rule for each in asked.reasons]
    counts = admin.counts(orders)
    assert (counts.held, counts.parked_lost, counts.has_changelog) == (0, 2, False)
    assert json.loads(json.dumps(_summary(counts)))["parked_lost"] == 2
    _list_beside(counts)
    assert f"parked messages that its changelog has lost: 2; jbm-kafka explain {orders.name}" in capsys.readouterr().out


def test_how_many_were_lost_is_not_known(admin: Admin, orders: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    """LOG-11: of older versions, and where nothing was parked."""
    found = admin.explain(orders)
    (why,) = [each for each in found.reasons if each.rule is Rule.PARKED_LOST]
    assert "is not known" in why.text
    assert not why.remedy
    counts = admin.counts(orders)
    assert counts.parked_lost is None
    _list_beside(counts)
    assert "lost: an unknown number" in capsys.readouterr().out


def test_none_was_parked(admin: Admin, orders: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    """LOG-11."""
    note(admin, orders, 0)
    found = admin.explain(orders)
    assert Rule.PARKED_LOST not in [each.rule for each in found.reasons]
    _show(found, is_all=True, log=None)
    assert NOT_HELD in capsys.readouterr().out
    assert admin.counts(orders).parked_lost == 0


def test_the_number_goes_with_its_queue(admin: Admin, orders: Queue) -> None:
    """Of LOG-11: of a queue that is made anew it says nothing."""
    companion = note(admin, orders, 2)
    would = admin.delete_destination(orders, force=True, dry_run=True)
    report = admin.delete_destination(orders, force=True)
    assert would.groups == report.groups == [orders.group_id(orders.name), companion]
    assert companion not in admin._core.admin.groups()


@pytest.mark.parametrize("ends", ["by a subscriber", "by its topic's end"])
def test_the_number_goes_with_its_subscription(admin: Admin, url: str, kafka_name: str, ends: str) -> None:
    """Of LOG-11."""
    topic = Topic(kafka_name)
    admin.create_topic(kafka_name, partitions=1)
    with (
        ConnectionFactory(url, namespace=kafka_name, client_id="billing").create_connection() as connection,
        connection.create_session(AcknowledgeMode.CLIENT) as session,
    ):
        consumer = session.create_durable_consumer(topic, "audit")
        session.create_producer(topic).send("1")
        receive(consumer).acknowledge()
        consumer.close()
        group = f"{kafka_name}.jbm.durable.billing.audit"
        client = admin._core.admin
        client.alter_offsets(companion_of(group), kafka_name, {0: CommittedOffset(2, "")})
        if ends == "by a subscriber":
            session.unsubscribe("audit")
    if ends != "by a subscriber":
        report = admin.delete_destination(topic, force=True)
        assert companion_of(group) in report.groups
    assert not {group, companion_of(group)} & client.groups().keys()


def test_no_companion_is_listed_as_one_of_ours(admin: Admin, orders: Queue) -> None:
    assert companion_of(orders.group_id(orders.name)) == note(admin, orders, 2)
    assert [each.name for each in admin.destinations()] == [
        orders.name, f"{orders.name}.DLQ", f"{orders.name}.ExpiryQueue",
    ]  # fmt: skip
    assert admin.counts(orders).group == orders.group_id(orders.name)
    assert not admin.subscriptions()
