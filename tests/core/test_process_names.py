"""What processes are called in Kafka's lists of members."""

import pytest

from jbm_kafka.core.process_names import member_client_id, named_process


@pytest.mark.parametrize(
    ("host", "name"),
    [("worker-3", "process 4711 at worker-3"), ("a/b", "process 4711 at a_b"), ("", "process 4711 at ?")],
)
def test_a_member_tells_its_host_and_process(host: str, name: str) -> None:
    assert named_process(member_client_id(host, 4711)) == name


@pytest.mark.parametrize("client_id", ["rdkafka", "jbm-kafka", "jbm-kafka@worker-3/x", ""])
def test_a_client_id_of_somebody_else_tells_no_process(client_id: str) -> None:
    assert named_process(client_id) is None
