"""The result of a run, for people and programs."""

from collections.abc import Mapping
from dataclasses import dataclass

from jbm_spark.jobs.job import ManyQueues


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQueues(ManyQueues):
    """How many hours of each queue were told anew."""

    folder: str
    queues: Mapping[str, int]
    """By name; 0: no hour is whole yet, for messages or events of the hour of this run are deleted already."""

    @property
    def has_violations(self) -> bool:
        """It looks for some, and puts their numbers into the table."""
        return False

    def text(self) -> str:
        """For people."""
        hours = sum(self.queues.values())
        nouns = ("hour" if hours == 1 else "hours", "queue" if len(self.queues) == 1 else "queues")
        begin = [f"queue:{name}: some of this hour is deleted already; its table begins with the next"
                 for name, number in sorted(self.queues.items()) if not number]  # fmt: skip
        return "\n".join([
            f"{hours} {nouns[0]} of {len(self.queues)} {nouns[1]} in {self.folder}", *begin, *self.failure_lines(),
        ])  # fmt: skip
