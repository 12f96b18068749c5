"""Who looks at the console, and what he may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jbm_kafka.core.settings.address_pattern import matches


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who was let in. Patterns are those of address settings."""

    name: str
    """As the log and the events tell it."""
    look: Sequence[str] = ("#",)
    operate: Sequence[str] = ("#",)
    can_log_out: bool = False
    csrf: str = ""
    """The token that a form of his must bring along; empty: a program, whose token no browser sends by itself."""

    def may_look(self, name: str) -> bool:
        """At the destination of this name."""
        return any(matches(each, name) for each in (*self.look, *self.operate))

    def may_operate(self, name: str) -> bool:
        """Change the destination of this name, or messages there."""
        return any(matches(each, name) for each in self.operate)

    @property
    def may_look_at_all(self) -> bool:
        """Also at what belongs to no destination, as prepared branches do."""
        return "#" in self.look or "#" in self.operate

    @property
    def may_operate_all(self) -> bool:
        """Also what belongs to no destination."""
        return "#" in self.operate
