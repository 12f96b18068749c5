"""What one channel has parked: the records that are read before the log, and those that a checkpoint parks next."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.entries import Parked
from jbm_kafka.core.freeze import Freeze

FAILURES_MAX = 3
"""After so many checkpoints in a row that failed with records to park, nothing more is parked: they may be too large
for the changelog, and must not keep the channel from recording anything else."""


class ParkedRecords:
    """The owner thread's."""

    def __init__(self, unread: Sequence[Parked] = (), log_position: int = 0) -> None:
        self.unread = list(unread)
        """Read first, ascending; what the log may have lost."""
        self.log_position = log_position
        """Where the log is read from, after these."""
        self.chosen: Sequence[Parked] = ()
        """The next checkpoint parks them."""
        self.chosen_ms = 0
        """When something of it was chosen last, monotonic: the others come first then."""
        self.is_being_read = False
        """They are fetched from the log, beside."""
        self.known_below = 0
        """What lay below was known at the last look."""
        self.never: set[int] = set()
        """Offsets that cannot be parked, and so hold the watermark."""
        self._failures = 0

    @property
    def may_look(self) -> bool:
        """There is nothing under way."""
        return not (self.unread or self.chosen or self.is_being_read) and self._failures < FAILURES_MAX

    def take(self) -> Sequence[Parked]:
        """What the checkpoint that begins parks; if it fails, a later look chooses anew."""
        chosen, self.chosen = self.chosen, ()
        return chosen

    def ended(self, taken: Freeze, *, durable: bool) -> None:
        """The checkpoint's end is known."""
        if taken.durable.parked:
            self._failures = 0 if durable else self._failures + 1
