"""Goal: where a message departs to and why is one rule, the same for every kind of channel."""

import pytest

from jbm_kafka.core.channel.departure import (
    EXPIRED,
    OUT_OF_ATTEMPTS,
    Route,
    attempts_before_departure,
    reason_to_depart,
    route_of,
)
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.redelivery import UNLIMITED_ATTEMPTS, is_expired
from jbm_kafka.core.settings.address_settings import ResolvedSettings


def test_an_expired_message_goes_to_the_expiry_address_and_never_to_the_dead_letters() -> None:
    settings = ResolvedSettings(expiry_address="expired", dead_letter_address="dead")
    assert route_of(EXPIRED, settings) == Route("expired", MessageFate.EXPIRED)
    assert route_of(EXPIRED, ResolvedSettings(dead_letter_address="dead")) == Route(None, MessageFate.EXPIRED)


def test_a_message_out_of_attempts_goes_to_the_dead_letters_or_is_removed() -> None:
    settings = ResolvedSettings(expiry_address="expired", dead_letter_address="dead")
    assert route_of(OUT_OF_ATTEMPTS, settings) == Route("dead", MessageFate.DEAD_LETTERED)
    assert route_of(OUT_OF_ATTEMPTS, ResolvedSettings()) == Route(None, MessageFate.REMOVED)


def test_what_is_held_for_an_operator_departs_after_no_number_of_attempts() -> None:
    assert attempts_before_departure(ResolvedSettings(max_delivery_attempts=3)) == 3
    held = ResolvedSettings(max_delivery_attempts=3, on_dead_letter="hold")
    assert attempts_before_departure(held) == UNLIMITED_ATTEMPTS


@pytest.mark.parametrize(
    ("expiration_ms", "attempts", "last_reason", "expected"),
    [
        (0, 0, None, None),
        (1_000, 0, None, EXPIRED),
        (1_001, 0, None, None),
        (1_000, 3, OUT_OF_ATTEMPTS, EXPIRED),
        (0, 2, "returned", None),
        (0, 3, "returned", OUT_OF_ATTEMPTS),
        (0, 1, OUT_OF_ATTEMPTS, OUT_OF_ATTEMPTS),
    ],
)
def test_a_message_departs_when_its_time_or_its_attempts_are_over(
    expiration_ms: int, attempts: int, last_reason: str | None, expected: str | None
) -> None:
    assert reason_to_depart(expiration_ms, attempts, last_reason, now_ms=1_000, attempts_max=3) == expected


def test_a_message_expires_at_its_instant_and_without_one_never() -> None:
    """SEND-5: at that instant it is over."""
    assert [is_expired(1_000, now_ms) for now_ms in (999, 1_000, 1_001)] == [False, True, True]
    assert not is_expired(0, 1_000)
