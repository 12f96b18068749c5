"""What the log says to who joins a group that takes its time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.sidecar.lane.awaited_partitions import PATIENCE_MS
from tests.jms.support import SOON_S, receive_all, send
from tests.support.waiting import wait_until

UNITS = "abcdefgh"


def test_a_worker_that_waited_for_others_to_give_partitions_up_logged_nothing(
    connect: Callable[..., Connection], orders: Queue, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to half a minute, and it looked as if it hung. Told once, and then which it has, as ever."""
    caplog.set_level(logging.INFO, "jbm_kafka.partitions")
    queue = Queue(f"{orders.name}.two")

    def told() -> list[str]:
        return [line for line in caplog.messages if line.startswith(f"{queue}: ")]

    with connect().create_session(AcknowledgeMode.CLIENT) as session:
        for unit in UNITS:  # in both of its partitions
            send(session, queue, unit, unit=unit)
        *_, held = receive_all(session.create_consumer(queue), len(UNITS))
        caplog.clear()
        consumer = connect(state_dir=tmp_path / "other").create_session().create_consumer(queue)
        assert consumer.receive(PATIENCE_MS / 1000) is None
        line = wait_until(lambda: [each for each in told() if "no partition" in each], about="a line", timeout_s=SOON_S)
        assert line == [
            f"{queue}: no partition yet, after 4 s: the other members of group {queue.group_id('')} have them all, or "
            f"give some up, for which they have their revoke_drain_ms; who they are: jbm-kafka explain {queue.name}"
        ]
        held.acknowledge()
        wait_until(
            lambda: any("assigned to this process" in each for each in told()), about="its share", timeout_s=SOON_S
        )
        assert len([each for each in told() if "no partition" in each]) == 1
