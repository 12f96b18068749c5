"""Makes a channel's changelog entries for messages with a past that stand behind what it has (decision 97). Pure.

Who takes the channel over then finds them as their last owner left them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap

from jbm_kafka.core.channel.duplicate_window import BUCKET_ROWS_MAX
from jbm_kafka.core.channel.entries import BLOCK_BITS, BLOCK_OFFSETS, Duplicates, Entry, Held, Position, SeenId, Settled

SEEN = "lost"
"""Why a message is remembered that may have been handed over, and of which nothing else is known."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A message where it was written."""

    offset: int
    is_held: bool
    """False: it is settled here, as far as it had been read."""
    is_read: bool
    """The channel that held it had read it. The others are new here, too: what repeats an id is found when it is
    read."""
    is_seen: bool = False
    """It may have been handed over."""
    attempts: int = 0
    due_at_ms: int = 0
    delay_ms: int = 0
    unit: bytes | None = None
    reason: str = ""


class Restoring:
    """One channel that gets messages. It begins with what its changelog says, and says what to write."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """`entries`: as recovered; a position is among them."""
        entries = list(entries)
        self._position = next(each for each in entries if isinstance(each, Position))
        self._settled = {e.block: BitMap.deserialize(e.bitmap) for e in entries if isinstance(e, Settled) and e.bitmap}
        self._bucket = max((each.bucket + 1 for each in entries if isinstance(each, Duplicates)), default=0)

    @property
    def watermark(self) -> int:
        """The offset to commit for the group."""
        return self._position.watermark

    def put(self, messages: Sequence[Restored], ids: Sequence[SeenId], checkpoint_id: str) -> list[Entry]:
        """The entries that a checkpoint writes with these messages, which ascend; `ids` are remembered with them."""
        entries: list[Entry] = []
        blocks: set[int] = set()
        fetched, offered = self._position.fetched, self._position.offered
        for message in messages:
            if not message.is_read:
                offered = max(offered, message.offset + 1) if message.is_seen else offered
                continue
            fetched = max(fetched, message.offset + 1)
            if not message.is_held:
                block = message.offset >> BLOCK_BITS
                self._settled.setdefault(block, BitMap()).add(message.offset & (BLOCK_OFFSETS - 1))
                blocks.add(block)
            elif message.is_seen:
                entries.append(
                    Held(
                        message.offset,
                        message.attempts,
                        message.due_at_ms,
                        message.delay_ms,
                        message.unit,
                        message.reason or SEEN,
                    )
                )
        entries += [Settled(block, self._settled[block].serialize()) for block in sorted(blocks)]
        for first in range(0, len(ids), BUCKET_ROWS_MAX):
            entries.append(Duplicates(self._bucket, tuple(ids[first : first + BUCKET_ROWS_MAX])))
            self._bucket += 1
        self._position = replace(self._position, checkpoint_id=checkpoint_id, fetched=fetched, offered=offered)
        return [self._position, *entries]
