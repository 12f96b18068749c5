"""Settings of librdkafka: those that a user may give, those that we decide ourselves, and where its log lines go."""

import logging
import re
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.kafka.counted_lines import CountedLines, counted_at, is_of_fence
from jbm_kafka.kafka.given_numbers import number_fault
from jbm_kafka.kafka.outage_lines import OutageLines, outage_at
from jbm_kafka.kafka.security_settings import MECHANISMS, content_fault, pair_fault, security_fault

LOG = logging.getLogger("jbm_kafka.kafka")
# Without any handler Python prints warnings on standard error itself; the user's terminal is not ours.
LOG.addHandler(logging.NullHandler())

_ADDRESS = "it is the first argument, `url` of a ConnectionFactory"
_MEMBERSHIP = "it decides the owner of a partition and how a loser is fenced"
_ATOMICITY = "it decides what becomes visible together"
_WRITTEN_ONCE = "it decides whether a message may be lost, doubled or overtaken on its way to the brokers"
_PARTITION = "the unit of order decides which partition a message goes to"
_POSITION = "positions come from our own checkpoints"
_MEMORY = "the memory budget sets it"
_OURS = "we use it ourselves"
_SEND_TIMEOUT = "it is fixed: a send that is not confirmed within 30 s is given up"

CONTROLLED: Mapping[str, str] = MappingProxyType(
    {
        "bootstrap.servers": _ADDRESS,
        "metadata.broker.list": _ADDRESS,
        "group.id": _MEMBERSHIP,
        "group.instance.id": _MEMBERSHIP,
        "group.protocol": _MEMBERSHIP,
        "group.protocol.type": _MEMBERSHIP,
        "group.remote.assignor": _MEMBERSHIP,
        "partition.assignment.strategy": _MEMBERSHIP,
        "session.timeout.ms": "it is the `session_timeout_ms` argument",
        "heartbeat.interval.ms": "it follows from `session_timeout_ms`",
        "enable.auto.commit": _POSITION,
        "auto.commit.enable": _POSITION,
        "auto.commit.interval.ms": _POSITION,
        "enable.auto.offset.store": _POSITION,
        "auto.offset.reset": _POSITION,
        "offset.store.method": _POSITION,
        "enable.partition.eof": _POSITION,
        "isolation.level": _ATOMICITY,
        "transactional.id": _ATOMICITY,
        "transaction.timeout.ms": _ATOMICITY,
        "enable.idempotence": _WRITTEN_ONCE,
        "enable.gapless.guarantee": _WRITTEN_ONCE,
        "acks": _WRITTEN_ONCE,
        "request.required.acks": _WRITTEN_ONCE,
        "max.in.flight": _WRITTEN_ONCE,
        "max.in.flight.requests.per.connection": _WRITTEN_ONCE,
        "message.send.max.retries": _WRITTEN_ONCE,
        "retries": _WRITTEN_ONCE,
        "queuing.strategy": _OURS,
        "partitioner": _PARTITION,
        "partitioner_cb": _PARTITION,
        "message.timeout.ms": _SEND_TIMEOUT,
        "delivery.timeout.ms": _SEND_TIMEOUT,
        "message.max.bytes": "the topic's own max.message.bytes decides",
        "queued.min.messages": _MEMORY,
        "queued.max.messages.kbytes": _MEMORY,
        "queue.buffering.max.messages": _MEMORY,
        "queue.buffering.max.kbytes": _MEMORY,
        "fetch.max.bytes": _MEMORY,
        "fetch.message.max.bytes": _MEMORY,
        "max.partition.fetch.bytes": _MEMORY,
        "allow.auto.create.topics": "a queue's topic is made with settings of its own, by the `auto_create` argument",
        "delivery.report.only.error": _OURS,
        "on_delivery": _OURS,
        "dr_cb": _OURS,
        "dr_msg_cb": _OURS,
        "on_commit": _OURS,
        "rebalance_cb": _OURS,
        "offset_commit_cb": _OURS,
        "error_cb": _OURS,
        "logger": "log lines go to the Python logger jbm_kafka.kafka",
        "log_cb": "log lines go to the Python logger jbm_kafka.kafka",
        "default.topic.config": "give its settings beside the others",
    }
)
"""librdkafka properties a user cannot set, each with the reason."""


_NO_NEWS = ("CONFWARN", "FAIL")
_COVERED = ("TXNERR", "SESSTMOUT", "REQTMOUT", "ADDOFFSETS", "GETPID", "METADATAUPDATE")
"""Lines of an ordinary deploy or outage: the client tries again or raises, and a line of ours says what follows."""


_CONTENDED = ("FATAL", "ADDPARTS", "TXNERR", "GETPID")
"""Lines of a producer whose transactional id others take from it: the loser begins anew."""


class ClientLog:
    """The logger that confluent-kafka calls: librdkafka's levels are our levels, but for what is no news."""

    def __init__(self, counted: CountedLines | None = None, *, is_contended: bool = False) -> None:
        """`counted` has what is only counted, if anything is.

        `is_contended`: others use the same transactional id, and a later one fences an earlier one.
        """
        self._counted = counted
        self._no_news = (*_NO_NEWS, *_CONTENDED) if is_contended else _NO_NEWS

    def log(self, level: int, message: str, *values: object) -> None:
        text = message % values if values else message
        # Each client gets all settings, also those for its siblings, and says so. And each says of each broker,
        # several times a second, that it cannot connect: `_log_client_error` says that once.
        if text.startswith(self._no_news):
            level = logging.DEBUG
        else:
            is_covered = text.startswith(_COVERED) or is_of_fence(text)
            level = min(level, logging.INFO if is_covered else logging.WARNING)
        if level > logging.DEBUG and self._counted is not None and not self._counted.is_logged(text):
            level = logging.DEBUG
        LOG.log(level, "%s", text)


def _log_client_error(outage: OutageLines, error: KafkaError) -> None:
    # librdkafka goes on trying, and whoever waits for an answer gets a proper error; an operator wants one line.
    if error.code() == KafkaError._ALL_BROKERS_DOWN:
        outage.down(error)
    else:
        LOG.debug("Kafka client: %s; it keeps trying", error)


def common_settings(bootstrap: str, client_settings: Mapping[str, object]) -> dict[str, Any]:
    """Settings every client starts from; the user's win over what is only a preference."""
    return {
        "socket.nagle.disable": True,
        "socket.keepalive.enable": True,
        "log.connection.close": False,
        # A broker that restarts is found again within a second, not within ten.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "client.id": "jbm-kafka",
        **client_settings,
        "bootstrap.servers": bootstrap,
        # By default librdkafka's producers and admins let the broker make any topic they name, even in a question.
        "allow.auto.create.topics": False,
        "logger": ClientLog(counted_at(bootstrap)),
        "error_cb": partial(_log_client_error, outage_at(bootstrap)),
    }


_UNKNOWN = "No such configuration property"
_PROPERTY = re.compile(r'(configuration property) "[^"]*"', re.IGNORECASE)
_TOLD = re.compile(r"\.(ms|bytes|kbytes|messages|size|count|level|type|enable)$")
"""Names of properties whose values may be shown: numbers and switches. Any other may be a secret."""
_COMPRESSIONS = "none, gzip, snappy, lz4 or zstd"
_VALUES = {"compression.type": _COMPRESSIONS, "compression.codec": _COMPRESSIONS}
"""Settings that librdkafka calls wrong without a word of what would be right; security settings have a module of their
own."""
_LISTED = "librdkafka's CONFIGURATION.md lists every property and its values"


def check_client_settings(client_settings: Mapping[str, object], session_timeout_ms: int | None = None) -> None:
    """Nothing, when they can be.

    `session_timeout_ms`: that of the groups that are joined with them, where it is known.

    Raises:
        InvalidSettingError: one is ours, unknown, or has a wrong value; `value` is that, where it is no secret.
    """
    refused = sorted(CONTROLLED.keys() & client_settings.keys())
    if refused:
        reasons = "; ".join(f"{name!r}: {CONTROLLED[name]}" for name in refused)
        raise InvalidSettingError(
            f"client settings that jbm-kafka controls cannot be set; leave them out ({reasons})", names=refused
        )
    for name, value in client_settings.items():
        if not isinstance(name, str):
            raise InvalidTypeError(f"client setting {shown(name)}: its name is a str", names=[name])
        if value is None:
            raise InvalidSettingError(f"client setting {name!r}: None is not a value; leave it out", names=[name])
    if (found := security_fault(client_settings)) is not None:
        raise InvalidSettingError(f"client setting {found[0]!r}: {found[1]}", names=[found[0]])
    fault = _client_fault(client_settings)
    found = (None if fault is None else content_fault(fault, client_settings)) or pair_fault(client_settings)
    if found is not None:
        raise InvalidSettingError(f"client setting {found[0]!r}: {found[1]}", names=[found[0]])
    if fault is not None:
        # Some are secrets: no value is shown but those that librdkafka calls wrong. A wrong one alone says the same.
        wrong = [name for name, value in client_settings.items() if _client_fault({name: value}) == fault][:1]
        text = _text(wrong[0], client_settings[wrong[0]], fault) if wrong else f"client settings: {fault} ({_LISTED})"
        raise InvalidSettingError(text, names=wrong, **_shown_values(wrong, client_settings))
    if (found := number_fault(client_settings, session_timeout_ms)) is not None:
        name, rule = found
        values = _shown_values([name], client_settings)
        text = f"client setting {name!r} is {shown(values['value'])}: {rule}"
        raise InvalidSettingError(text, names=[name], **values)


def _shown_values(names: Sequence[str], client_settings: Mapping[str, object]) -> dict[str, object]:
    """The value of the wrong setting, as an attribute of the error; nothing where it may be a secret."""
    return {"value": client_settings[names[0]]} if names and _TOLD.search(names[0]) else {}


def _text(name: str, value: object, fault: str) -> str:
    """Return what is said of one setting: librdkafka's words, by the name that was written, for some have two."""
    fault = _PROPERTY.sub(lambda found: f'{found[1]} "{name}"', fault)
    named = f"client setting {name!r}"
    if _TOLD.search(name) and not fault.startswith(_UNKNOWN):
        named = f"{named} is {shown(value)}"
    listed = f"it is {_VALUES[name]}" if name in _VALUES else _LISTED
    return f"{named}: {fault} ({listed})"


def _client_fault(client_settings: Mapping[str, object]) -> str | None:
    try:
        # A client without brokers knows every property and connects to nothing; it is gone in a millisecond. It is
        # closed, for a signal that came while it is only let go of would be raised from whatever is called next, as a
        # SystemError.
        Producer({**client_settings, "logger": ClientLog()}).close()
    except KafkaException as error:
        text = str(error.args[0].str()).replace("\n", " ").removeprefix("Failed to create producer: ")
        if "No provider for SASL mechanism GSSAPI" in text:
            return f"this client library comes without sasl.mechanism GSSAPI (Kerberos): use {MECHANISMS}"
        return text
    except (TypeError, ValueError) as error:
        return str(error)
    return None
