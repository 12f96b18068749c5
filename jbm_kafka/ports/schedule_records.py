"""Schedules as those that run them see them: records, each changed by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from jbm_kafka.core.cron.due import Due
from jbm_kafka.core.cron.schedule import Schedule
from jbm_kafka.ports.record_to_send import Outgoing

Decide = Callable[[Schedule | None], Due | None]
"""Decides by the last record what is to be done; None: there is to be none."""
Records = Callable[[Due], Sequence[Outgoing]]
"""The messages of its runs."""


class ScheduleRecords(Protocol):
    """The records of one namespace; a provider that has schedules has it as `schedules`. Any thread."""

    def of(self, queue: str, name: str) -> Schedule | None:
        """A schedule as read last, which may be a second ago; None: there is none.

        Raises:
            JMSError: its record cannot be read.
        """

    def change(self, queue: str, name: str, decide: Decide, records: Records) -> Schedule | None:
        """Write the record that is decided with the messages of its runs: all of it, or nothing. What is recorded then.

        It decides by the last record, and nobody else writes between the two. It may be asked again.

        Raises:
            KafkaClientError: it cannot be read or written in time. It was written, messages and all, or was not.
        """
