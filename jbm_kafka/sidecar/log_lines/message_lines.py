"""Log lines about messages that leave a queue without being acknowledged, or that stand where they do not belong.

No line has their contents, nor their units, which may be customers. docs/logging.md lists the lines.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import NamedTuple, cast

from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.core.channel.departure import EXPIRED, MOVED, OPERATOR, REJECTED, Departure
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR
from jbm_kafka.core.log_fields import log_fields
from jbm_kafka.core.log_rate_limit import Burst, LogRateLimit
from jbm_kafka.ports import KafkaRecord

log = logging.getLogger("jbm_kafka.messages")

INTERVAL_MS = 5_000
EACH_MAX = 5
"""So many of one queue, reason and address have a line of their own; more in an interval are one with a count."""
MISPLACED_MS = 600_000
"""How often those are counted that some client sends to a wrong partition: it may do so for days. After so long
without a line it does so no more."""

REPEATED = "repeated"
COPY_RETRY_MS = 1_000
"""How long a dead-letter copy that could not be written waits, its unit held."""
_TYPE = re.compile(r"(?P<name>[\w.<>]+)(?:: |$)")
"""How a failure begins that an exception is the cause of: failure_text."""


class _Kind(NamedTuple):
    """The messages that one line counts together."""

    topic: str
    reason: str
    address: str | None


class _Stuck(NamedTuple):
    """Messages that cannot leave, in one line: the first, and then how often it was tried in vain."""

    topic: str
    address: str
    fault: str
    """The type of what Kafka or a look at the address raised: its text may have a number that is never the same."""


class MessageLines:
    """The lines of one channel group. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._bursts: LogRateLimit[_Kind] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=EACH_MAX)
        self._stuck: LogRateLimit[_Stuck] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=1)
        self._misplaced: LogRateLimit[str] = LogRateLimit(interval_ms=MISPLACED_MS, each_max=1)

    def stuck(
        self, topic: str, partition: int, leaving: Departure, address: str, fault: Exception, why: str, now_ms: int
    ) -> None:
        """A copy could not be written, and is tried again in COPY_RETRY_MS."""
        if self._stuck.note(_Stuck(topic, address, type(fault).__name__), now_ms):
            offset, message_id = leaving.reference.offset, _id(leaving.reference, topic, partition)
            attempt = leaving.attempts or None
            log.warning(
                "%s[%d] offset %d cannot leave for %s: %s; its unit waits, and it is tried again every %.0f s; id %s",
                topic,
                partition,
                offset,
                address,
                why,
                COPY_RETRY_MS / 1000,
                message_id,
                extra=log_fields(topic, partition, offset, message_id, attempt=attempt, reason=leaving.reason),
            )

    def left(self, topic: str, partition: int, leaving: Departure, address: str | None, now_ms: int) -> None:
        """A message is gone for good: to the address, or nowhere."""
        kind = _Kind(topic, leaving.reason, address)
        if self._bursts.note(kind, now_ms):
            offset, message_id = leaving.reference.offset, _id(leaving.reference, topic, partition)
            attempt = leaving.attempts or None
            log.log(
                _level(kind),
                "%s[%d] offset %d %s; id %s",
                topic,
                partition,
                offset,
                _fate(kind, leaving.attempts, leaving.last_error),
                message_id,
                extra=log_fields(topic, partition, offset, message_id, attempt=attempt, reason=leaving.reason),
            )

    def repeated(self, topic: str, partition: int, offset: int, first: int, now_ms: int) -> None:
        """A message has the duplicate id of an earlier one, which is the one that counts."""
        kind = _Kind(topic, REPEATED, None)
        if self._bursts.note(kind, now_ms):
            log.log(
                _level(kind),
                "%s[%d] offset %d %s; the first is at %d",
                topic,
                partition,
                offset,
                _fate(kind),
                first,
                extra=log_fields(topic, partition, offset, reason=REPEATED),
            )

    def held(self, topic: str, partition: int, reference: Reference, attempts: int, failure: str | None) -> None:
        """A message is out of attempts, and stays for an operator: seldom, for its unit sends no more after it."""
        last, message_id = _last(attempts, failure), _id(reference, topic, partition)
        log.warning(
            "%s[%d] offset %d failed %s%s and is on hold with its unit, as on_dead_letter='hold' asks; id %s",
            topic,
            partition,
            reference.offset,
            "once" if attempts == 1 else f"{attempts} times",
            f" ({last})" if last else "",
            message_id,
            extra=log_fields(
                topic, partition, reference.offset, message_id, attempt=attempts, reason=HELD_FOR_OPERATOR
            ),
        )

    def misplaced(self, topic: str, partition: int, reference: Reference, home: int, now_ms: int) -> None:
        """A message is in another partition than its unit, which is at `home`."""
        if self._misplaced.note(topic, now_ms):
            message_id = _id(reference, topic, partition)
            log.warning(
                "%s[%d] offset %d is in the wrong partition, for its unit is in %d: a client that hashes keys "
                "otherwise sends to this queue, and what others send of its units is processed beside, not after. Set "
                "partitioner=murmur2_random there (librdkafka: Python, Go, .NET, Node); Java clients need nothing. "
                "jbm-kafka show counts such messages; id %s",
                topic,
                partition,
                reference.offset,
                home,
                message_id,
                extra=log_fields(topic, partition, reference.offset, message_id, reason="misplaced"),
            )

    def log_counts(self, now_ms: int) -> None:
        """Log the counts of those that had no line of their own; costs nothing while nothing was counted."""
        _log_bursts(self._bursts.due(now_ms))
        _log_stuck(self._stuck.due(now_ms))
        _log_misplaced(self._misplaced.due(now_ms))

    def end(self, now_ms: int) -> None:
        """Tell of all of them: no more come."""
        _log_bursts(self._bursts.end(now_ms))
        _log_stuck(self._stuck.end(now_ms))
        _log_misplaced(self._misplaced.end(now_ms))


def _log_stuck(bursts: Iterable[Burst[_Stuck]]) -> None:
    for stuck, count, duration_ms in bursts:
        log.warning(
            "%s: messages cannot leave for %s still, tried %d more times within %.1f s; their units wait",
            stuck.topic,
            stuck.address,
            count,
            duration_ms / 1000,
            extra=log_fields(stuck.topic, reason=stuck.fault),
        )


def _log_misplaced(bursts: Iterable[Burst[str]]) -> None:
    for topic, count, duration_ms in bursts:
        log.warning(
            "%s: %d more messages in the wrong partition came within %.0f s: the client that hashes keys otherwise "
            "goes on sending",
            topic,
            count,
            duration_ms / 1000,
            extra=log_fields(topic, reason="misplaced"),
        )


def _log_bursts(bursts: Iterable[Burst[_Kind]]) -> None:
    for kind, count, duration_ms in bursts:
        log.log(
            _level(kind),
            "%s: %d more %s within %.1f s",
            kind.topic,
            count,
            _fate(kind, count=count),
            duration_ms / 1000,
            extra=log_fields(kind.topic, reason=kind.reason),
        )


def _level(kind: _Kind) -> int:
    return logging.INFO if kind.reason in (EXPIRED, REPEATED, MOVED, OPERATOR) else logging.WARNING


def _fate(kind: _Kind, attempts: int = 0, failure: str | None = None, *, count: int = 1) -> str:
    """Return what became of so many messages, in the words of a log line, as `was moved to queue:x by an operator`."""
    if kind.reason == REPEATED:
        repeats, settled = ("repeats", "is settled") if count == 1 else ("repeat", "are settled")
        return f"{repeats} a duplicate id and {settled} unseen"
    if kind.reason in (MOVED, OPERATOR):
        did = "removed" if kind.address is None else f"moved to {kind.address}"
        return f"{'was' if count == 1 else 'were'} {did} by an operator"
    return f"{_why(kind.reason, attempts, failure)} {_where(kind.address)}"


def _why(reason: str, attempts: int, failure: str | None) -> str:
    if reason == EXPIRED:
        return "expired"
    times = f" after {attempts} {'attempt' if attempts == 1 else 'attempts'}" if attempts else ""
    last = _last(attempts, None if reason == REJECTED else failure)  # what an application said is no type of an error
    return f"given up{times} ({reason}{f', {last}' if last else ''})"


def _last(attempts: int, failure: str | None) -> str:
    """Return what the last attempt failed with; empty when that is not known."""
    kind = _type_of(failure)
    return f"{'' if attempts == 1 else 'the last '}with {kind}" if kind else ""


def _type_of(failure: str | None) -> str:
    """The exception's type alone, which the log may have: its text may tell what is in the message. Empty: unknown."""
    found = None if failure is None else _TYPE.match(failure)
    return "" if found is None else found["name"]


def _where(address: str | None) -> str:
    return "and removed, for there is no address for it" if address is None else f"and moved to {address}"


def _id(reference: Reference, topic: str, partition: int) -> str:
    record = cast("KafkaRecord | None", reference.record)
    headers = None if record is None else record.headers()
    return message_id_of(headers, topic, partition, reference.offset)
