"""Which source options a reader may set. No Spark is started."""

import json

import pytest

from jbm_spark.errors import OptionRefusedError
from jbm_spark.options import Position, checked, ending_options, starting_options


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("kafka.isolation.level", "read_uncommitted", "aborted"),
        ("KAFKA.Isolation.Level", "read_uncommitted", "aborted"),
        ("minPartitions", "8", "order within a unit"),
        ("maxRecordsPerPartition", "100", "order within a unit"),
        ("failOnDataLoss", "false", "skipped in silence"),
        ("kafka.group.id", "jbm.queue.orders", "belong to receivers"),
        ("kafka.transactional.id", "t", "no transactions"),
        ("kafka.partitioner.class", "RoundRobin", "nobody looks"),
        ("subscribePattern", ".*", "destination"),
        ("startingOffsets", "latest", "starting"),
        ("includeHeaders", "false", "headers"),
    ],
)
def test_an_option_that_breaks_order_or_safety_is_refused_with_its_reason(name: str, value: str, reason: str) -> None:
    with pytest.raises(OptionRefusedError, match=f"{name}={value} is refused: .*{reason}"):
        checked({name: value})


def test_an_unknown_option_is_refused_and_not_ignored() -> None:
    with pytest.raises(OptionRefusedError, match="grupIdPrefix"):
        checked({"grupIdPrefix": "jbm"})


def test_harmless_options_pass_and_what_holds_anyway_is_left_out() -> None:
    given = {"groupIdPrefix": "jbm-audit", "kafka.security.protocol": "SSL", "failOnDataLoss": "true"}
    assert checked(given) == {"groupIdPrefix": "jbm-audit", "kafka.security.protocol": "SSL"}


def test_positions_become_sparks_options() -> None:
    assert starting_options("t", "earliest") == {"startingOffsets": "earliest"}
    assert json.loads(starting_options("t", {1: 5, 0: 7})["startingOffsets"]) == {"t": {"0": 7, "1": 5}}
    assert starting_options("t", 1_700_000_000_000)["startingTimestamp"] == "1700000000000"
    assert ending_options("t", "latest") == {"endingOffsets": "latest"}
    assert ending_options("t", 5) == {"endingTimestamp": "5"}


@pytest.mark.parametrize("position", ["latest", "", True, {}, {0: -1}, {"0": 1}, {0: 1.5}])
def test_a_position_that_is_none_is_refused(position: Position) -> None:
    with pytest.raises(OptionRefusedError, match="starting"):
        starting_options("t", position)
