"""A queue is deleted with everything that is kept of it: on a Kafka and in a world in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.destination import CHANGELOG_SUFFIX
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    InvalidDestinationError,
)
from jbm_kafka.ports import KafkaAdmin
from tests.jms.support import eventually, receive, send

UNITS = [f"unit-{n}" for n in range(12)]


@pytest.fixture
def namespace(kafka_name: str) -> str:
    """Of this test alone."""
    return f"n{kafka_name[-8:]}"


@pytest.fixture
def admin(url: str, namespace: str) -> Iterator[Admin]:
    with Admin(url, namespace=namespace) as made:
        yield made


@pytest.fixture
def settings(url: str, namespace: str, tmp_path: Path) -> dict[str, Any]:
    """Of a factory whose local state stays between its connections."""
    found: dict[str, Any] = {"namespace": namespace, "auto_create": False}
    if not url.startswith("memory"):
        found["state_dir"] = str(tmp_path / "state")
    return found


def use(url: str, queue: Queue, settings: dict[str, Any]) -> None:
    """Leaves a delayed attempt, a message settled above it, and one that nobody received."""
    with (
        ConnectionFactory(url, **settings).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        for body in ("back", "done", "behind"):
            send(session, queue, body, unit="joe" if body != "done" else "ann")
        consumer = session.create_consumer(queue)
        receive(consumer).nack(delay_ms=600_000)
        receive(consumer).acknowledge()


def test_a_queue_that_is_made_anew_knows_nothing_of_the_deleted_one(
    url: str, admin: Admin, cluster: KafkaAdmin, settings: dict[str, Any], kafka_name: str
) -> None:
    queue = Queue(kafka_name)
    admin.create_queue(kafka_name, partitions=1)
    use(url, queue, settings)
    assert admin.counts(queue).retried == 1

    would = admin.delete_destination(queue, dry_run=True)
    assert admin.exists(queue)
    report = admin.delete_destination(queue)
    namespace = settings["namespace"]
    assert report.topics == [kafka_name, f"{namespace}.{kafka_name}{CHANGELOG_SUFFIX}"]
    assert report.groups == [queue.group_id(namespace)]
    assert (report.registry, report.held, report.receivers, report.kept) == (f"{namespace}.jbm.registry", 2, 0, [])
    assert [would.topics, would.groups, would.registry, would.held] == [
        report.topics, report.groups, report.registry, report.held,
    ]  # fmt: skip
    assert (would.is_dry_run, report.is_dry_run) == (True, False)
    assert not cluster.topic_names() & set(report.topics)
    assert queue.group_id(namespace) not in cluster.groups()
    with pytest.raises(InvalidDestinationError, match="there is no such queue in namespace"):
        admin.delete_destination(queue)

    admin.create_queue(kafka_name, partitions=2)
    counts = admin.counts(queue)
    assert (counts.held, counts.retried, counts.delayed, len(counts.partitions)) == (0, 0, 0, 2)
    with (
        ConnectionFactory(url, **settings).create_connection() as connection,
        connection.create_session(AcknowledgeMode.CLIENT) as session,
    ):
        for number in range(3):
            send(session, queue, str(number), unit="joe")
        consumer = session.create_consumer(queue)
        for number in range(3):
            message = receive(consumer)
            assert (message.body, message.delivery_count, message.redelivered) == (str(number), 1, False)
            message.acknowledge()


def test_who_sent_before_sends_to_the_new_queue(
    url: str, admin: Admin, settings: dict[str, Any], kafka_name: str
) -> None:
    queue = Queue(kafka_name)
    admin.create_queue(kafka_name, partitions=2)
    with ConnectionFactory(url, **settings).create_connection() as connection:
        session = connection.create_session()
        with session.create_producer(queue) as producer:
            producer.send("old", unit_of_order="joe")
            admin.delete_destination(queue)
            with pytest.raises(InvalidDestinationError):
                producer.send("lost", unit_of_order="joe")
            admin.create_queue(kafka_name, partitions=1)
            producer.send("new", unit_of_order="joe")
        assert receive(session.create_consumer(queue)).body == "new"


def test_a_queue_in_use_stays_unless_it_is_forced(
    url: str, admin: Admin, settings: dict[str, Any], kafka_name: str
) -> None:
    queue = Queue(kafka_name)
    admin.create_queue(kafka_name, partitions=1)
    with ConnectionFactory(url, **settings).create_connection() as connection:
        session = connection.create_session()
        send(session, queue, "a")
        with session.create_consumer(queue) as consumer:
            assert receive(consumer).body == "a"
            for dry_run in (True, False):
                with pytest.raises(
                    IllegalStateError,
                    match=r"1 process receives from it .*; stop them first \(one that was killed counts for its "
                    r"session timeout still, 10 s unless it sets another\), or delete it with force=True",
                ):
                    admin.delete_destination(queue, dry_run=dry_run)
            assert admin.exists(queue)
            report = admin.delete_destination(queue, force=True)
            assert (report.receivers, report.groups) == (1, [])
            assert not admin.exists(queue)


def test_a_deletion_right_after_closing_was_refused_because_a_process_receives(
    admin: Admin, kafka_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group is told of who leaves, and a moment later its members are one less."""
    admin.create_queue(kafka_name, partitions=1)
    members = [1, 1, 0]
    group = Queue(kafka_name).group_id(admin._core.namespace)
    monkeypatch.setattr(admin._core.admin, "groups", lambda: {group} if members else set())
    monkeypatch.setattr(admin._core.admin, "group_members", lambda _: members.pop(0))
    monkeypatch.setattr(admin._core.admin, "delete_groups", lambda _: None)
    report = admin.delete_destination(kafka_name)
    assert (report.receivers, members) == (0, [])


def test_a_queue_of_another_namespace_stays_unless_it_is_forced(
    url: str, admin: Admin, cluster: KafkaAdmin, settings: dict[str, Any], kafka_name: str
) -> None:
    """The Kafka topic is the same: who deleted a queue of the test installation would have deleted the other's."""
    queue, theirs = Queue(kafka_name), f"{settings['namespace']}-x"
    admin.create_queue(kafka_name, partitions=1)
    use(url, queue, settings)
    use(url, queue, {"namespace": theirs})
    assert admin.delete_destination(queue, dry_run=True).is_topic_kept
    report = admin.delete_destination(queue, force=True)
    assert kafka_name in report.topics
    assert f"{theirs}.{kafka_name}{CHANGELOG_SUFFIX}" in cluster.topic_names()
    with Admin(url, namespace=theirs) as other:
        rest = other.delete_destination(queue)
    assert rest.topics == [f"{theirs}.{kafka_name}{CHANGELOG_SUFFIX}"]


def test_what_a_worker_left_in_a_wrong_namespace_goes_and_the_topic_stays(
    url: str, admin: Admin, cluster: KafkaAdmin, settings: dict[str, Any], namespace: str, kafka_name: str
) -> None:
    """The topic of the installation in use was listed first, and force, which deletes it, was advised."""
    queue, wrong = Queue(kafka_name), f"{namespace}-x"
    admin.create_queue(kafka_name, partitions=1)
    use(url, queue, settings)
    use(url, queue, {"namespace": wrong})
    with pytest.raises(IllegalStateError, match=f"is removed with: jbm-kafka delete {kafka_name} --namespace {wrong}$"):
        admin.admit_partitions(queue, partitions=2, wait_s=0)
    held = admin.counts(queue).held

    with Admin(url, namespace=wrong) as other:
        would = other.delete_destination(queue, dry_run=True)
        report = other.delete_destination(queue)
        assert (report.topics, report.groups) == (would.topics, would.groups)
        with pytest.raises(InvalidDestinationError, match=rf"nothing is left of one; kept: topic {kafka_name}: queue"):
            other.delete_destination(queue)
    assert report.topics == [queue.changelog_topic(wrong)]
    assert report.groups == [queue.group_id(wrong)]
    assert (report.registry, report.held) == (f"{wrong}.jbm.registry", 0)
    shared = f"topic {kafka_name}: {queue} of namespace {namespace!r} uses it, too; it goes for all of them if forced"
    assert report.kept == [shared]
    assert queue.group_id(wrong) not in cluster.groups()
    assert (admin.counts(queue).held, admin.counts(queue).retried) == (held, 1), "nothing of ours was touched"
    assert admin.admit_partitions(queue, partitions=2, wait_s=0) == (1, 2)


def test_a_topic_that_is_no_queue_of_ours_stays_unless_it_is_forced(
    admin: Admin, cluster: KafkaAdmin, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, partitions=1, config={})
    with pytest.raises(InvalidDestinationError, match="so it is not a queue that jbm-kafka made or received from"):
        admin.delete_destination(kafka_name)
    assert admin.delete_destination(kafka_name, force=True).topics == [kafka_name]


def test_a_changelog_that_is_another_queues_too_stays(
    url: str, admin: Admin, cluster: KafkaAdmin, settings: dict[str, Any], kafka_name: str
) -> None:
    """`shop.orders`, and `orders` in the namespace `shop`: one changelog, whose entries tell whose they are."""
    namespace = settings["namespace"]
    long, short = Queue(f"{namespace}.{kafka_name}"), Queue(kafka_name)
    admin.create_queue(kafka_name, partitions=1)
    use(url, short, settings)
    with Admin(url) as without:
        without.create_queue(long.name, partitions=1)
        changelog = long.changelog_topic()
        assert changelog == short.changelog_topic(namespace)
        report = without.delete_destination(long)
    assert report.topics == [long.name]
    assert report.kept == [f"topic {changelog}: it is the changelog of {short} in namespace {namespace!r} too"]
    assert changelog in cluster.topic_names()
    assert admin.counts(short).retried == 1


def test_a_topic_with_subscriptions_stays_unless_it_is_forced(
    url: str, admin: Admin, settings: dict[str, Any], kafka_name: str
) -> None:
    """Its subscribers are in groups of their own: nobody seemed to receive from it."""
    with ConnectionFactory(url, **{**settings, "auto_create": True}).create_connection() as connection:
        session = connection.create_session()
        with session.create_shared_durable_consumer(session.create_topic(kafka_name), "audit"):
            pass
        with pytest.raises(IllegalStateError, match=r"it is a JMS topic with subscriptions .'audit'.; end them first"):
            admin.delete_destination(kafka_name)
        session.unsubscribe("audit")
        assert kafka_name in admin.delete_destination(kafka_name).topics
    admin.create_queue(kafka_name, partitions=1)  # a name is a queue or a topic: nothing says that this is one
    with ConnectionFactory(url, **settings).create_context() as jms:
        jms.create_producer().send(Queue(kafka_name), "a")


def test_nothing_is_left_of_a_topic_that_is_deleted_with_its_subscriptions(
    url: str, admin: Admin, cluster: KafkaAdmin, settings: dict[str, Any], namespace: str, kafka_name: str
) -> None:
    """TOPIC-2: forced; topics, groups, and the registry's records of paths, pauses, kinds and subscriptions."""
    admin.create_topic(kafka_name, partitions=2)
    with ConnectionFactory(url, **settings).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        topic = session.create_topic(kafka_name)
        with session.create_shared_durable_consumer(topic, "ended") as ended:
            session.create_shared_durable_consumer(topic, "audit").close()
            for unit in UNITS:
                send(session, topic, "a", unit=unit)
            receive(ended).acknowledge()
        session.unsubscribe("ended")
        with session.create_consumer(topic) as plain:
            send(session, topic, "b")
            receive(plain).acknowledge()
        admin.admit_partitions(topic, partitions=5, wait_s=0)
        assert admin.unit_paths(topic)
        admin.pause(topic, "consumption", wait_s=0)
    eventually(lambda: not any(cluster.group_members(group) for group in ours(cluster, namespace)), "all have left")
    would = admin.delete_destination(kafka_name, force=True, dry_run=True)
    report = admin.delete_destination(kafka_name, force=True)
    assert (would.topics, would.groups, report.kept) == (report.topics, report.groups, [])
    assert report.groups == [f"{namespace}.jbm.shared-durable..audit"]
    admin._core.registry.refresh()
    left = [
        key
        for key in admin._core.registry.log.values()
        if kafka_name.encode() in key or b"audit" in key or b"ended" in key
    ]
    assert (left, ours(cluster, namespace)) == ([], set())
    assert not {name for name in cluster.topic_names() if kafka_name in name}
    assert admin.subscriptions() == []
    with pytest.raises(InvalidDestinationError, match="nothing is left of one"):
        admin.delete_destination(kafka_name)


def ours(cluster: KafkaAdmin, namespace: str) -> set[str]:
    return {group for group in cluster.groups() if group.startswith(f"{namespace}.jbm.") and ".holder." not in group}


def test_a_topic_that_was_named_as_a_queue_was_deleted(admin: Admin, kafka_name: str) -> None:
    admin.create_topic(kafka_name, partitions=1)
    with pytest.raises(InvalidDestinationError, match=f"'{kafka_name}' is a topic, not a queue; use Topic"):
        admin.delete_destination(Queue(kafka_name))
    assert admin.exists(kafka_name)
    admin.delete_destination(kafka_name)
    assert not admin.exists(kafka_name)
