"""The parked messages of one channel: the records that are read before the log, and those that a checkpoint parks
next."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.channel.companion_group import AGAIN_MS
from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.core.channel.freeze import Freeze

FAILURES_MAX = 3
"""After so many checkpoints in a row that failed with records to park, nothing more is parked: they may be too large
for the changelog, and must not keep the channel from recording anything else."""


class ParkedRecords:
    """The owner thread's."""

    def __init__(
        self,
        unread: Sequence[Parked] = (),
        log_position: int = 0,
        *,
        noted: int | None = 0,
        may_note: bool = True,
    ) -> None:
        """`noted`: the number that the companion group has; None: it must be written, whichever it is. `may_note`:
        these credentials may use that group."""
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
        """Everything below this offset was known at the last look."""
        self.never: set[int] = set()
        """Offsets that cannot be parked, and so hold the watermark."""
        self._failures = 0
        self._noted = noted
        self._may_note = may_note
        self._noting: int | None = None
        """The checkpoint under way writes this number."""
        self._noted_at_ms: int | None = None
        """When a look first found the number written; monotonic."""

    @property
    def may_look(self) -> bool:
        """There is nothing under way."""
        return not (self.unread or self.chosen or self.is_being_read) and self._failures < FAILURES_MAX

    def must_note(self, count: int) -> bool:
        """Return True if the companion group does not say yet that so many are parked."""
        return count != self._noted and self._may_note

    def note(self, count: int) -> int | None:
        """So many are parked once the checkpoint that begins is durable: the number that it is to write beside; None:
        it is written already."""
        self._noting = count if self.must_note(count) else None
        return self._noting

    def look(self, now_ms: int) -> None:
        """Have a number written again in time; monotonic."""
        if self._noted_at_ms is None:
            self._noted_at_ms = now_ms
        elif self._noted and now_ms - self._noted_at_ms >= AGAIN_MS:
            self._noted = None

    def take(self) -> Sequence[Parked]:
        """Return what the checkpoint that begins parks; if it fails, a later look chooses anew."""
        chosen, self.chosen = self.chosen, ()
        return chosen

    def ended(self, taken: Freeze, *, durable: bool) -> None:
        """The checkpoint's end is known."""
        if taken.durable.parked:
            self._failures = 0 if durable else self._failures + 1
        if self._noting is not None:
            self._noted, self._noted_at_ms = self._noting if durable else None, None
        self._noting = None
