"""Which options of Spark's Kafka sink a writer may set, and why the others are refused. No Spark needed."""

from collections.abc import Mapping

from jbm_spark.errors import OptionRefusedError

_ORDER = "a record that is given up while a later one of its unit goes through would break the unit's order"
_OURS = "the functions that write set it themselves; use their `destination` and `bootstrap`"
_PARTITION = "a unit's messages would go to partitions where nobody looks for them"
_SOURCE = "it is an option of Spark's source, and this is its sink"

_REFUSED = {
    "kafka.bootstrap.servers": _OURS,
    "topic": _OURS,
    "kafka.acks": "a message is written when every in-sync replica has it; it is always all",
    "kafka.enable.idempotence": "without it a retry inside Kafka's client may change the order; it is always true",
    "kafka.max.in.flight.requests.per.connection": _ORDER,
    "kafka.retries": _ORDER,
    "kafka.delivery.timeout.ms": _ORDER,
    "kafka.transactional.id": "Spark's Kafka sink has no transactions; it fails after two minutes",
    "kafka.partitioner.class": _PARTITION,
    "kafka.partitioner.ignore.keys": _PARTITION,
    "kafka.max.request.size": "the topic's own max.message.bytes decides",
    "includeheaders": _SOURCE,
    "failondataloss": _SOURCE,
    "checkpointlocation": "it is the `checkpoint` argument",
}

_SAFE_VALUES = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
"""Saying what holds anyway is no fault."""

FOREVER = str(2**31 - 1)
MAX_REQUEST_BYTES = 1_048_576
"""Kafka's default."""
_BUFFER = "kafka.buffer.memory"
BUFFER_BYTES = "33554432"
"""Kafka's default, too."""
_QUEUE_BYTES = 64 * 2**20


def checked_sink_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options in small letters, as Kafka has them, each one harmless to order and safety. Spark takes any case.

    Raises:
        OptionRefusedError: names the option and the reason.
    """
    passed: dict[str, str] = {}
    for name, value in (options or {}).items():
        lower = name.lower()
        if _SAFE_VALUES.get(lower) == str(value).lower():
            continue
        if lower in _REFUSED:
            raise OptionRefusedError(f"option {name}={value} is refused: {_REFUSED[lower]}")
        if not lower.startswith("kafka."):
            raise OptionRefusedError(
                f"option {name} is not one of Spark's Kafka sink; of Kafka's client give librdkafka's names in "
                "`kafka`, or Java's here, with `kafka.` in front"
            )
        passed[lower] = str(value)
    return passed


def is_compressing(options: Mapping[str, str]) -> bool:
    """Return True if records are compressed, so that brokers do not measure what Spark counts."""
    return options.get("kafka.compression.type", "none").lower() != "none"


def request_bytes_max(max_message_bytes: int) -> int:
    """Return the size of a request in which each message has room that the topic takes."""
    return min(2 * max(max_message_bytes, MAX_REQUEST_BYTES), 2**31 - 1)


def queue_bytes(max_message_bytes: int) -> int:
    """Return the memory for what librdkafka is to send: for a message that is larger there is never room."""
    return max(_QUEUE_BYTES, request_bytes_max(max_message_bytes))


def number_of_bytes(option: str, value: str) -> int:
    """Raises OptionRefusedError: the option's value is no number."""
    try:
        return int(value)
    except ValueError:
        raise OptionRefusedError(f"option {option}={value}: it is a number of bytes") from None


def all_sink_options(
    options: Mapping[str, str], *, bootstrap: str, topic: str, max_message_bytes: int, buffer_bytes: str = BUFFER_BYTES
) -> dict[str, str]:
    """Return the options with what holds for every write. `buffer_bytes`: the client's memory, where they do not say.

    Raises:
        OptionRefusedError: kafka.buffer.memory is no number.
    """
    request_bytes = request_bytes_max(max_message_bytes)
    room_bytes = number_of_bytes(_BUFFER, options.get(_BUFFER, buffer_bytes))
    return {
        **options,
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        # Waits as long as the brokers are away: a record that is given up alone leaves a hole in its unit.
        "kafka.delivery.timeout.ms": FOREVER,
        "kafka.max.request.size": str(request_bytes),
        # For a record that is larger than all of its memory Kafka's client never has room.
        _BUFFER: str(max(room_bytes, request_bytes)),
    }
