"""How a sidecar leaves Kafka: all its waits within one limit, and none after Kafka was silent for too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from jbm_kafka.ports import KafkaClientError, Unreachable
from jbm_kafka.ports.patience import Patience
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.lane.group_worker import GroupWorker

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 20.0
TELL_S = 0.3
"""For a group worker that waits no longer to tell its sessions what is not recorded."""


class Leaving:
    """One sidecar's, from its making on."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._deadline_s = time.monotonic() + STOP_TIMEOUT_S

    @property
    def left_s(self) -> float:
        """Seconds until the limit."""
        return max(0.0, self._deadline_s - time.monotonic())

    def end_group_workers(self, group_workers: Sequence[GroupWorker]) -> None:
        """All leave their groups at once; this returns when they have, or are waited for no longer."""
        for group_worker in group_workers:
            group_worker.stop()
        for group_worker in group_workers:
            if not self._patience.wait(group_worker.join, self.left_s):
                group_worker.abandon()
                if not group_worker.join(TELL_S) and not self._patience.is_over:
                    log.warning("%s: its thread did not end in %g s", group_worker.data.group, STOP_TIMEOUT_S)

    def let_clients_go(self, closes: Sequence[Callable[[], None]]) -> None:
        """The last ones; where Kafka is silent whoever asks it still has the registry's lock."""

        def close_all() -> None:
            for close in closes:
                close()

        if self._patience.is_over:
            self._patience.run(close_all, TELL_S)
        else:
            close_all()


def is_answered(topics: Topics, timeout_s: float) -> bool:
    """Kafka answers within so many seconds; a refusal is an answer."""
    try:
        topics.check_answered(timeout_s)
    except Unreachable:
        return False
    except KafkaClientError as error:
        log.debug("asked whether Kafka answers: %s", error)
    return True
