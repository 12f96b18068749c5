"""Pages of what queues hold, and single messages; nothing is consumed, no group joined."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial

from jbm_kafka.admin.cluster.admin_arguments import check_named, named
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.dead_letters.letters import letter_of
from jbm_kafka.admin.life.record_search import RecordSearch
from jbm_kafka.admin.messages.selection import Choice
from jbm_kafka.admin.pages.message_row import PAGE_STATES, MessagePage, MessageRow, StoredMessage, message_row
from jbm_kafka.admin.pages.page_cursor import as_cursor, read_cursor
from jbm_kafka.browsing.browse import open_look
from jbm_kafka.browsing.look_page import PageWish, look_page
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.wrong_values import checked_int, wrong_value
from jbm_kafka.jms.base.arguments import checked_flag
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.provider import Seen

ROWS_MAX = 500
RECORDS_MAX = 20_000
"""Messages that are read for one page."""
PAGE_S = 1.5
"""A page that finds little ends so, and tells where to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilter:
    """Which messages a page shows; what is None is not asked for."""

    selector: str | None = None
    state: str | None = None
    unit: str | None = None
    message_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


class PageAdmin:
    """Looks into queues page by page. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def page(
        self,
        destination: Queue | Topic | str,
        subscription: str | None,
        client_id: str,
        wanted: PageFilter,
        *,
        after: str | None,
        count: int,
        ask_receivers: bool,
    ) -> MessagePage:
        """The next page of the queue, or of this subscription of the topic."""
        choice = _choice(wanted)
        checked_int("count", count, 1, ROWS_MAX, "messages")
        checked_flag("ask_receivers", ask_receivers)
        wish = PageWish(
            begin=read_cursor(after),
            since_ms=wanted.since_ms,
            until_ms=wanted.until_ms,
            rows_max=count,
            records_max=RECORDS_MAX,
            for_s=PAGE_S,
        )
        with self._core.asking(f"look into {destination}"):
            now_ms = self._core.cluster.clock.now_ms()
            found = look_page(
                self._core.kafka,
                self._core.group(
                    self._core.source(named(destination, subscription, client_id), subscription, client_id)
                ),
                wish,
                partial(_row, wanted, choice, now_ms),
                now_ms=now_ms,
                hands=self._core.hands() if ask_receivers else None,
            )
        return MessagePage(
            messages=found.rows,
            after=None if found.next is None else as_cursor(found.next),
            looked_at=found.looked_at,
            left=found.left,
            asked_receivers=ask_receivers,
        )

    def message_at(self, destination: Queue | Topic | str, partition: int, offset: int) -> StoredMessage | None:
        """The message at a place of the log, or parked in its queue's changelog; None: there is none any more."""
        checked_int("partition", partition, 0, None, "partitions")
        checked_int("offset", offset, 0, None, "offsets")
        with self._core.asking(f"read a message of {destination}"), closing(self._core.kafka.log_reader()) as reader:
            found = self._core.catalog.named(destination)
            search = RecordSearch(self._core.admin, reader, self._core.namespace)
            record = search.at(found, partition, offset)
            if record is None and isinstance(found, Queue):
                record = self._parked(found, partition, offset)
            if record is None:
                return None
            message = from_record(
                record,  # type: ignore[arg-type]
                destination=found,
                delivery_count=1,
                redelivered=False,
                settler=None,
            )
            letter = letter_of(record)
            return StoredMessage(
                message=message,
                value=record.value(),
                arrived_at_ms=record.timestamp()[1],
                letter=letter if letter.reason is not None or letter.origin.destination is not None else None,
            )

    def _parked(self, queue: Queue, partition: int, offset: int) -> KafkaRecord | None:
        with closing(self._core.kafka.admin()) as admin, closing(self._core.kafka.log_reader()) as reader:
            now_ms = self._core.cluster.clock.now_ms()
            parked = open_look(self._core.group(queue), admin, reader, now_ms=now_ms, hands=None).parked
        return next((each for each in parked.get(partition, ()) if each.offset() == offset), None)


def _choice(wanted: PageFilter) -> Choice:
    """Return what is to be so of a record.

    Raises:
        InvalidSettingError, InvalidSelectorError: a filter cannot be.
    """
    for name, text in (("unit", wanted.unit), ("message_id", wanted.message_id)):
        check_named(name, text)
    if wanted.state is not None and wanted.state not in PAGE_STATES:
        raise wrong_value("state", wanted.state, f"it is {' or '.join(map(repr, PAGE_STATES))}, or None for any")
    for name, at_ms in (("since_ms", wanted.since_ms), ("until_ms", wanted.until_ms)):
        if at_ms is not None:
            checked_int(name, at_ms, 0, None, "ms since 1970")
    ids = None if wanted.message_id is None else frozenset([wanted.message_id])
    return Choice(wanted.unit, ids, parse_selector(wanted.selector))


def _row(wanted: PageFilter, choice: Choice, now_ms: int, seen: Seen, knows_unit: bool) -> MessageRow | None:
    if not choice.matches(seen.record):
        return None
    row = message_row(seen, now_ms, knows_unit=knows_unit)
    if wanted.state is not None and not (
        row.state == wanted.state or (wanted.state == "ready" and row.state == "waits")
    ):
        return None
    if wanted.since_ms is not None and row.sent_at_ms < wanted.since_ms:
        return None
    if wanted.until_ms is not None and row.sent_at_ms > wanted.until_ms:
        return None
    return row
