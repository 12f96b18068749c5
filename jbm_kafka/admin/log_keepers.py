"""Who keeps how much of a destination's log, since when, and what lets it go: for operators."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

from jbm_kafka.admin.explain.reasons import subscription_words
from jbm_kafka.codec.reader_record import LETTER_KIND
from jbm_kafka.core.channel.branch import xid_of
from jbm_kafka.core.channel.truncation import Cut, Pin, PinKind
from jbm_kafka.core.subscription import Subscription
from jbm_kafka.ports import KafkaClientError, LogReader

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 10.0
WORDS = {
    PinKind.CHANNEL: "group",
    PinKind.PRIVATE: "reader",
    PinKind.GROUP: "group",
    PinKind.READER: "reader",
}


@dataclass(frozen=True, slots=True)
class LogKeeper:
    """Somebody for whom the log of a destination is kept further than for others."""

    name: str
    """"group NAME", "reader KIND|NAME", or "branch XID"."""
    records: int
    """How many the log has from what it needs on, in all partitions where nobody needs more."""
    since_ms: int | None
    """When the oldest of them was sent; None: not known."""
    remedy: str
    """The step that lets it go."""


def keepers_of(
    topic: str,
    name: str,
    cuts: Mapping[int, Cut],
    subscriptions: Mapping[str, Subscription],
    reader: LogReader,
) -> tuple[LogKeeper, ...]:
    """Who needs the oldest records, who most of them first; `subscriptions`: by consumer group, those of a topic."""
    sent = _sent_ms(topic, cuts, reader)
    records: dict[str, int] = {}
    since: dict[str, list[int]] = {}
    remedies: dict[str, str] = {}
    for partition, cut in cuts.items():
        for pin in cut.pins:
            who = f"branch {xid_of(pin.branch)}" if pin.branch else f"{WORDS[pin.kind]} {pin.name}"
            records[who] = records.get(who, 0) + cut.end - cut.before
            since.setdefault(who, []).extend([sent[partition]] if partition in sent else [])
            remedies[who] = _remedy(pin, name, subscriptions.get(pin.name))
    found = [LogKeeper(who, count, min(since[who], default=None), remedies[who]) for who, count in records.items()]
    return tuple(sorted(found, key=lambda each: (-each.records, each.name)))


def _sent_ms(topic: str, cuts: Mapping[int, Cut], reader: LogReader) -> dict[int, int]:
    """Return by partition when the oldest record was sent that is needed."""
    ranges = {partition: (cut.before, cut.before + 1) for partition, cut in cuts.items() if cut.pins}
    try:
        found = reader.read(topic, ranges, timeout_s=READ_TIMEOUT_S) if ranges else ()
    except KafkaClientError as error:
        log.debug("%s: when the oldest of what is kept was sent is not known: %s", topic, error)
        return {}
    return {record.partition() or 0: record.timestamp()[1] for record in found}


def _remedy(pin: Pin, name: str, subscription: Subscription | None) -> str:
    if pin.branch:
        return f"its manager decides it, or: jbm-kafka prepared resolve {quote(str(xid_of(pin.branch)))} rollback"
    if pin.kind is PinKind.GROUP:
        return f"if nobody uses it any more: kafka-consumer-groups.sh --delete --group {quote(pin.name)}"
    if pin.kind is PinKind.PRIVATE:
        return "a process that lives receives from there; what it has unacknowledged, or reads slowly, is kept for it"
    if pin.kind is PinKind.READER:
        kind, _, reader = pin.name.partition("|")
        when = "when its dead letters are dealt with" if kind == LETTER_KIND else "if it does not run any more"
        return f"{when}: jbm-kafka readers end {quote(reader)} --kind {quote(kind)}"
    if subscription is None:
        return f"why the oldest waits: jbm-kafka explain {quote(name)}"
    words = subscription_words(subscription.name, subscription.client_id)
    return f"why the oldest waits: jbm-kafka explain {quote(name)}{words}; jbm-kafka subscriptions delete ends it"
