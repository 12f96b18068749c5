"""How much a handler may do: how long one message may take, how many at a time, and when it is to pause."""

from __future__ import annotations

from dataclasses import dataclass

from jbm_kafka.core.rate import Rate, checked_rate
from jbm_kafka.core.settings.pause_rule import PauseOn, checked_pause
from jbm_kafka.core.wrong_values import checked_int, wrong_type, wrong_value

IN_FLIGHT_MAX = 1_000_000
TIMEOUT_MAX_S = 30 * 86_400
"""A month: more is no limit."""


@dataclass(frozen=True, slots=True)
class HandlerLimits:
    """The limits of one handler; None: there is none."""

    timeout_ms: int | None = None
    """How long a call of it may take."""
    rate: Rate | None = None
    """The rate of this process."""
    rate_total: Rate | None = None
    """The rate of all processes."""
    pause_on: PauseOn | None = None

    @property
    def are_at_the_door(self) -> bool:
        """Something is to be asked before a message is received."""
        return self.rate is not None or self.rate_total is not None or self.pause_on is not None


NO_LIMITS = HandlerLimits()


def checked_limits(
    *, timeout_s: object, rate: object, rate_total: object, pause_on: object, shares: bool
) -> HandlerLimits:
    """The limits, if they can be; `shares`: the handler has its messages with those of other processes.

    Raises:
        InvalidSettingError: an argument that cannot be.
    """
    total = checked_rate("rate_total", rate_total)
    if total is not None and not shares:
        rule = "each process has all messages of its topic, and there is nothing to divide; use rate="
        raise wrong_value("rate_total", rate_total, rule)
    return HandlerLimits(
        _checked_timeout_ms(timeout_s), checked_rate("rate", rate), total, checked_pause("pause_on", pause_on)
    )


def checked_in_flight(value: object) -> int | None:
    """How many calls may run at once, if it is a number; None: any.

    Raises:
        InvalidSettingError: it is none.
    """
    return None if value is None else checked_int("max_in_flight", value, 1, IN_FLIGHT_MAX, "calls at once")


def _checked_timeout_ms(value: object) -> int | None:
    rule = "it is a number of seconds, more than 0 and a month at most"
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type("timeout_s", value, rule)
    if not 0 < value <= TIMEOUT_MAX_S:
        raise wrong_value("timeout_s", value, rule)
    return max(1, round(value * 1_000))
