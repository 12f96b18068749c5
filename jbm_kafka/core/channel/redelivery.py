"""When a returned message may be delivered again, and when it was tried often enough or waited too long.

REDELIVER-2, REDELIVER-3, SEND-5.
"""

from jbm_kafka.core.settings.address_settings import ResolvedSettings

UNLIMITED_ATTEMPTS = -1
FOREVER_MS = 1 << 60
"""A due time that never comes by itself."""
CAP_IN_DELAYS = 10
"""Without `max_redelivery_delay_ms` no wait is longer than this many times `redelivery_delay_ms`."""


def redelivery_delay_ms(settings: ResolvedSettings, attempts: int, chance: float) -> int:
    """How long the wait after the `attempts`-th failed attempt is, 0 for none.

    The n-th wait is delay x multiplier^(n-1), spread evenly over +- the collision avoidance factor by `chance`
    (0 <= chance < 1; 0.5 is the middle), then capped. A delay that a nack gives itself does not come here.
    """
    assert attempts >= 1, attempts
    assert 0.0 <= chance < 1.0, chance
    delay_ms = settings.redelivery_delay_ms
    cap_ms = settings.max_redelivery_delay_ms
    if cap_ms is None:
        cap_ms = delay_ms * CAP_IN_DELAYS
    try:
        growth = float(settings.redelivery_delay_multiplier) ** (attempts - 1)
    except OverflowError:
        # With attempts unlimited a multiplier of 2 leaves the range of a float after 1,024 of them.
        return cap_ms
    spread = 1.0 + settings.redelivery_collision_avoidance_factor * (2.0 * chance - 1.0)
    wanted_ms = delay_ms * growth * spread
    return cap_ms if wanted_ms >= cap_ms else round(wanted_ms)


def is_exhausted(attempts: int, attempts_max: int) -> bool:
    """Return True if a message with this many failed attempts must not be tried again; never with
    UNLIMITED_ATTEMPTS."""
    return 0 <= attempts_max <= attempts


def held_back_until_ms(
    delivery_time_ms: int, due_at_ms: int, *, now_ms: int, set_back_ms: int, waited_ms: int = FOREVER_MS
) -> int:
    """Return the time until which a delayed or returned message is held back, or 0 if it may go now.

    Delivery times are stamped by the wall clock of senders. Where that was set back by `set_back_ms`, ours is ahead and
    goes slower until the two meet, so the time returned is half of what is missing: the caller looks again then.
    `waited_ms` is the latest end of a sender's delay, counted from when the message was read: its clock may be ahead.
    """
    if set_back_ms:
        missing_ms = delivery_time_ms + set_back_ms - now_ms
        delivery_time_ms = now_ms + (missing_ms + 1) // 2
    until_ms = max(min(delivery_time_ms, waited_ms), due_at_ms)
    return until_ms if until_ms > now_ms else 0


def is_expired(expiration_ms: int, now_ms: int) -> bool:
    """Return True if a message must not be handed over any more because its time to live has ended; 0 never ends."""
    return 0 < expiration_ms <= now_ms
