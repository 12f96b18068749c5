"""How many messages wait, why, and since when: values that nobody changes, for those who watch (docs/metrics.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jbm_kafka.core.channel.held_in_order import HeldInOrder, HeldKind
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.redelivery_states import RedeliveryState
from jbm_kafka.core.channel.reference import Reference

FAILING_FROM = 3
"""Attempts of a message after which it is no accident that it failed."""


class HeldReference(NamedTuple):
    """A held message, without its record."""

    reference: Reference
    sent_at_ms: int
    """When it came into this queue."""
    redelivery: RedeliveryState | None
    """None: nobody has had it."""
    is_prepared: bool
    """A prepared branch has it."""


@dataclass(slots=True)
class HeldTally:
    """Messages by their kind, and the oldest of each."""

    counts: Counter[HeldKind] = field(default_factory=Counter)
    oldest_at_ms: dict[HeldKind, int] = field(default_factory=dict)
    """When the oldest of each kind came into the queue."""
    failing: int = 0
    """Messages that failed `FAILING_FROM` times or more, and are to be tried again."""
    attempts_max: int = 0
    """The most of any of them."""
    changes_at_ms: int = FOREVER_MS
    """Until then no message changes its kind by itself."""

    def add(self, messages: Iterable[HeldReference], now_ms: int) -> None:
        """Count those of one more partition, in the order of its log."""
        in_order = HeldInOrder(now_ms)
        for reference, sent_at_ms, redelivery, is_prepared in messages:
            kind, due_at_ms = in_order.place(reference, redelivery, is_in_hand=is_prepared)
            self.counts[kind] += 1
            if redelivery is not None and redelivery.attempts >= FAILING_FROM and kind is not HeldKind.ON_HOLD:
                self.failing += 1
                self.attempts_max = max(self.attempts_max, redelivery.attempts)
            self.oldest_at_ms[kind] = min(sent_at_ms, self.oldest_at_ms.get(kind, sent_at_ms))
            if kind is HeldKind.DELAYED:
                self.changes_at_ms = min(self.changes_at_ms, due_at_ms)
            if kind is not HeldKind.EXPIRED and reference.expiration_ms:
                self.changes_at_ms = min(self.changes_at_ms, reference.expiration_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The messages that one queue, or one subscription of a topic, holds."""

    destination: str
    """Its name."""
    subscription: str = ""
    """`<client id>/<name>` or the name, in the first of them `/` as `%2F` and `%` as `%25`; empty: a queue's."""
    held: int
    """Messages that are not settled; where they were not counted, at most."""
    is_counted: bool
    """False: there are too many to be read, and nothing is known of kinds."""
    counts: Mapping[HeldKind, int]
    """Numbers by kind; one that is missing has none."""
    oldest_at_ms: Mapping[HeldKind, int]
    """When the oldest of each kind came into the queue, milliseconds since the epoch."""
    oldest_held_at_ms: int | None
    """When the oldest of all did; None: nothing is held, or it is not known."""
    uncommitted: int
    """Records behind open transactions of Kafka."""
    log_records: int
    """Records that the log must keep for it: from its oldest held message on."""
    parked: int
    """Held messages that the changelog keeps."""
    receivers: int
    """Processes that receive from it."""
    is_receiving_paused: bool
    """An operator has paused receiving."""
    is_sending_paused: bool
    """An operator has paused sending."""
    failing: int = 0
    """Messages that failed `FAILING_FROM` times or more, and are to be tried again."""
    attempts_max: int = 0
    """The most attempts of any of them."""
    written: int = 0
    """Records that the logs ever had, whatever was deleted since: it grows by what comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLag:
    """How far a query or an archive of Spark is behind in one topic."""

    query: str
    """Its name among the registered readers, without the topic."""
    destination: str
    records: int
    """Records that it has not read, with those that are no messages, as markers of transactions."""
    oldest_at_ms: int | None
    """When the oldest of them was written; None: there is none, or it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlogs:
    """A namespace at one moment."""

    looked_at_ms: int
    """When it was looked, milliseconds since the epoch."""
    backlogs: tuple[Backlog, ...]
    """The backlog of each destination and subscription."""
    prepared: int
    """Prepared branches that wait for their transaction managers."""
    oldest_prepared_at_ms: int | None
    """When the oldest of them was prepared; None: there is none."""
    unreadable: tuple[str, ...]
    """Consumer groups that could not be looked into; what is told of them is older, or nothing is."""
    queries: tuple[QueryLag, ...] = ()
    """The queries and archives of Spark that are registered as readers."""
