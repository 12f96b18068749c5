"""Hindrances that keep parts of an application from receiving, which its connection's health tells."""

from __future__ import annotations

from jbm_kafka.core.statistics import Health


class Hindrances:
    """The hindrances of one connection. Any thread."""

    def __init__(self) -> None:
        self._now: dict[object, str] = {}
        self._for_good: list[str] = []

    def begin(self, part: object, why: str) -> None:
        """The part receives nothing, and tries again."""
        self._now[part] = why

    def end(self, part: object) -> None:
        """The part receives again, or needs to no more."""
        self._now.pop(part, None)

    def stay(self, part: object, why: str) -> None:
        """The part receives nothing any more, and nothing that it could do helps."""
        self.end(part)
        self._for_good.append(why)

    def added_to(self, health: Health) -> Health:
        """How the connection fares with them."""
        dead, unready = tuple(self._for_good), tuple(self._now.values())
        if not dead and not unready:
            return health
        return Health(health.is_alive and not dead, False, (*dead, *health.reasons, *unready))
