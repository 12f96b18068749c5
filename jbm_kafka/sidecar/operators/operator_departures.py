"""Moves, removes, expires or dead-letters messages for an operator. Owner thread only (decision 40).

Each command is an errand. The records it names are read from the log, beside, for they may be anywhere: in memory, in
the held store, or not read yet. Then they pass to DEPARTING, all at once, and become durable with their copies in one
transfer. When that fails, what is moved waits again where it did; dead letters and expired messages are tried again one
by one, as all of them are. A worker keeps what it has in hand.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jbm_kafka.browsing.intake import references_by_partition, without_others
from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.codec.record_size import compressed_bytes_max
from jbm_kafka.core.channel.changes import Acknowledged, Fetched, TakenOut
from jbm_kafka.core.channel.departure import DEPARTS_BY, MOVED, OPERATOR, Departure, Route
from jbm_kafka.core.channel.entries import MessageEvent
from jbm_kafka.core.channel.offset_ranges import reading_spans
from jbm_kafka.core.channel.operator_removal import (
    REASONS,
    OperatorRemoval,
    Verb,
    decide_put_back,
    find,
    may_wait_again,
    route_of_verb,
)
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from jbm_kafka.core.jms_errors import ChannelLost, IllegalStateError, JMSError, OrderError
from jbm_kafka.core.settings.addresses import as_address
from jbm_kafka.ports import KafkaClientError, KafkaRecord, LogReader, Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import Steps, Wait, Workers
from jbm_kafka.sidecar.channel.departure_records import copy_of
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling
from jbm_kafka.sidecar.stages.departures import Departures, Submit, event_of
from jbm_kafka.sidecar.stages.repeated_messages import RepeatedMessages
from jbm_kafka.sidecar.stages.settle import Settle

log = logging.getLogger(__name__)

Reply = Callable[[Answer], None]

READ_TIMEOUT_S = 10.0
READ_BYTES = 8 << 20
READ_MAX = 2_000
"""Offsets read at once, of bodies that are small; the owner thread takes them in between two turns."""
GAP_MAX = 1_000
"""Offsets between two that are named which are rather read, too, than passed over."""
TAKEN_IN_TIMEOUT_S = 30.0
TARGET_TIMEOUT_MS = 10_000
"""For where the copies go to be found, or made."""


@dataclass(slots=True, eq=False)
class _Errand:
    """One command on its way."""

    command: Command
    channel: OwnedChannel
    verb: Verb
    offsets: Sequence[int]
    to: str | None
    splits_units: bool
    reply: Reply
    target_until_ms: int
    known: dict[int, Reference] = field(default_factory=dict)
    """The log's references at the offsets."""
    is_read: bool = False
    is_taken: bool = False
    """Its messages are on their way."""


class OperatorDepartures:
    """The errands of one group worker."""

    def __init__(
        self,
        data: GroupData,
        settle: Settle,
        departures: Departures,
        *,
        log_reader: Callable[[], LogReader],
        parked_records: Callable[[OwnedChannel], Sequence[KafkaRecord]],
        workers: Workers,
        submit: Submit,
        target_of: Callable[[str], TopicInfo],
        repeated: RepeatedMessages,
        prepare_taking_out: Callable[[OwnedChannel, Iterable[bytes]], None],
        reopen: Callable[[OwnedChannel], None],
    ) -> None:
        """`parked_records` reads what the changelog keeps of a channel; `prepare_taking_out` is called before messages
        of these units leave, maybe from the held store; `reopen` makes a channel anew."""
        self._data = data
        self._settle = settle
        self._departures = departures
        self._log_reader = log_reader
        self._parked_records = parked_records
        self._workers = workers
        self._submit = submit
        self._target_of = target_of
        self._repeated = repeated
        self._prepare_taking_out = prepare_taking_out
        self._reopen = reopen
        self._errands: dict[str, _Errand] = {}
        """Not answered yet, by the command's id."""
        self._answers: dict[int, Answer] = {}
        """The latest of each partition: a command that is sent again, because an answer was late, gets the same one."""

    @property
    def is_busy(self) -> bool:
        """Some command is not answered yet."""
        return bool(self._errands)

    def begin(self, channel: OwnedChannel, command: Command, reply: Reply) -> None:
        """Carry out the command; of one that is on its way nothing happens, one that is done is answered again.

        Raises:
            JMSError: it cannot be.
        """
        latest = self._answers.get(command.partition)
        if latest is not None and latest.id == command.id:
            reply(latest)
            return
        if command.id in self._errands:
            return
        if self._data.group.is_temporary:
            raise IllegalStateError(f"{self._data.group} is temporary: only its connection has its messages")
        arguments = command.arguments
        errand = _Errand(
            command,
            channel,
            Verb(command.verb),
            tuple(arguments.get("offsets", ())),
            arguments.get("to"),
            bool(arguments.get("splits_units")),
            reply,
            target_until_ms=self._data.clock.monotonic_ms() + TARGET_TIMEOUT_MS,
        )
        self._route(errand)
        self._errands[command.id] = errand
        has_parked = any(offset in channel.state.durable.parked for offset in errand.offsets)
        reading = self._read(errand, list(self._ranges(errand)), has_parked=has_parked)
        self._workers.start(f"jbm-taking-out-{channel.name}", reading)

    def go_on(self) -> None:
        """Take out what is read and has somewhere to go. In each turn."""
        for errand in list(self._errands.values()) if self._errands else ():
            if errand.channel.is_lost or (errand.channel.is_closing and not errand.is_taken):
                del self._errands[errand.command.id]  # its next owner is asked again
            elif errand.is_read and not errand.is_taken and not self._must_wait(errand):
                try:
                    self._take_out(errand)
                except JMSError as error:
                    self._refuse(errand, error)

    def _must_wait(self, errand: _Errand) -> bool:
        """Another move is on its way: what cannot be written is put back, and this one must not have passed it."""
        return errand.verb is Verb.MOVE and any(
            other.is_taken and other.verb is Verb.MOVE and other.channel is errand.channel
            for other in self._errands.values()
        )

    # -- reading, beside -------------------------------------------------------------------------------------------

    def _ranges(self, errand: _Errand) -> Iterator[tuple[int, int]]:
        """Yield what is to be read: about the offsets that are known, and all from there to the last that is not."""
        channel, end_position = errand.channel, errand.channel.state.end_position
        step = max(min(READ_BYTES // (channel.memory.mean_body_bytes + 1), READ_MAX), 1)
        known = [offset for offset in errand.offsets if offset < end_position]
        yield from reading_spans(known, gap_max=GAP_MAX, length_max=step)
        last = max(errand.offsets, default=-1)
        for ahead in range(end_position, last + 1, step):
            yield ahead, min(ahead + step, last + 1)

    def _read(self, errand: _Errand, ranges: Sequence[tuple[int, int]], *, has_parked: bool) -> Steps:
        """Beside: everything that it learns it tells the owner thread."""
        post, channel, command_id = self._data.mailbox.post, errand.channel, errand.command.id
        try:
            with closing(self._log_reader()) as reader:
                for begin, end in ranges:
                    found = reader.read(channel.topic, {channel.partition: (begin, end)}, timeout_s=READ_TIMEOUT_S)
                    is_taken_in = threading.Event()
                    if not post(partial(self._take_in, errand, end, found, is_taken_in)):
                        return  # its owner has ended
                    yield Wait(TAKEN_IN_TIMEOUT_S, is_taken_in)
                    if command_id not in self._errands:
                        return
            if has_parked:  # the log may have lost it
                post(partial(self._take_in, errand, 0, self._parked_records(channel), threading.Event()))
        except KafkaClientError as error:
            post(partial(self._refuse, errand, JMSError(f"{channel.name}: {error}")))
        else:
            post(partial(self._all_is_read, errand))

    def _all_is_read(self, errand: _Errand) -> None:
        errand.is_read = True

    def _take_in(self, errand: _Errand, end: int, records: Sequence[KafkaRecord], is_taken_in: threading.Event) -> None:
        channel = errand.channel
        if not channel.is_lost and not channel.is_closing:
            intake = references_by_partition(records).get(channel.partition)
            references = (
                []
                if intake is None
                else without_others(intake.references, intake.addressed, self._data.group.subscription)
            )
            if (has := self._data.has) is not None:
                references = [each for each in references if has(each)]
            begin = channel.state.end_position
            if end > begin:
                # From here on it is known what there is; when it is read, it is as after a recovery.
                ahead = [reference for reference in references if reference.offset >= begin]
                change = Fetched(begin=begin, end=end, references=ahead, is_ahead=True)
                identified = () if intake is None else intake.identified
                now_ms = self._data.clock.now_ms()
                channel.state.apply(self._repeated.sift(channel, change, identified, now_ms) if identified else change)
            wanted = set(errand.offsets)
            errand.known.update((each.offset, each) for each in references if each.offset in wanted)
        is_taken_in.set()

    # -- taking out ------------------------------------------------------------------------------------------------

    def _route(self, errand: _Errand) -> Route:
        source = as_address(self._data.group.destination)
        return route_of_verb(errand.verb, errand.channel.settings, source=source, to=errand.to)

    def _take_out(self, errand: _Errand) -> None:
        channel, state = errand.channel, errand.channel.state
        route = self._route(errand)
        target: TopicInfo | None = None
        if route.address is not None:
            try:
                target = self._target_of(route.address)
            except JMSError:
                if self._data.clock.monotonic_ms() > errand.target_until_ms:
                    raise
                return
        self._take_back_unread(channel, errand.offsets)
        try:
            self._prepare_taking_out(channel, {r.unit for r in errand.known.values() if r.unit is not None})
        except ChannelLost as error:
            log.warning("%s: %s; the channel is recovered from its changelog and its topic", channel.name, error)
            self._reopen(channel)
            return
        found = find(state, errand.offsets, errand.known, whole_units=errand.verb is Verb.MOVE)
        _check_order(found.takeable)
        leaving, copies, too_large, behind = self._copies(errand, found, target)
        result = {
            "done": [each.reference.offset for each in leaving],
            "in_hand": list(found.in_hand),
            "behind": [*found.behind, *behind],
            "too_large": too_large,
            "gone": list(found.gone),
            "address": route.address,
        }
        references = [each.reference for each in leaving]
        self._data.selections.look(references)
        errand.is_taken = True
        errand.known.clear()
        if references:
            state.apply(TakenOut(references))
        self._send(errand, route, leaving, copies, result)

    def _take_back_unread(self, channel: OwnedChannel, offsets: Sequence[int]) -> None:
        """Take back what no application has seen, uncounted: only what a worker works on stays with it."""
        named = frozenset(offsets).difference(channel.checkpoints.tentative)
        for link in list(self._data.links.values()):
            mine = named.intersection(channel.state.in_hand.get(link.terms.session_id, ()))
            if mine:
                unread = [each.offset for each in link.remove(channel.partition, mine)]
                self._settle.return_uncounted(channel, link.terms.session_id, unread)

    def _copies(
        self, errand: _Errand, found: OperatorRemoval, target: TopicInfo | None
    ) -> tuple[list[Departure], list[Outgoing], list[int], list[int]]:
        """Return what leaves, its copies; what is too large to be moved, and what of its units must wait behind it."""
        leaving: list[Departure] = []
        copies: list[Outgoing] = []
        too_large: list[int] = []
        behind: list[int] = []
        stuck: set[bytes] = set()
        group, reason, redeliveries = self._data.group, REASONS[errand.verb], errand.channel.state.redeliveries
        failures = errand.channel.state.durable.failures
        for reference in found.takeable:
            unit, offset = reference.unit, reference.offset
            if unit is not None and unit in stuck:
                behind.append(offset)
                continue
            failure = failures.get(offset)
            departure = Departure(
                reference, redeliveries[offset].attempts if offset in redeliveries else 0, reason, failure
            )
            if target is not None:
                _check_routes(target, unit)
                copy, has_body = copy_of(
                    departure,
                    source=group.destination,
                    target=target,
                    now_ms=self._data.clock.now_ms(),
                    compressed=compressed_bytes_max if target.keeps_compression else None,
                    subscription=group.subscription,
                    topic_id=errand.channel.changelog.topic_id,
                    namespace=self._data.config.namespace,
                )
                if reason == MOVED and not has_body:
                    too_large.append(offset)
                    if unit is not None and not errand.splits_units:
                        stuck.add(unit)
                    continue
                copies.append(copy)
            leaving.append(departure)
        return leaving, copies, too_large, behind

    def _send(
        self,
        errand: _Errand,
        route: Route,
        leaving: Sequence[Departure],
        copies: Sequence[Outgoing],
        result: Mapping[str, Any],
    ) -> None:
        channel = errand.channel
        offsets = [each.reference.offset for each in leaving]
        now_ms = self._data.clock.now_ms()
        events: list[MessageEvent] = [
            event_of(route.fate, each.reference, each.attempts, route.address, OPERATOR, channel, now_ms)
            for each in leaving
        ]
        if copies:
            settling = Settling(channel, DEPARTING, offsets, events)
            about = f"{errand.verb.value} of {len(copies)} messages of {channel.topic}[{channel.partition}]"
            ended = partial(self._ended, errand, route, leaving, result)
            done = Completion(lambda error: self._data.mailbox.post(lambda: ended(error)))
            self._submit(about, copies, settling, done)
            return
        if offsets:
            channel.state.apply(Acknowledged(DEPARTING, offsets, transition=DEPARTS_BY[route.fate]))
            for event in events:
                channel.checkpoints.note(event)
        # A channel that is lost before answers nothing: its next owner is asked again.
        ended = partial(self._ended, errand, route, leaving, result)
        channel.checkpoints.wait_durable(Completion(lambda error: ended(None) if error is None else None))

    def _ended(
        self,
        errand: _Errand,
        route: Route,
        leaving: Sequence[Departure],
        result: Mapping[str, Any],
        error: Exception | None,
    ) -> None:
        """They are gone and it is durable, with their copies; or these could not be written."""
        channel = errand.channel
        if error is None:
            for each in leaving:
                self._departures.log_left(channel, each, route.address)
            self._answer(errand, Answer(errand.command.id, channel.partition, result))
        elif not channel.is_lost:
            if errand.verb is Verb.MOVE:
                self._put_back(channel, [each.reference for each in leaving])
            else:
                # A session may have gone on behind them.
                for each in leaving:
                    self._departures.send(channel, each, is_first_try=False)
            self._refuse(errand, JMSError(str(error)))

    def _put_back(self, channel: OwnedChannel, references: Sequence[Reference]) -> None:
        if any(reference.offset in channel.checkpoints.tentative for reference in references):
            return  # nobody knows its end, for the process is about to go
        if may_wait_again(channel.state, references):
            channel.state.apply(decide_put_back(channel.state, references))
        else:
            self._reopen(channel)

    def _refuse(self, errand: _Errand, error: JMSError) -> None:
        """Not remembered: when it is asked again the fault may be mended."""
        if self._errands.pop(errand.command.id, None) is not None:
            errand.reply(Answer(errand.command.id, errand.channel.partition, error=str(error)))

    def _answer(self, errand: _Errand, answer: Answer) -> None:
        self._errands.pop(errand.command.id, None)
        self._answers[answer.partition] = answer
        errand.reply(answer)


def _check_order(references: Sequence[Reference]) -> None:
    """However they are ordered, a unit stays as it is."""
    last: dict[bytes, int] = {}
    for reference in references:
        if reference.unit is not None:
            if reference.offset < last.get(reference.unit, 0):
                raise OrderError(f"offset {reference.offset} is to leave behind later messages of its unit")
            last[reference.unit] = reference.offset


def _check_routes(target: TopicInfo, unit: bytes | None) -> None:
    if unit is not None and not target.takes_units:
        raise OrderError(
            f"{target.topic} has {target.partitions} partitions now, and its units are routed by "
            f"{target.unit_partitions}; first: jbm-kafka admit-partitions {target.topic}"
        )
