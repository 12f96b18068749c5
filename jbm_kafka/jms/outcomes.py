"""What a handler raises to say what becomes of its message."""

from __future__ import annotations

from jbm_kafka.core.durations import checked_duration_ms


class Reject(Exception):
    """Nobody can process the message: it is given up now, and its letter tells the reason (`message.reject`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """The message comes again after `delay_ms`; None: after its queue's own delay. It counts as an attempt."""

    def __init__(self, reason: str = "", *, delay_ms: int | None = None) -> None:
        super().__init__(reason)
        self.delay_ms = None if delay_ms is None else checked_duration_ms("delay_ms", delay_ms)
