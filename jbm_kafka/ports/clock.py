"""The clock that everything asks for time, which is always an argument; and the one that is given outside of tests."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records and due times; monotonic time for waits inside the process."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...


class SystemClock:
    """Implements `Clock` with the machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
