"""Tells a browser of this process what the process's receivers have unacknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable

from jbm_kafka.browsing.unacknowledged_offsets import UnacknowledgedOffsets, hand_of
from jbm_kafka.browsing.unacknowledged_query import OWN_TIMEOUT_S
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.lane.group_worker import GroupWorker

STEP_TIMEOUT_S = 10.0


class WorkerPartitions:
    """Implements `OwnPartitions` for a queue or subscription. Any thread but its owner's."""

    def __init__(self, serving: Callable[[], GroupWorker | None]) -> None:
        """`serving` gives the group worker of the moment: one may end, and another begin, while Kafka is asked."""
        self._serving = serving

    @property
    def memberships(self) -> int:
        worker = self._serving()
        return 1 if worker is not None and worker.is_alive and worker.has_joined else 0

    def unacknowledged(self) -> dict[int, UnacknowledgedOffsets]:
        worker = self._serving()
        # One that has given up all is busy leaving, and answers late.
        if worker is None or not worker.is_alive or not worker.data.channels:
            return {}
        found: dict[int, UnacknowledgedOffsets] = {}
        recorded: list[Completion] = []
        done = Completion()

        def look() -> None:
            for partition, channel in worker.data.channels.items():
                found[partition] = hand_of(channel.state)
                recorded.append(Completion())
                channel.checkpoints.wait_durable(recorded[-1])
            done.complete()

        if not worker.post(look):
            return {}
        # It answers between two steps; one that opens many partitions, on a busy machine, takes a while.
        done.wait(STEP_TIMEOUT_S, about=f"browse {worker.data.group}")
        ends_at_s = time.monotonic() + OWN_TIMEOUT_S
        for each in recorded:
            # Of one that is lost meanwhile, or of a Kafka that does not answer, what is recorded is shown.
            each.wait_done(max(0.0, ends_at_s - time.monotonic()))
        return found
