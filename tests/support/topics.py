"""Topics for tests: made with a name of their own, deleted at the end."""

from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.waiting import wait_until

ADMIN_TIMEOUT_S = 30.0
SEEN_S = 120.0
"""A broker that shares its processors with other tests' learned of a topic that it had made after more than 30 s."""


def admin_client(bootstrap: str) -> AdminClient:
    """A client that does not write its connection trouble into the test's output."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create_topic(bootstrap: str, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """Creates the Kafka topic and returns its name once the broker has it."""
    topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    admin = admin_client(bootstrap)  # named, because its futures fail as soon as nobody holds the client
    for future in admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S).values():
        future.result(ADMIN_TIMEOUT_S)
    # A busy broker answers that it is made, and a moment later that it does not know it.
    wait_until(lambda: _is_listed(admin, name), about=f"{name} to be seen", timeout_s=SEEN_S)
    return name


def _is_listed(admin: AdminClient, name: str) -> bool:
    with suppress(KafkaException):  # a client that has just learned of its brokers lets go of those that it was given
        return name in admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
    return False


def delete_topics(bootstrap: str, names: list[str]) -> None:
    """Deletes those that exist; one that is gone already is no error."""
    if not names:
        return
    admin = admin_client(bootstrap)
    for future in admin.delete_topics(names, operation_timeout=ADMIN_TIMEOUT_S).values():
        try:
            future.result(ADMIN_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


def empty_cluster(bootstrap: str) -> None:
    """Deletes every group and every topic but Kafka's own, so that whoever comes next finds a new cluster."""
    admin = admin_client(bootstrap)
    wait_until(lambda: _are_groups_gone(admin), about="groups without members", timeout_s=2 * ADMIN_TIMEOUT_S)
    names = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
    delete_topics(bootstrap, [name for name in names if not name.startswith("__")])


def _are_groups_gone(admin: AdminClient) -> bool:
    """Deletes those that have no members any more: a process that was killed is one for its session timeout."""
    found = admin.list_consumer_groups(request_timeout=ADMIN_TIMEOUT_S).result().valid or []
    for future in (admin.delete_consumer_groups([each.group_id for each in found]) if found else {}).values():
        with suppress(KafkaException):
            future.result(ADMIN_TIMEOUT_S)
    return not found


def delete_topics_beginning_with(bootstrap: str, prefix: str) -> None:
    """Deletes every topic whose name begins so, whoever created it."""
    names = admin_client(bootstrap).list_topics(timeout=ADMIN_TIMEOUT_S).topics
    delete_topics(bootstrap, [name for name in names if name.startswith(prefix)])
