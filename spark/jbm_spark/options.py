"""Which options of Spark's Kafka source a reader may set, and why the others are refused. No Spark needed.

Spark ignores an option it does not know and takes names in any case; here a name is known or refused.
"""

import json
import re
from collections.abc import Mapping

from jbm_spark.errors import OptionRefusedError

Position = str | int | Mapping[int, int]
"""Where to start or end: "earliest" or "latest", an instant in ms (int), or an offset for each partition."""

_SPLITS = (
    "it splits a partition over several tasks, which breaks the order within a unit; to use more cores, repartition "
    "by unit_of_order afterwards and sort by kafka.partition, kafka.offset"
)
_OURS = "messages() sets it itself; use its `destination`, `bootstrap`, `starting` and `ending`"

_REFUSED = {
    "minpartitions": _SPLITS,
    "maxrecordsperpartition": _SPLITS,
    "failondataloss": "messages that are gone would be skipped in silence; read from a later `starting` instead",
    "kafka.isolation.level": "messages of aborted or open transactions would be read; it is always read_committed",
    "kafka.group.id": "the groups belong to receivers, and Spark commits nothing to one; use groupIdPrefix for ACLs",
    "kafka.transactional.id": "Spark's Kafka sink has no transactions; it fails after two minutes",
    "kafka.partitioner.class": "a unit's messages would go to partitions where nobody looks for them",
    "kafka.partitioner.ignore.keys": "a unit's messages would be spread over all partitions",
    "includeheaders": "the columns are made from the headers; they are always read",
} | dict.fromkeys(
    ["kafka.bootstrap.servers", "subscribe", "subscribepattern", "assign",
     "startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
     "endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"],
    _OURS,
)  # fmt: skip

_KNOWN = {"groupidprefix", "kafkaconsumer.polltimeoutms", "fetchoffset.numretries", "fetchoffset.retryintervalms"}
_OF_STREAMS = {"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"}

_SAFE_VALUES = {"failondataloss": "true", "kafka.isolation.level": "read_committed", "includeheaders": "true"}
"""Saying what holds anyway is no fault."""


_COUNTS = ("maxoffsetspertrigger", "minoffsetspertrigger", "kafkaconsumer.polltimeoutms", "fetchoffset.numretries",
           "fetchoffset.retryintervalms")  # fmt: skip
"""Spark reads them when a query has begun, and a query with another value ends with a Java trace."""
_DURATION = re.compile(r"[0-9]+(us|ms|s|m|min|h|d)?", re.IGNORECASE)

_INSTANT_MAX = 2**63 - 1
"""The last instant that Kafka's protocol has room for."""
_INSTANT_MIN = 10**11
"""In 1973, when there was no Kafka; taken for seconds, it is in the year 5138. 0 is the beginning of everything."""


def checked(options: Mapping[str, str] | None, *, is_stream: bool = False) -> dict[str, str]:
    """The options, each one harmless to order and safety.

    Raises:
        OptionRefusedError: names the option and the reason.
    """
    passed: dict[str, str] = {}
    for name, value in given(options).items():
        lower = name.lower()
        if _SAFE_VALUES.get(lower) == value.lower():
            continue
        if lower in _REFUSED:
            raise OptionRefusedError(f"option {name}={value} is refused: {_REFUSED[lower]}")
        if lower in _OF_STREAMS and not is_stream:
            raise OptionRefusedError(f"option {name}={value} is for streams; a batch has `starting` and `ending`")
        if lower not in _KNOWN | _OF_STREAMS and not lower.startswith("kafka."):
            raise OptionRefusedError(
                f"option {name} is not one of Spark's Kafka source; of Kafka's client give librdkafka's names in "
                "`kafka`, or Java's here, with `kafka.` in front"
            )
        _check_value(name, value)
        passed[name] = value
    counts = {name.lower(): int(value) for name, value in passed.items() if name.lower() in _COUNTS}
    least, most = counts.get("minoffsetspertrigger"), counts.get("maxoffsetspertrigger")
    if least is not None and most is not None and least > most:
        raise OptionRefusedError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}: lower it")
    return passed


def _check_value(name: str, value: str) -> None:
    lower = name.lower()
    if lower in _COUNTS and not (value.isascii() and value.isdigit() and 1 <= int(value) <= _INSTANT_MAX):
        raise OptionRefusedError(f"option {name}={value} is refused: it is a whole number of 1 or more")
    if lower == "maxtriggerdelay" and _DURATION.fullmatch(value) is None:
        raise OptionRefusedError(f"option {name}={value} is refused: it is a time, as in 90s or 15m")


def given(options: object) -> Mapping[str, str]:
    """The options that a caller gave, if they are texts by name.

    Raises:
        OptionRefusedError: they are something else.
    """
    if options is not None and not isinstance(options, Mapping):
        raise OptionRefusedError(f"options={options!r}: it is a dict of texts by name, or None")
    for name, value in (options or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise OptionRefusedError(
                f"option {name!r}: {value!r}: name and value are texts, as in {str(name)!r}: {str(value)!r}"
            )
    return options or {}


def starting_options(topic: str, starting: Position) -> dict[str, str]:
    """Spark's options for a batch that starts there.

    Raises:
        OptionRefusedError: "latest" (nothing could follow), or no position at all.
    """
    if isinstance(starting, int) and not isinstance(starting, bool):
        # Without the strategy a partition with nothing that late would fail the query.
        return {"startingTimestamp": _instant("starting", starting), "startingOffsetsByTimestampStrategy": "latest"}
    return {"startingOffsets": _named_or_offsets(topic, starting, "starting", "earliest")}


def stream_starting_options(topic: str, starting: Position) -> dict[str, str]:
    """Spark's options for a stream that starts there; "latest" is what comes from now on.

    Raises:
        OptionRefusedError: no position at all.
    """
    try:
        return {"startingOffsets": "latest"} if starting == "latest" else starting_options(topic, starting)
    except OptionRefusedError as refusal:
        raise OptionRefusedError(str(refusal).replace("use 'earliest'", "use 'earliest', 'latest'")) from None


def ending_options(topic: str, ending: Position) -> dict[str, str]:
    """Return Spark's options for a batch that ends before that position.

    With "latest" each action looks the end up anew.

    Raises:
        OptionRefusedError: it is "earliest", or no position at all.
    """
    if isinstance(ending, int) and not isinstance(ending, bool):
        return {"endingTimestamp": _instant("ending", ending)}
    return {"endingOffsets": _named_or_offsets(topic, ending, "ending", "latest")}


def check_partitions(which: str, position: Position, partitions: int) -> None:
    """Spark wants an offset for each partition, and says so late, in a hundred lines.

    Raises:
        OptionRefusedError: some are left out, or are not there.
    """
    if isinstance(position, Mapping) and position.keys() != set(range(partitions)):
        every = "partition 0, the only one" if partitions == 1 else f"each of the partitions 0 to {partitions - 1}"
        named = ", ".join(str(partition) for partition in sorted(position))
        raise OptionRefusedError(f"{which} names partition {named}: give an offset for {every}")


def check_ends(which: str, position: Position, ends: Mapping[int, int]) -> None:
    """Spark says it late, in fifty lines, and of a stream that messages are gone.

    Raises:
        OptionRefusedError: an offset is beyond the end of its partition.
    """
    for partition, offset in sorted(position.items()) if isinstance(position, Mapping) else ():
        if offset > ends.get(partition, offset):
            raise OptionRefusedError(
                f"{which}: partition {partition} ends at {ends[partition]}, not at {offset}: give an offset up to that"
            )


def check_span(starting: Position, ending: Position) -> None:
    """Spark says it at the first action, in a Java trace. What is known here: two instants, or two offsets.

    Raises:
        OptionRefusedError: the end lies before the start.
    """
    pairs: list[tuple[str, object, object, bool]] = []
    if isinstance(starting, int) and isinstance(ending, int):
        pairs = [("", starting, ending, ending < starting)]
    elif isinstance(starting, Mapping) and isinstance(ending, Mapping):
        both = sorted(starting.keys() & ending.keys())
        pairs = [
            (f" of partition {each}", starting[each], ending[each], ending[each] < starting[each]) for each in both
        ]
    for of, start, end, is_backwards in pairs:
        if is_backwards:
            raise OptionRefusedError(
                f"ending{of} is {end}, before starting{of}, which is {start}: exchange them, or leave one out"
            )


def _instant(which: str, milliseconds: int) -> str:
    if not 0 <= milliseconds <= _INSTANT_MAX:
        raise OptionRefusedError(f"{which}={milliseconds}: an instant is milliseconds since 1970, 0 to {_INSTANT_MAX}")
    if 0 < milliseconds < _INSTANT_MIN:
        raise OptionRefusedError(
            f"{which}={milliseconds}: an instant is in milliseconds since 1970, and that one is before 1974: where it "
            f"is in seconds, write {milliseconds}000"
        )
    return str(milliseconds)


def _named_or_offsets(topic: str, position: Position, which: str, name: str) -> str:
    if position == name:
        return name
    if isinstance(position, Mapping) and position:
        for partition, offset in position.items():
            if type(partition) is not int or type(offset) is not int or partition < 0 or offset < 0:
                raise OptionRefusedError(f"{which}: {partition!r}: {offset!r} is no partition and offset (ints >= 0)")
        return json.dumps({topic: {str(partition): offset for partition, offset in sorted(position.items())}})
    raise OptionRefusedError(
        f"{which}={position!r}: use {name!r}, an instant in milliseconds (an int), or an offset for each partition"
    )
