"""Which way a bridge's messages go, and what holds then."""

from __future__ import annotations

import pytest

from jbm_kafka.core.bridge_way import Guarantee, Way, decide_way
from jbm_kafka.core.jms_errors import InvalidSettingError

ONCE, TWICE, LOST = Guarantee.EXACTLY_ONCE, Guarantee.DUPLICATES_OKAY, Guarantee.AT_MOST_ONCE


@pytest.mark.parametrize("wanted", [None, *Guarantee])
def test_within_one_cluster_one_transaction_has_both_ends(wanted: Guarantee | None) -> None:
    """Of BRIDGE-1."""
    found = decide_way(wanted, is_one_cluster=True, into_kafka=True, drops_duplicates=False)
    assert found == (Way.ONE_TRANSACTION, ONCE)


@pytest.mark.parametrize(
    ("wanted", "way", "kept"),
    [
        (None, Way.RECORDED_PROGRESS, ONCE),
        (ONCE, Way.RECORDED_PROGRESS, ONCE),
        (TWICE, Way.CONFIRMED_SENDS, TWICE),
        (LOST, Way.ACKNOWLEDGED_FIRST, LOST),
    ],
)
def test_into_kafka_from_elsewhere(wanted: Guarantee | None, way: Way, kept: Guarantee) -> None:
    """Of BRIDGE-2 to BRIDGE-4."""
    assert decide_way(wanted, is_one_cluster=False, into_kafka=True, drops_duplicates=False) == (way, kept)


@pytest.mark.parametrize(
    ("wanted", "drops", "way", "kept"),
    [
        (None, False, Way.CONFIRMED_SENDS, TWICE),
        (None, True, Way.CONFIRMED_SENDS, ONCE),
        (ONCE, True, Way.CONFIRMED_SENDS, ONCE),
        (TWICE, True, Way.CONFIRMED_SENDS, TWICE),
        (LOST, True, Way.ACKNOWLEDGED_FIRST, LOST),
    ],
)
def test_to_a_server_of_amqp(wanted: Guarantee | None, drops: bool, way: Way, kept: Guarantee) -> None:
    """Of BRIDGE-3 and BRIDGE-4."""
    assert decide_way(wanted, is_one_cluster=False, into_kafka=False, drops_duplicates=drops) == (way, kept)


def test_exactly_once_is_not_promised_where_nobody_can_see_to_it() -> None:
    """Of BRIDGE-3."""
    with pytest.raises(InvalidSettingError, match="duplicate_property"):
        decide_way(ONCE, is_one_cluster=False, into_kafka=False, drops_duplicates=False)
