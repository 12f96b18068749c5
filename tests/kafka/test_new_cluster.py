"""The first questions that a cluster is ever asked."""

import subprocess
import sys
from pathlib import Path

from tests.support.broker import local_broker

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
