"""The options of format "jbm": a name is known or refused, in any case of letters."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.core.destination import Destination, Queue, parse_destination
from jbm_kafka.jms.factory import checked_namespace
from jbm_kafka.kafka import ConfluentKafka
from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.errors import OptionRefusedError
from jbm_spark.sink_options import queue_bytes
from jbm_spark.topic_check import TIMEOUT_S

READ = ("starting",)
READ_BATCH = ("ending",)
READ_STREAM = ("maxoffsetspertrigger",)
_COMMON = ("destination", "bootstrap", "namespace")
_OF_SPARK = ("checkpointlocation", "path")
"""Spark adds them to those of a user."""
_LIBRDKAFKA = "kafka."
OFFSETS_A_BATCH = 100_000
"""The offsets in a batch of a stream, unless it is told."""

_SHOWN_MAX = 200

Place = str | Mapping[int, int]
"""Where to begin or end: "earliest" or "latest", or an offset for each partition."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The options that all four ways have in common."""

    destination: Destination
    bootstrap: str
    namespace: str
    kafka: Mapping[str, object] = field(repr=False)
    """librdkafka's properties; they may be secrets."""

    @property
    def topic(self) -> str:
        """The destination's."""
        return self.destination.kafka_topic(self.namespace)

    def client(self, max_message_bytes: int = 0) -> ConfluentKafka:
        """Return the cluster, for messages to a topic that takes so many bytes.

        Raises InvalidSettingError: a property that cannot be.
        """
        room_bytes = queue_bytes(max_message_bytes)
        return ConfluentKafka(
            self.bootstrap, self.kafka, namespace=self.namespace, memory_bytes=room_bytes, admin_timeout_s=TIMEOUT_S
        )


@dataclass(frozen=True, slots=True)
class ReadOptions(FormatOptions):
    """And what is read."""

    starting: Place
    ending: Place
    offsets_a_batch: int


def read_options(given: Mapping[str, str], *, is_stream: bool = False) -> ReadOptions:
    """Raises OptionRefusedError, InvalidDestinationError or InvalidSettingError."""
    options = _checked(given, READ + (READ_STREAM if is_stream else READ_BATCH))
    common = _common(options)
    starts = ("earliest", "latest") if is_stream else ("earliest",)
    most = options.get("maxoffsetspertrigger", str(OFFSETS_A_BATCH))
    if not (most.isascii() and most.isdigit() and int(most) > 0):
        raise OptionRefusedError(f"option maxOffsetsPerTrigger={most} is refused: it is a whole number of 1 or more")
    return ReadOptions(
        common.destination, common.bootstrap, common.namespace, common.kafka,
        starting=_place("starting", options.get("starting", "earliest"), starts),
        ending=_place("ending", options.get("ending", "latest"), ("latest",)),
        offsets_a_batch=int(most),
    )  # fmt: skip


def write_options(given: Mapping[str, str], *, overwrite: bool) -> FormatOptions:
    """Raises OptionRefusedError, InvalidDestinationError or InvalidSettingError."""
    if overwrite:
        raise OptionRefusedError("messages that were sent cannot be overwritten: write with mode('append')")
    return _common(_checked(given, ()))


def _checked(given: Mapping[str, str], own: tuple[str, ...]) -> dict[str, str]:
    options = {name.lower(): value for name, value in given.items() if name.lower() not in _OF_SPARK}
    for name in options:
        if name not in _COMMON + own and not name.startswith(_LIBRDKAFKA):
            known = ", ".join(_COMMON + own)
            raise OptionRefusedError(
                f"option {name} is not one of format jbm here: there are {known}, and librdkafka's properties with "
                f"`{_LIBRDKAFKA}` in front"
            )
    for name, example in _EXAMPLES.items():
        # Without a bootstrap the configuration says it; one that is empty is a mistake.
        if not options.get(name, example if name == "bootstrap" else ""):
            raise OptionRefusedError(f"option {name} is missing: set it, as in .option('{name}', {example!r})")
    return options


_EXAMPLES = {"destination": "book-orders", "bootstrap": "localhost:9092"}


def _common(options: Mapping[str, str]) -> FormatOptions:
    named = options["destination"]
    own = {name.removeprefix(_LIBRDKAFKA): value for name, value in options.items() if name.startswith(_LIBRDKAFKA)}
    found = cluster_in_use(options.get("bootstrap"), options.get("namespace", ""), own)
    return FormatOptions(
        parse_destination(named) if ":" in named else Queue(named),
        checked_bootstrap("bootstrap", found.bootstrap),
        checked_namespace(found.namespace),
        found.kafka or {},
    )


def _place(which: str, text: str, names: tuple[str, ...]) -> Place:
    if text in names:
        return text
    try:
        found = json.loads(text)
        offsets = {int(partition): offset for partition, offset in found.items()}
    except (ValueError, AttributeError):
        offsets = {}
    if not offsets or any(type(offset) is not int or offset < 0 for offset in offsets.values()):
        allowed = " or ".join(names)
        example = '{"0": 10, "1": 25}'
        given = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
        raise OptionRefusedError(f"option {which}={given} is refused: it is {allowed}, or offsets as JSON: {example}")
    return offsets
