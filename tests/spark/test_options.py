"""Which source options a reader may set. No Spark is started."""

import json
from typing import Any

import pytest

from jbm_spark.errors import OptionRefusedError
from jbm_spark.options import (
    Position,
    check_ends,
    check_partitions,
    check_span,
    checked,
    ending_options,
    starting_options,
    stream_starting_options,
)


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


@pytest.mark.parametrize("options", ["x", {"kafka.client.rack": 5}, {5: "x"}])
def test_options_that_are_no_texts_by_name_are_refused(options: Any) -> None:
    with pytest.raises(OptionRefusedError, match="texts"):
        checked(options)


def test_harmless_options_pass_and_what_holds_anyway_is_left_out() -> None:
    given = {"groupIdPrefix": "jbm-audit", "kafka.security.protocol": "SSL", "failOnDataLoss": "true"}
    assert checked(given) == {"groupIdPrefix": "jbm-audit", "kafka.security.protocol": "SSL"}


def test_positions_become_sparks_options() -> None:
    assert starting_options("t", "earliest") == {"startingOffsets": "earliest"}
    assert json.loads(starting_options("t", {1: 5, 0: 7})["startingOffsets"]) == {"t": {"0": 7, "1": 5}}
    assert starting_options("t", 1_700_000_000_000)["startingTimestamp"] == "1700000000000"
    assert ending_options("t", "latest") == {"endingOffsets": "latest"}
    assert ending_options("t", 0) == {"endingTimestamp": "0"}


@pytest.mark.parametrize(
    ("position", "partitions", "told"),
    [
        ({0: 1, 2: 5}, 4, "starting names partition 0, 2: give an offset for each of the partitions 0 to 3"),
        ({0: 1, 1: 1}, 1, "starting names partition 0, 1: give an offset for partition 0, the only one"),
    ],
)
def test_partitions_that_are_left_out_or_not_there_are_told(position: Position, partitions: int, told: str) -> None:
    """Spark says so at the first action, in a hundred lines."""
    with pytest.raises(OptionRefusedError, match=f"^{told}$"):
        check_partitions("starting", position, partitions)


@pytest.mark.parametrize("position", ["earliest", 5, {0: 1, 1: 0}])
def test_positions_for_each_partition_are_fine(position: Position) -> None:
    check_partitions("starting", position, 2)


@pytest.mark.parametrize("instant", [-1, 2**63])
def test_an_instant_that_none_can_be_gave_no_rows_and_is_refused(instant: int) -> None:
    told = f"={instant}: an instant is milliseconds since 1970, 0 to {2**63 - 1}$"
    for which, options in [
        ("starting", starting_options),
        ("starting", stream_starting_options),
        ("ending", ending_options),
    ]:
        with pytest.raises(OptionRefusedError, match=f"^{which}{told}"):
            options("t", instant)


@pytest.mark.parametrize("seconds", [1, 1_700_000_000, 10**11 - 1])
def test_an_instant_in_seconds_is_not_taken_for_one_in_january_1970(seconds: int) -> None:
    """It read everything, without a word."""
    told = f"={seconds}: an instant is in milliseconds .* where it is in seconds, write {seconds}000$"
    for options in (starting_options, stream_starting_options, ending_options):
        with pytest.raises(OptionRefusedError, match=told):
            options("t", seconds)


@pytest.mark.parametrize(
    ("starting", "ending", "told"),
    [
        (2 * 10**12, 10**12, "ending is 1000000000000, before starting, which is 2000000000000: exchange them"),
        (
            {0: 1, 1: 5},
            {0: 1, 1: 4},
            "ending of partition 1 is 4, before starting of partition 1, which is 5: exchange",
        ),
    ],
)
def test_an_end_before_the_start_is_told_before_spark_is_asked(starting: Position, ending: Position, told: str) -> None:
    """It was a Py4JJavaError at the first action."""
    with pytest.raises(OptionRefusedError, match=f"^{told}"):
        check_span(starting, ending)


@pytest.mark.parametrize(
    ("starting", "ending"),
    [("earliest", "latest"), (10**12, 10**12), ({0: 5}, {0: 5}), (10**12, {0: 0}), ("earliest", {0: 0})],
)
def test_an_end_that_may_be_behind_the_start_is_fine(starting: Position, ending: Position) -> None:
    check_span(starting, ending)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "-1"), ("maxOffsetsPerTrigger", "0"), ("MINOFFSETSPERTRIGGER", "many"),
        ("maxTriggerDelay", "-5m"), ("maxTriggerDelay", "soon"), ("fetchOffset.numRetries", "0"),
        ("kafkaConsumer.pollTimeoutMs", "1.5"), ("maxOffsetsPerTrigger", "99999999999999999999"),
    ],
)  # fmt: skip
def test_a_value_that_an_option_cannot_have_is_told_when_the_stream_is_made(name: str, value: str) -> None:
    with pytest.raises(OptionRefusedError, match=f"^option {name}={value} is refused: it is a "):
        checked({name: value}, is_stream=True)


def test_bounds_of_a_batch_that_exclude_each_other_are_refused() -> None:
    bounds = {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "15m"}
    with pytest.raises(OptionRefusedError, match=r"^minOffsetsPerTrigger=10 is more than maxOffsetsPerTrigger=5"):
        checked(bounds, is_stream=True)
    assert checked({**bounds, "minOffsetsPerTrigger": "5"}, is_stream=True)["maxTriggerDelay"] == "15m"


def test_an_offset_beyond_the_end_is_told_with_the_end() -> None:
    told = "^starting: partition 1 ends at 3, not at 4: give an offset up to that$"
    with pytest.raises(OptionRefusedError, match=told):
        check_ends("starting", {0: 2, 1: 4}, {0: 2, 1: 3})
    check_ends("starting", {0: 2, 1: 3, 2: 9}, {0: 2, 1: 3})
    check_ends("starting", "earliest", {})


@pytest.mark.parametrize("position", ["latest", "", True, {}, {0: -1}, {"0": 1}, {0: 1.5}])
def test_a_position_that_is_none_is_refused(position: Position) -> None:
    with pytest.raises(OptionRefusedError, match="starting"):
        starting_options("t", position)
