"""Cuts a sink partition's rows of a batch into parts, a transaction each, and passes over those that are written.

No Spark, no Kafka. A batch that is repeated has its rows in the same order, but for rows that have their place in
common, such as those that were made of one message. So a part ends between two places, as long as it can, and the sum
of what tells its rows apart does not depend on their order. Where a part ends follows from nothing: its mark says it.
"""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jbm_kafka.ports import Outgoing
from jbm_spark.errors import WriteError

ROWS_MAX = 50_000
"""The rows of a part."""
SECONDS_MAX = 20.0
"""A slow part ends sooner: a third of what its transaction may take, and the rest is for the commit."""
_LOOK_ROWS = 256
"""From one look at the clock to the next."""
_SUM_MASK = (1 << 64) - 1


PlacedRow = tuple[Outgoing, int, int]
"""A row that is ready to be written: its record; a digest, which tells it from others; its place. Rows of one place may
be in another order when the batch is repeated. A plain tuple, for there are millions."""


class Written(NamedTuple):
    """A beginning of a batch's rows."""

    rows: int
    digest: int
    """The sum of theirs."""


class BatchParts:
    """The rows of one sink partition of one batch."""

    def __init__(
        self, rows: Iterator[PlacedRow], *, rows_max: int = ROWS_MAX, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._rows = rows
        self._rows_max = rows_max
        self._clock_s = clock_s
        self._next = next(rows, None)
        self._count = self._digest = 0

    @property
    def is_over(self) -> bool:
        """All rows were given out."""
        return self._next is None

    @property
    def written(self) -> Written:
        """The rows that were given out or passed over."""
        return Written(self._count, self._digest & _SUM_MASK)

    def pass_over(self, before: Written) -> None:
        """Leave out what an earlier attempt has committed.

        Raises:
            WriteError: the rows are others now, and nobody knows which of them are written.
        """
        while self._count < before.rows and self._next is not None:
            self._count += 1
            self._digest += self._next[1]
            self._next = next(self._rows, None)
        if self.written != before or self.is_over:
            raise WriteError(
                f"its first {before.rows} rows were written by an earlier attempt, and are others now: a query must "
                "compute the same rows again (no rand(), no current_timestamp() in ids or order); begin with a new "
                "checkpoint, and with `starting` at the first that is not written"
            )

    def next_part(self) -> Iterator[Outgoing]:
        """The records of one part; take all of them."""
        row, last_place, count, digest = self._next, None, 0, 0
        enough, until_s = max(self._rows_max * 4 // 5, 1), self._clock_s() + SECONDS_MAX
        while row is not None:
            record, row_digest, place = row
            if count >= enough and (place != last_place or count >= self._rows_max):
                break
            if not count % _LOOK_ROWS and self._clock_s() > until_s:
                enough = 1
            last_place = place
            count += 1
            digest += row_digest
            row = next(self._rows, None)
            yield record
        self._next = row
        self._count += count
        self._digest += digest
