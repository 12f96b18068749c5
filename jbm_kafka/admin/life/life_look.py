"""Follows one message through topics: back to where it was sent first, then on through copies and retries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.life.message_life import Came, LifeHop, LifeState, MessageLife
from jbm_kafka.admin.life.record_search import RecordSearch, id_of, is_of
from jbm_kafka.admin.life.told_events import ToldEvents
from jbm_kafka.browsing.browse import READ_TIMEOUT_S, changelog_scope, looked_up, state_of
from jbm_kafka.codec.dead_letter import COPY_OF, ORIG_TOPIC_ID, origin_of
from jbm_kafka.codec.identity import unit_name
from jbm_kafka.codec.one_header import header_property
from jbm_kafka.codec.record_values import record_timestamp_ms
from jbm_kafka.codec.registry_records import SubscriptionRecord
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.message_past import MessagePlace, Past, PastStep, StepKind, past_of
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.destination import Queue, Topic, parse_destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaClientError, KafkaRecord, LogReader, TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup

HOPS_MAX = 24
"""A message that fails, is retried and fails again has three hops a round."""
OPERATED_MS = 3_600_000
"""An action may go on for so long: letters are sent again at a rate."""
CLOCKS_MS = 5_000
"""The console's clock and an owner's may be so far apart."""
SLACK_MS = 15_000
"""A copy is written in the transaction that tells of it: so far the clocks and the transaction's time may part them."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """A place that the message is known to have come to."""

    destination: Queue | Topic
    partition: int
    offset: int
    came: Came
    record: KafkaRecord | None
    arrived_at_ms: int | None
    only: str | None = None
    """The only subscription that this copy is for, by its full name; None: a queue's, or for all."""
    topic_id: str | None = None
    """The topic's id as a letter tells it, as in `Position`; None: the topic of this name now."""

    @property
    def place(self) -> tuple[str, int, int]:
        return str(self.destination), self.partition, self.offset


class LifeLook:
    """One look. One thread."""

    def __init__(self, core: AdminCore, reader: LogReader) -> None:
        self._core = core
        self._reader = reader
        self._search = RecordSearch(core.admin, reader, core.namespace)
        self._events = ToldEvents(core.admin, reader, core.namespace)
        self._states: dict[str, Mapping[int, ChannelState] | None] = {}
        self._notes: list[str] = []
        self._passed = set[tuple[str, int, int]]()
        """Places that were gone through: a copy is another record, whatever the clocks say."""
        self._id = ""

    def at(self, destination: Queue | Topic, partition: int, offset: int, only: str | None) -> MessageLife:
        """The life of the message at a place, whether its record is still there or not."""
        record = self._search.at(destination, partition, offset)
        return self._life(_Stop(destination, partition, offset, "sent", record, _arrived(record), only))

    def of_id(self, destination: Queue | Topic, message_id: str, only: str | None) -> MessageLife:
        """The life of the message with this id: looked for where it is said to be, and among letters."""
        letters = self._core.catalog.default_addresses()
        places = dict.fromkeys([destination, Queue(letters.dead_letters), Queue(letters.expired)])
        for place in places:
            record = self._search.first(place, lambda each: message_id in (id_of(each), _origin_id(each)))
            if record is not None:
                return self._life(_stop(place, record, "sent", only if place == destination else None))
        where = ", ".join(map(str, places))
        note = (
            f"no record of {message_id} is in {where}: it was settled and deleted from the log, or it was never there"
        )
        return MessageLife(
            message_id=message_id, unit=None, sent_at_ms=None, hops=(), notes=(note, *self._search.notes)
        )

    def _life(self, begin: _Stop) -> MessageLife:
        record = begin.record
        self._id = f"the message at {begin.destination} partition {begin.partition} offset {begin.offset}"
        if record is not None:
            self._id = _copied_from(record) or _origin_id(record) or id_of(record)
        root = self._back(begin)
        sent_at_ms = None if record is None else record_timestamp_ms(record)
        hops = [*self._forth(root, sent_at_ms)]
        known = next((each for each in (record, root.record) if each is not None), None)
        return MessageLife(
            message_id=self._id,
            unit=None if known is None else unit_name(known.key()),
            sent_at_ms=sent_at_ms,
            hops=tuple(hops),
            notes=tuple(dict.fromkeys([*self._notes, *_unrecorded(hops), *self._search.notes, *self._events.notes])),
        )

    # -- back --------------------------------------------------------------------------------------------------------

    def _back(self, stop: _Stop) -> _Stop:
        """Where the message was first, as far as what is kept tells."""
        passed = set[tuple[str, int, int]]()
        while (before := self._before(stop)) is not None:
            if before.place in passed or len(passed) >= HOPS_MAX:
                break
            passed.add(before.place)
            stop = before
        return stop

    def _before(self, stop: _Stop) -> _Stop | None:
        record = stop.record
        if record is None:
            return None
        origin = origin_of(record.headers())
        if origin.destination is not None:
            return self._original(record)
        written_at_ms, sent_at_ms = record.timestamp()[1], record_timestamp_ms(record)
        copied_from = _copied_from(record)
        if copied_from is None and written_at_ms <= sent_at_ms:
            return None
        at = record.partition(), record.offset()

        def is_earlier(each: KafkaRecord) -> bool:
            is_before = each.partition() == at[0] and (each.offset() or 0) < (at[1] or 0)
            return is_of(each, self._id) and (is_before or each.timestamp()[1] < written_at_ms)

        earlier = self._search.first(
            stop.destination,
            is_earlier,
            since_ms=sent_at_ms - SLACK_MS,
            until_ms=written_at_ms,
        )
        if earlier is not None:
            return _stop(stop.destination, earlier, "sent", stop.only)
        if stop.came == "sent":
            self._notes.append(
                f"it came to {stop.destination} as a copy, moved or sent again; where it was before is in no log any "
                f"more (truncate=never keeps it)"
            )
        return None

    def _original(self, letter: KafkaRecord) -> _Stop | None:
        """Where a letter came from; its record is mostly gone, the events about it are not."""
        origin = origin_of(letter.headers())
        destination = _durable(origin.destination)
        if destination is None or origin.partition is None or origin.offset is None:
            return None
        record = self._search.at(destination, origin.partition, origin.offset)
        if record is not None and id_of(record) != origin.message_id:
            record = None  # the queue was made anew
        told = header_property(letter.headers(), ORIG_TOPIC_ID)
        topic_id = told.value if told is not None and isinstance(told.value, str) else None
        place = origin.partition, origin.offset
        return _Stop(destination, *place, "sent", record, _arrived(record), origin.subscription, topic_id)

    # -- forth -------------------------------------------------------------------------------------------------------

    def _forth(self, root: _Stop, sent_at_ms: int | None) -> Iterator[LifeHop]:
        ahead = [root]
        while ahead and len(self._passed) < HOPS_MAX:
            stop = ahead.pop(0)
            if stop.place in self._passed:
                continue
            self._passed.add(stop.place)
            for hop in self._hops(stop, sent_at_ms):
                following = [*self._next(stop, hop)]
                yield replace(hop, ended_by=self._operator(hop, following))
                ahead.extend(following)

    def _hops(self, stop: _Stop, sent_at_ms: int | None) -> Iterator[LifeHop]:
        """One for a queue; of a topic one for each subscription."""
        since_ms = next((ms for ms in (sent_at_ms, stop.arrived_at_ms) if ms is not None), 0)
        described = self._search.described(stop.destination)
        groups = self._groups(stop)
        if not groups:
            self._notes.append(f"{stop.destination} has no subscription now that would have the message")
            yield _hop(stop, None, Past())
        for group in groups:
            now_id = None if described is None else group.log_id(described.topic_id)
            log_id = stop.topic_id or now_id
            if log_id is None:
                self._notes.append(f"{stop.destination} is not there any more, and nothing tells its topic's id")
                yield _hop(stop, group, Past())
                continue
            place = MessagePlace(group.group_id, group.topic, log_id, stop.partition, stop.offset)
            past = past_of(place, self._events.of(group.group_id, group.topic, stop.partition, since_ms))
            hop = _hop(stop, group, past)
            if described is None or log_id != now_id:
                yield replace(hop, state="settled" if past.end else "unknown")
            else:
                yield self._with_state(hop, group, described, stop.record)

    def _groups(self, stop: _Stop) -> list[ChannelGroup]:
        sources: list[Queue | SubscriptionRecord]
        if isinstance(stop.destination, Queue):
            sources = [stop.destination]
        else:
            records = self._core.catalog.records_of(stop.destination)
            sources = [each for each in records if stop.only in (None, each.subscription.full_name)]
        return [self._core.group(each) for each in sources]

    def _with_state(
        self, hop: LifeHop, group: ChannelGroup, described: TopicDescription, record: KafkaRecord | None
    ) -> LifeHop:
        """How it stands there now, by the changelog, and by who has it in hand."""
        state, attempts = self._state(group, described, hop.partition), hop.attempts
        if state is None:
            return hop
        if (hop.offset < state.end_position and hop.offset not in state.unsettled) or (record is None and hop.past.end):
            return replace(hop, state="settled")
        redelivery = state.redeliveries.get(hop.offset)
        if redelivery is not None:
            attempts = redelivery.attempts
        headers = scan(record.headers()) if record is not None else None
        due_at_ms = 0 if redelivery is None else redelivery.due_at_ms
        if headers is not None and (redelivery is None or redelivery.waits_for_sender):
            due_at_ms = max(due_at_ms, headers.delivery_time_ms)
        now_ms = self._core.cluster.clock.now_ms()
        stands: LifeState = "waits"
        if self._is_in_hand(group, hop.partition, hop.offset):
            stands = "in hand"
        elif due_at_ms >= FOREVER_MS:
            stands = "on hold"
        elif headers is not None and is_expired(headers.expiration_ms, now_ms):
            stands = "expired"
        elif due_at_ms > now_ms:
            stands = "delayed"
        return replace(hop, state=stands, due_at_ms=due_at_ms if stands == "delayed" else 0, attempts=attempts,
                       last_error=state.durable.failures.get(hop.offset))  # fmt: skip

    def _state(self, group: ChannelGroup, described: TopicDescription, partition: int) -> ChannelState | None:
        if group.group_id not in self._states:
            try:
                scope = changelog_scope(group, described.topic_id)
                found = looked_up(scope, described.partitions, self._core.admin, self._reader, READ_TIMEOUT_S)
                self._states[group.group_id] = {place: state_of(each) for place, each in found.items()}
            except KafkaClientError as error:
                self._notes.append(f"how it stands in {group.destination} now cannot be read: {error}")
                self._states[group.group_id] = None
        return (self._states[group.group_id] or {}).get(partition)

    def _is_in_hand(self, group: ChannelGroup, partition: int, offset: int) -> bool:
        hand = self._core.hands().of(group, [partition], self._core.admin).get(partition)
        return hand is not None and offset in hand.delivered

    def _next(self, stop: _Stop, hop: LifeHop) -> Iterator[_Stop]:
        end = hop.past.end
        if end is None:
            return
        if end.target is not None:
            yield from self._copy(stop, end)
        elif end.kind is StepKind.ACKNOWLEDGED and stop.record is not None:
            yield from self._sent_again(stop.record, end)

    def _operator(self, hop: LifeHop, following: Sequence[_Stop]) -> str | None:
        """Who settled it by the console: whose action on its queue was under way then."""
        end = hop.past.end
        verbs = () if end is None else _VERBS.get(end.kind, ())
        if end is None or not verbs or (end.kind is StepKind.ACKNOWLEDGED and not following):
            return None
        told = self._events.operator_actions(hop.destination.name, end.at_ms - OPERATED_MS)
        begun = {each.id: each for each in told if each.outcome == "begun" and each.action in verbs}
        over = {each.id: each.at_ms for each in told if each.outcome != "begun"}
        for each in begun.values():
            ended_at_ms = over.get(each.id, each.at_ms + OPERATED_MS)
            if each.at_ms - CLOCKS_MS <= end.at_ms <= ended_at_ms + CLOCKS_MS:
                return each.by
        return None

    def _copy(self, stop: _Stop, end: PastStep) -> Iterator[_Stop]:
        """Where the copy is that a dead letter, an expired or a moved message left."""
        target = _durable(end.target)
        if target is None:
            return

        def is_it(record: KafkaRecord) -> bool:
            if end.kind is StepKind.MOVED:
                return is_of(record, self._id) and self._is_new(target, record)
            origin = origin_of(record.headers())
            return (origin.destination, origin.partition, origin.offset) == stop.place

        record = self._found(target, is_it, end)
        if record is None:
            self._notes.append(f"its copy in {target} is not in the log any more: it was settled there, or deleted")
        else:
            yield _stop(target, record, _CAME_BY.get(end.kind, "moved"), None)

    def _sent_again(self, letter: KafkaRecord, end: PastStep) -> Iterator[_Stop]:
        """Yield what a retry of a letter sent; nothing where somebody received the letter for good."""
        origin = origin_of(letter.headers())
        target = _durable(origin.destination)
        if target is None:
            return
        record = self._found(target, lambda each: is_of(each, self._id) and self._is_new(target, each), end)
        if record is not None:
            yield _stop(target, record, "sent again" if _copied_from(record) is None else "edited", origin.subscription)

    def _found(self, target: Queue | Topic, is_it: Callable[[KafkaRecord], bool], end: PastStep) -> KafkaRecord | None:
        """Return what was written in the transaction that settled the message."""
        return self._search.first(target, is_it, since_ms=end.at_ms - SLACK_MS, until_ms=end.at_ms + SLACK_MS)

    def _is_new(self, destination: Queue | Topic, record: KafkaRecord) -> bool:
        return (str(destination), record.partition() or 0, record.offset() or 0) not in self._passed


_VERBS: Mapping[StepKind, Sequence[str]] = {
    StepKind.MOVED: ("move",),
    StepKind.REMOVED: ("remove", "release"),
    StepKind.EXPIRED: ("expire",),
    StepKind.DEAD_LETTERED: ("give-up", "release"),
    StepKind.ACKNOWLEDGED: ("retry-letters", "edit-letter"),
}
"""The actions of the console that settle a message in such a way."""
_CAME_BY: Mapping[StepKind, Came] = {StepKind.DEAD_LETTERED: "dead-lettered", StepKind.EXPIRED: "expired"}


def _stop(destination: Queue | Topic, record: KafkaRecord, came: Came, only: str | None) -> _Stop:
    place = record.partition() or 0, record.offset() or 0
    return _Stop(destination, *place, came, record, _arrived(record), only)


def _hop(stop: _Stop, group: ChannelGroup | None, past: Past) -> LifeHop:
    """With what events alone tell."""
    of = None if group is None or group.subscription is None else group.subscription.full_name
    return LifeHop(
        destination=stop.destination,
        subscription=of,
        partition=stop.partition,
        offset=stop.offset,
        came=stop.came,
        arrived_at_ms=stop.arrived_at_ms,
        is_in_log=stop.record is not None,
        past=past,
        state="unknown",
        due_at_ms=0,
        ended_by=None,
        attempts=max([step.attempts or 0 for step in past.steps if step.kind is not StepKind.HANDED], default=0),
    )


def _durable(address: str | None) -> Queue | Topic | None:
    """The destination of this text, unless it ended with its connection."""
    try:
        found = parse_destination(address or "")
    except JMSError:
        return None
    return found if isinstance(found, Queue | Topic) and not found.is_temporary else None


def _arrived(record: KafkaRecord | None) -> int | None:
    return None if record is None else record.timestamp()[1]


def _origin_id(record: KafkaRecord) -> str | None:
    return origin_of(record.headers()).message_id


def _copied_from(record: KafkaRecord) -> str | None:
    """The id of the letter that this is an edited copy of."""
    found = header_property(record.headers(), COPY_OF)
    return found.value if found is not None and isinstance(found.value, str) else None


def _unrecorded(hops: list[LifeHop]) -> Iterator[str]:
    for hop in hops:
        if not hop.past.tells_deliveries:
            name = hop.destination.name
            yield (
                f"{hop.destination} does not record who was given its messages; with the setting record_deliveries it "
                f"does from then on: jbm-kafka settings set {name} record_deliveries=true"
            )
