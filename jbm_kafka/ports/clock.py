"""What anything needs of time, which is always an argument."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time for records and due times; monotonic time for waits inside the process."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...
