"""The results of a run of the archive job, for people and programs."""

from collections.abc import Mapping
from dataclasses import dataclass

from jbm_spark.jobs.job import ManyQueues


@dataclass(frozen=True, slots=True)
class Archived:
    """The work of one run, and the contents of the archive."""

    destination: str
    folder: str
    batches: int
    """Published by this run."""
    messages: int
    """The messages of those batches, read back from their files."""
    messages_in_all: int
    """In the archive, by its manifests."""
    events: int
    """The events of this run: what became of messages, one row a fate."""
    compactions: int

    @property
    def has_violations(self) -> bool:
        """It looks for none."""
        return False

    def text(self) -> str:
        """For people."""
        noun = "message" if self.messages == 1 else "messages"
        return f"{self.messages} {noun} of {self.destination} archived; {self.messages_in_all} in {self.folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedQueues(ManyQueues):
    """The work of one run for the queues of a pattern, and what the archive has of all of them."""

    folder: str
    batches: int
    """Published by this run, each of all queues that had something."""
    queues: Mapping[str, int]
    """The messages that this run archived of each queue that is there now, by name."""
    messages_in_all: int
    """In the archive, by its manifests."""
    events: int
    """The events of this run: what became of messages, one row a fate."""
    compactions: int

    @property
    def messages(self) -> int:
        """Archived by this run."""
        return sum(self.queues.values())

    @property
    def has_violations(self) -> bool:
        """It looks for none."""
        return False

    def text(self) -> str:
        """For people."""
        nouns = ("message" if self.messages == 1 else "messages", "queue" if len(self.queues) == 1 else "queues")
        archived = f"{self.messages} {nouns[0]} of {len(self.queues)} {nouns[1]} archived"
        return "\n".join([f"{archived}; {self.messages_in_all} in {self.folder}", *self.failure_lines()])
