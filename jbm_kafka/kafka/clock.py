"""The clock of real life."""

import time


class SystemClock:
    """Implements `ports.Clock` with the machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
