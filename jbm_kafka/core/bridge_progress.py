"""Which messages a bridge has taken on, and the source may give again (BRIDGE-2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

MARKS_MAX = 100_000
"""So many are kept of what came, beside the batch under way; a crash leaves one batch at most."""


class BridgeProgress:
    """Marks of messages, in the batches in which they were recorded; a batch is deleted once none of it can come again.

    Not thread-safe.
    """

    def __init__(self, recorded: Mapping[int, Sequence[bytes]], *, marks_max: int = MARKS_MAX) -> None:
        """`recorded`: by number, each batch with the marks of its messages."""
        self._left: dict[int, set[bytes]] = {}
        self._batch_of: dict[bytes, int] = {}
        self._over: list[int] = []
        self._marks_max = marks_max
        self.next_number = max(recorded, default=0) + 1
        """Of the next batch."""
        for number, marks in sorted(recorded.items()):
            self._put(number, marks)

    def __contains__(self, mark: bytes) -> bool:
        """It is at the target already."""
        return mark in self._batch_of

    def __len__(self) -> int:
        """How many may come again."""
        return len(self._batch_of)

    @property
    def marks(self) -> Iterable[bytes]:
        """Of what may come again."""
        return self._batch_of.keys()

    @property
    def over(self) -> Sequence[int]:
        """The batches whose records can be deleted."""
        return tuple(self._over)

    def add(self, marks: Sequence[bytes]) -> None:
        """The next batch was recorded, with what was sent; those that were `over` before were deleted with it."""
        self._over.clear()
        if not marks:
            return
        self._put(self.next_number, marks)
        self.next_number += 1
        for number in list(self._left)[:-1]:
            if len(self._batch_of) <= self._marks_max:
                break
            self.confirm(list(self._left[number]))

    def _put(self, number: int, marks: Sequence[bytes]) -> None:
        """Have them in the latest batch, and there alone: an id that a sender uses again would leave every earlier one
        behind."""
        self.confirm(marks)
        if not marks:
            self._over.append(number)
            return
        self._left[number] = set(marks)
        self._batch_of.update(dict.fromkeys(marks, number))

    def confirm(self, marks: Sequence[bytes]) -> None:
        """The source has settled them, and gives them to nobody any more. What was not recorded is passed over."""
        for mark in marks:
            number = self._batch_of.pop(mark, None)
            if number is None:
                continue
            left = self._left[number]
            left.discard(mark)
            if not left:
                del self._left[number]
                self._over.append(number)
