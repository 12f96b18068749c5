"""The limits and settings of a store beside a sender: pure (SAF-4)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 1 << 30
AGE_MAX_MS: Final = 0


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Limits at which a send is refused; nothing that is stored is ever dropped for them."""

    bytes_max: int = BYTES_MAX
    """The bytes of all that waits and was set aside."""
    age_max_ms: int = AGE_MAX_MS
    """The age of the oldest that waits; 0: it may wait for ever."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A factory's settings of its store."""

    folder: str
    fsync: bool = True
    """A send is confirmed when it is on the disk; else within a second."""
    limits: StoreLimits = StoreLimits()


def full_ratio(limits: StoreLimits, held_bytes: int, oldest_at_ms: int, now_ms: int) -> float:
    """Returns how near it is to refusing sends, of bytes or of age, whichever is nearer; 1: it does."""
    of_bytes = held_bytes / limits.bytes_max
    if not (limits.age_max_ms and oldest_at_ms):
        return of_bytes
    return max(of_bytes, (now_ms - oldest_at_ms) / limits.age_max_ms)


def refusal(limits: StoreLimits, path: Path, held_bytes: int, more_bytes: int, oldest_at_ms: int, now_ms: int) -> str:
    """Returns why so many bytes more are not taken; empty: they are."""
    if held_bytes + more_bytes > limits.bytes_max:
        return (
            f"store_and_forward folder {path} holds {held_bytes} bytes, and {more_bytes} more exceed "
            f"store_bytes_max={limits.bytes_max}: nothing was stored, and nothing is dropped; send again when it has "
            f"forwarded, or look with: jbm-kafka store show {path}"
        )
    age_ms = now_ms - oldest_at_ms
    if limits.age_max_ms and oldest_at_ms and age_ms > limits.age_max_ms:
        return (
            f"store_and_forward folder {path} has not forwarded its oldest send for {age_ms} ms, and "
            f"store_age_max_ms={limits.age_max_ms}: nothing was stored, and nothing is dropped; send again when it "
            f"has forwarded, or look with: jbm-kafka store show {path}"
        )
    return ""
