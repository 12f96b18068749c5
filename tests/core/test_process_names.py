"""What processes are called in Kafka's lists of members."""

import pytest

from jbm_kafka.core.channel.process_names import (
    host_and_id,
    kinds_read_by,
    member_client_id,
    named_process,
    process_name,
)


@pytest.mark.parametrize(
    ("host", "name"),
    [("worker-3", "process 4711 at worker-3"), ("a/b", "process 4711 at a_b"), ("", "process 4711 at ?")],
)
def test_a_member_tells_its_host_and_process(host: str, name: str) -> None:
    assert named_process(member_client_id(host, 4711)) == name


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        ("billing", "jbm-kafka@worker-3/4711+prepared+parked/billing"),
        ("a/b c%", "jbm-kafka@worker-3/4711+prepared+parked/a%2Fb%20c%25"),
        ("größe", "jbm-kafka@worker-3/4711+prepared+parked/gr%C3%B6%C3%9Fe"),
        ("\ud800", "jbm-kafka@worker-3/4711+prepared+parked/%3F"),
    ],
)
def test_a_members_jms_client_id_was_not_to_be_seen_with_kafkas_tools(client_id: str, name: str) -> None:
    assert member_client_id("worker-3", 4711, client_id) == name
    assert named_process(name) == "process 4711 at worker-3"


@pytest.mark.parametrize("client_id", ["rdkafka", "jbm-kafka", "jbm-kafka@worker-3/x", "jbm-kafka@a/1/b/c", ""])
def test_a_client_id_of_somebody_else_tells_no_process(client_id: str) -> None:
    assert named_process(client_id) is None
    assert kinds_read_by(client_id) is None


def test_a_member_tells_which_later_kinds_of_entries_it_reads() -> None:
    """Of ACK-10: an older version, whose name has none of them, reads none."""
    assert kinds_read_by(member_client_id("worker-3", 4711, "a+b")) == frozenset({"prepared", "parked"})
    assert kinds_read_by("jbm-kafka@worker-3/4711/billing") == frozenset()
    assert named_process("jbm-kafka@worker-3/4711/billing") == "process 4711 at worker-3"
    assert kinds_read_by("jbm-kafka@worker-3/4711+prepared+parked+later") == frozenset({"prepared", "parked", "later"})


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (process_name("worker-3", 4711), ("worker-3", 4711)),
        (" worker-3/4711 ", ("worker-3", 4711)),
        ("worker-3", None),
        ("process x at worker-3", None),
    ],
)
def test_a_process_is_named_as_people_read_it_or_shortly(name: str, found: tuple[str, int] | None) -> None:
    assert host_and_id(name) == found
