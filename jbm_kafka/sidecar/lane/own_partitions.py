"""Tells a browser of this process what the process's receivers have unacknowledged."""

from __future__ import annotations

import time

from jbm_kafka.browsing.unacknowledged_offsets import UnacknowledgedOffsets, hand_of
from jbm_kafka.browsing.unacknowledged_query import OWN_TIMEOUT_S
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.lane.group_worker import GroupWorker

STEP_TIMEOUT_S = 10.0


class WorkerPartitions:
    """Implements `OwnPartitions` for a group worker. Any thread but the owner's."""

    def __init__(self, group_worker: GroupWorker) -> None:
        self._group_worker = group_worker

    @property
    def memberships(self) -> int:
        consumer = self._group_worker.data.consumer
        return 0 if consumer is None or not consumer.joined() else 1

    def unacknowledged(self) -> dict[int, UnacknowledgedOffsets]:
        worker = self._group_worker
        found: dict[int, UnacknowledgedOffsets] = {}
        recorded: list[Completion] = []
        done = Completion()

        def look() -> None:
            for partition, channel in worker.data.channels.items():
                found[partition] = hand_of(channel.state)
                recorded.append(Completion())
                channel.checkpoints.wait_durable(recorded[-1])
            done.complete()

        worker.post(look)
        # It answers between two steps; one that opens many partitions, on a busy machine, takes a while.
        done.wait(STEP_TIMEOUT_S, about=f"browse {worker.data.group}")
        ends_at_s = time.monotonic() + OWN_TIMEOUT_S
        for each in recorded:
            # Of one that is lost meanwhile, or of a Kafka that does not answer, what is recorded is shown.
            each.wait_done(max(0.0, ends_at_s - time.monotonic()))
        return found


def own_partitions(group_worker: GroupWorker | None) -> WorkerPartitions | None:
    """Return those of a group worker that runs; None without one."""
    return WorkerPartitions(group_worker) if group_worker is not None and group_worker.is_alive else None
