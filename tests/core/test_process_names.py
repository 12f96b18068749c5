"""What processes are called in Kafka's lists of members."""

import pytest

from jbm_kafka.core.process_names import member_client_id, named_process


@pytest.mark.parametrize(
    ("host", "name"),
    [("worker-3", "process 4711 at worker-3"), ("a/b", "process 4711 at a_b"), ("", "process 4711 at ?")],
)
def test_a_member_tells_its_host_and_process(host: str, name: str) -> None:
    assert named_process(member_client_id(host, 4711)) == name


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        ("billing", "jbm-kafka@worker-3/4711/billing"),
        ("a/b c%", "jbm-kafka@worker-3/4711/a%2Fb%20c%25"),
        ("größe", "jbm-kafka@worker-3/4711/gr%C3%B6%C3%9Fe"),
        ("\ud800", "jbm-kafka@worker-3/4711/%3F"),
    ],
)
def test_a_members_jms_client_id_was_not_to_be_seen_with_kafkas_tools(client_id: str, name: str) -> None:
    assert member_client_id("worker-3", 4711, client_id) == name
    assert named_process(name) == "process 4711 at worker-3"


@pytest.mark.parametrize("client_id", ["rdkafka", "jbm-kafka", "jbm-kafka@worker-3/x", "jbm-kafka@a/1/b/c", ""])
def test_a_client_id_of_somebody_else_tells_no_process(client_id: str) -> None:
    assert named_process(client_id) is None
