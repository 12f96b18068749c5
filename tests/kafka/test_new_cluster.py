"""The first questions that a cluster is ever asked."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from jbm_kafka.kafka import ConfluentKafka
from tests.support.broker import local_broker
from tests.support.wire_broker import END_POSITION, wire_broker

SOON_S = 5.0

ASK = """
import sys
from jbm_kafka.kafka import ConfluentKafka
print(dict(ConfluentKafka(sys.argv[1]).admin().committed("jbm.queue.orders", "orders", [0, 1])))
"""


def test_a_group_is_asked_for_where_no_group_ever_was(tmp_path: Path) -> None:
    """The brokers make their topic of groups then; librdkafka's own question for it ends the process by a signal."""
    with local_broker(tmp_path) as broker:
        asked = subprocess.run(
            [sys.executable, "-c", ASK, broker.bootstrap], capture_output=True, text=True, timeout=60, check=False
        )
    assert (asked.returncode, asked.stdout.strip()) == (0, "{}"), asked.stderr


@pytest.mark.parametrize("names_itself", [[False, True], [False, False, True], [True, False, True]])
def test_a_broker_that_knows_of_none_is_asked_again(names_itself: list[bool]) -> None:
    """One that is alone says so for a moment when it comes back. librdkafka's `describe_cluster` ends the process
    then, and its other questions may wait for minutes.
    """
    with wire_broker("orders", names_itself=names_itself) as bootstrap:
        began = time.monotonic()
        assert ConfluentKafka(bootstrap).admin().end_positions("orders", [0], stable=True) == {0: END_POSITION}
        assert time.monotonic() - began < SOON_S
    with wire_broker("orders", names_itself=names_itself) as bootstrap:
        assert ConfluentKafka(bootstrap).admin().cluster_id() == "a cluster"
