"""Parks messages that hold up much of the log: looks for them, and reads their records beside (LOG-8, decision 77).

The next checkpoint writes them. A record may be anywhere here, in memory, in the held store or in somebody's hand; the
log has each of them, for the watermark has not passed it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import PARKED, Parked
from jbm_kafka.core.channel.offset_ranges import reading_spans
from jbm_kafka.core.channel.parking import parkable
from jbm_kafka.ports import KafkaClientError, KafkaRecord, LogReader
from jbm_kafka.ports.steps import GO_ON, Steps, Workers
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel

log = logging.getLogger(__name__)

COUNT_MAX = 1_000
"""Parked at once, of a channel."""
BYTES_MAX = 1 << 20
"""So much a checkpoint writes of them, of a channel, or one record."""
CHANNELS_MAX = 4
"""So many channels at once: they share a checkpoint, which others wait for."""
RECORD_BYTES_MAX = 1 << 19
"""A larger record stays in the log: brokers take some 1 MB, and the changelog's keys and headers are beside it."""
AGAIN_MS = 1_000
"""When more is to be parked, it follows after so long."""
READ_TIMEOUT_S = 10.0
SPAN_MAX = 2_000
GAP_MAX = 200
"""Records between two that are wanted, up to which one read takes both."""

MembersWithout = Callable[[str, str, str], Sequence[str]]
"""As of `EntryKinds`."""


class Parking:
    """The parking of one group worker. The owner thread's, but for what reads."""

    def __init__(
        self,
        data: GroupData,
        *,
        log_reader: Callable[[], LogReader],
        workers: Workers,
        members_without: MembersWithout,
    ) -> None:
        self._data = data
        self._log_reader = log_reader
        self._workers = workers
        self._members_without = members_without
        self._next_ms = 0
        self._goes_on = False
        """The last look has left some for the next."""

    def look(self, now_ms: int) -> None:
        """Choose what is to be parked, a few times a minute; monotonic."""
        if now_ms < self._next_ms or not self._data.group.is_recorded:
            return
        was_cut, self._goes_on = self._goes_on, False
        room = CHANNELS_MAX
        for channel in sorted(self._data.channels.values(), key=lambda each: each.parked.chosen_ms):
            parked, durable = channel.parked, channel.state.durable
            parked.look(now_ms)
            if channel.is_closing or channel.is_lost or not parked.may_look:
                continue
            below = min(parked.known_below, channel.state.read_position)
            offsets = parkable(durable, below=below, count_max=COUNT_MAX, never=parked.never)
            if not was_cut:  # else nobody had time to settle what is new
                parked.known_below = durable.end_position
            if offsets:
                self._goes_on = True
                room -= 1
                if room < 0:
                    continue
                parked.is_being_read, parked.chosen_ms = True, now_ms
                self._workers.start(f"jbm-parking-{channel.name}", self._read(channel, offsets))
        self._next_ms = now_ms + (AGAIN_MS if self._goes_on else self._data.config.park_look_ms)

    def _read(self, channel: OwnedChannel, offsets: Sequence[int]) -> Steps:
        """Beside: what it learns it tells the owner thread."""
        rows: list[Parked] = []
        never: list[int] = []
        group = self._data.group
        try:
            yield GO_ON
            if not self._members_without(PARKED, group.group_id, group.topic):
                with closing(self._log_reader()) as reader:
                    for begin, end in reading_spans(offsets, gap_max=GAP_MAX, length_max=SPAN_MAX):
                        wanted = [offset for offset in offsets if begin <= offset < end]
                        ranges = {channel.partition: (begin, end)}
                        found = reader.read(channel.topic, ranges, timeout_s=READ_TIMEOUT_S)
                        by_offset = {record.offset(): record for record in found}
                        is_full = _choose(rows, never, group.group_id, wanted, by_offset)
                        if is_full:
                            break
                        yield GO_ON
        except KafkaClientError as error:
            log.debug("%s: nothing is parked now: %s", channel.name, error)
            rows.clear()
        except Exception:
            log.exception("%s: nothing is parked now; nothing is lost", channel.name)
            rows.clear()
        self._data.mailbox.post(partial(_take, channel, rows, never))


def _choose(
    rows: list[Parked],
    never: list[int],
    group_id: str,
    wanted: Sequence[int],
    found: Mapping[int | None, KafkaRecord],
) -> bool:
    """Add what is parked and what cannot be; True when a checkpoint has no room for more."""
    size = sum(row.size for row in rows)
    for offset in wanted:
        record = found.get(offset)
        row = None if record is None else _parked(offset, record)
        if row is None or row.size > RECORD_BYTES_MAX or not _is_writable(group_id, row):
            never.append(offset)
            continue
        if rows and size + row.size > BYTES_MAX:
            return True
        rows.append(row)
        size += row.size
    return False


def _parked(offset: int, record: KafkaRecord) -> Parked:
    kind, at_ms = record.timestamp()
    return Parked(offset, record.key(), record.value(), tuple(record.headers() or ()), kind, max(at_ms, 0))


def _is_writable(group_id: str, row: Parked) -> bool:
    """Whatever a foreign producer has written must not keep a checkpoint from being written."""
    try:
        encode_entry(group_id, row)
    except Exception:  # such as a header's name that is no text
        return False
    return True


def _take(channel: OwnedChannel, rows: Sequence[Parked], never: Sequence[int]) -> None:
    channel.parked.is_being_read = False
    channel.parked.never.update(never)
    if not channel.is_lost and not channel.is_closing:
        channel.parked.chosen = rows
