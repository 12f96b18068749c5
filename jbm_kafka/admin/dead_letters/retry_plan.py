"""Which dead letters can be sent again, where to, and what that does to the order of their units. Sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jbm_kafka.admin.dead_letters.letters import (
    DeadLetter,
    KeptLetter,
    LetterFilter,
    RetryReport,
    letter_of,
    oldest_first,
)
from jbm_kafka.admin.messages.selection import several
from jbm_kafka.browsing.intake import reference_of, what_it_has
from jbm_kafka.codec.bodies import NONE, body_kind
from jbm_kafka.codec.dead_letter import Origin, retried_headers
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.codec.large_body import is_kept_elsewhere
from jbm_kafka.codec.record_size import batch_bytes, compressed_bytes_max
from jbm_kafka.core.channel.departure import OPERATOR
from jbm_kafka.core.destination import Queue, Topic, parse_destination
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError, MessageTooLargeError, OrderError
from jbm_kafka.core.settings.address_settings import default_addresses
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.ports import KafkaAdmin, KafkaClientError, KafkaRecord, LogReader, Outgoing
from jbm_kafka.ports.provider import TopicInfo

_Line = tuple[int, str | None, str | None, str]

READ_TIMEOUT_S = 30.0
CHUNK = 10_000
NAMED = 5
"""So many letters are named by their ids."""
FOLLOWING_MAX = 50_000
"""Messages behind an original that are looked at, in each partition, for later ones of its unit."""


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The plan of a retry."""

    letters: Sequence[DeadLetter] = ()
    kept: Sequence[KeptLetter] = ()
    warnings: Sequence[str] = ()


class RetryPlanner:
    """Makes plans, and the records that they send. One thread."""

    def __init__(
        self,
        source: Queue,
        *,
        admin: KafkaAdmin,
        reader: LogReader,
        info_of: Callable[[Queue | Topic], TopicInfo],
        subscriptions_of: Callable[[Topic], Sequence[Subscription]],
        namespace: str,
        check_sendable: Callable[[Queue | Topic], None] | None = None,
    ) -> None:
        """
        Args:
            namespace: whose letters may be sent.
            info_of: of a destination; raises JMSError when it cannot be sent to.
            check_sendable: does so, too, and is asked for each letter: a pause may begin meanwhile.
        """
        self._source = source
        self._namespace = namespace
        self._admin = admin
        self._is_received_here: dict[str, bool] = {}
        """Tells by destination if it is received from here, where a letter did not say whose it is."""
        self._reader = reader
        self._info_of = info_of
        self._check_sendable = check_sendable
        self._infos: dict[Queue | Topic, TopicInfo | JMSError] = {}
        self._subscriptions_of = cache(subscriptions_of)

    def plan(self, records: Iterable[KafkaRecord], wanted: LetterFilter, count: int | None) -> RetryPlan:
        """Look at every record of the dead-letter queue, in the order of its log."""
        letters: list[DeadLetter] = []
        kept: list[KeptLetter] = []
        first_others: dict[tuple[_Line, str | None], DeadLetter] = {}
        for record in records:
            letter = letter_of(record)
            is_wanted = wanted.matches(letter, record)
            why = self._why_kept(letter, record) if is_wanted else None
            if why is not None:
                kept.append(KeptLetter(letter, why))
            if is_wanted and why is None:
                letters.append(letter)
            else:
                first_others.setdefault((_line(letter), letter.reason), letter)
        oldest = oldest_first(letters)
        chosen = oldest[:count]
        stayed = [*first_others.values(), *oldest[len(chosen) :]]
        warnings = [*given_up(chosen, wanted), *passed_over(self._source, chosen, stayed), *self._gone_on(chosen)]
        if not (chosen or kept):
            warnings.extend(nothing_matched(self._source, wanted, _usual(self._namespace)))
        return RetryPlan(chosen, kept, warnings)

    def outgoing(self, letter: DeadLetter, record: KafkaRecord) -> Outgoing:
        """The record that sends a letter again.

        Raises:
            JMSError: it cannot be sent; the text says why, and what to do.
        """
        destination = self.destination(letter)
        self._check_ours(letter, destination)
        info = self._info(destination)
        if self._check_sendable is not None:
            self._check_sendable(destination)
        subscription = None
        if isinstance(destination, Topic):
            subscription = self._check_subscription(letter, destination, record)
        key = record.key() or None
        value = record.value()
        if value is None and body_kind(record.headers()) != NONE and not is_kept_elsewhere(record.headers()):
            value = self._original_body(letter, destination)
        headers = retried_headers(record.headers(), subscription=subscription)
        size = batch_bytes(key, value, headers)
        if size > info.max_message_bytes and info.keeps_compression:
            size = min(size, compressed_bytes_max(key, value, headers))
        if size > info.max_message_bytes:
            raise MessageTooLargeError(
                f"it has {size} bytes, and {destination} takes {info.max_message_bytes}: raise max.message.bytes of "
                f"its topic"
            )
        partition = _partition(letter, info, key)
        return Outgoing(info.topic, partition, key, value, headers, None, info.max_message_bytes)

    def _check_ours(self, letter: DeadLetter, destination: Queue | Topic) -> None:
        """Each namespace receives what is sent again, so another's letter would be handed to who never had it."""
        namespace = letter.origin.namespace
        if namespace is not None and namespace != self._namespace:
            whose = f"of namespace {namespace!r}" if namespace else "of no namespace"
            raise InvalidDestinationError(
                f"receivers {whose} gave it up, not those of {self._namespace or 'no namespace'}: retry it from there"
            )
        if namespace is None and self._namespace and not self._may_be_ours(destination):
            raise InvalidDestinationError(
                f"an earlier version wrote it, and nobody in namespace {self._namespace!r} has received from "
                f"{destination}: it is another namespace's; retry it from there"
            )

    def _may_be_ours(self, destination: Queue | Topic) -> bool:
        changelog = destination.changelog_topic(self._namespace)
        if changelog not in self._is_received_here:
            self._is_received_here[changelog] = changelog in self._admin.describe([changelog])
        return self._is_received_here[changelog]

    def _why_kept(self, letter: DeadLetter, record: KafkaRecord) -> str | None:
        try:
            self.outgoing(letter, record)
        except (JMSError, KafkaClientError) as error:
            return str(error)
        return None

    def destination(self, letter: DeadLetter) -> Queue | Topic:
        """Where it came from.

        Raises:
            InvalidDestinationError: it does not tell, or that is no more.
        """
        address = letter.origin.destination
        if address is None:
            raise InvalidDestinationError(
                f"it does not tell where it came from: somebody wrote it to {self._source.name} as it is. Receive it "
                f"from there, or send it on yourself"
            )
        try:
            destination = parse_destination(address)
        except InvalidDestinationError as fault:
            raise InvalidDestinationError(f"where it came from cannot be read: {fault}") from None
        if not isinstance(destination, Queue | Topic) or destination.is_temporary:
            raise InvalidDestinationError(f"it came from {destination}, which ended with its connection")
        if destination == self._source:
            raise InvalidDestinationError(f"it came from {destination} itself, where it is")
        return destination

    def _check_subscription(self, letter: DeadLetter, topic: Topic, record: KafkaRecord) -> Subscription:
        """The subscription that it came from; the others have had their copies (decision 51)."""
        name = letter.origin.subscription
        found = subscription_of(letter.origin, self._subscriptions_of(topic))
        by_hand = f"or receive it, and send it to {topic} yourself, where every subscription gets it"
        if name is None or found is None:
            which = "of a name that it does not say" if name is None else repr(name)
            raise InvalidDestinationError(
                f"it came from {topic} and its subscription {which}, which is not there any more: make it again, "
                f"{by_hand}"
            )
        has = what_it_has(found)
        if has is not None and not has(reference_of(record)):
            raise InvalidDestinationError(
                f"it came from {topic} and its subscription {name!r}, which is another one now, of "
                f"{found.choice_text}, and does not choose it: subscribe as before, {by_hand}"
            )
        return found

    def _original_body(self, letter: DeadLetter, destination: Queue | Topic) -> bytes | None:
        """The body of a letter that was too large to take it along: the original's, which the log still has."""
        place = letter.original_place
        if place is None:
            return None
        info, (_, partition, offset) = self._info(destination), place
        end = 0
        if partition < info.partitions:
            end = self._admin.end_positions(info.topic, [partition], stable=True)[partition]
        for record in self._read(info.topic, partition, offset, min(offset + 1, end)):
            if message_id_of(record.headers(), info.topic, partition, offset) == letter.message_id:
                return record.value()
        raise InvalidDestinationError(
            f"it came without its body, and the original at {destination} partition {partition} offset {offset} is not "
            f"in the log any more: nothing has the body"
        )

    def _gone_on(self, letters: Sequence[DeadLetter]) -> Iterator[str]:
        """Units of which later messages were sent there: those were, or will be, processed before."""
        for destination, by_partition in _originals(letters).items():
            info = self._info(destination)
            ours = {p: offsets for p, offsets in by_partition.items() if p < info.partitions}
            ends = self._admin.end_positions(info.topic, list(ours), stable=True)
            units: set[str] = set()
            for partition, offsets in ours.items():
                begin, end = min(offsets) + 1, ends[partition]
                if end - begin > FOLLOWING_MAX:
                    end = begin + FOLLOWING_MAX
                    yield (
                        f"partition {partition} of {destination}: more than {FOLLOWING_MAX} messages follow; whether "
                        f"units went on was looked up in the first of them only"
                    )
                units.update(_later_units(self._read(info.topic, partition, begin, end), offsets))
            if units:
                yield (
                    f"{several(units)} of {destination} went on: later messages have overtaken these letters, or will "
                    f"(with on_dead_letter='hold' a unit waits instead)"
                )

    def _info(self, destination: Queue | Topic) -> TopicInfo:
        """Return what is known of a destination, or why it cannot be sent to; asked for once."""
        if destination not in self._infos:
            try:
                self._infos[destination] = self._info_of(destination)
            except JMSError as error:
                self._infos[destination] = error
        found = self._infos[destination]
        if isinstance(found, JMSError):
            raise found
        return found

    def _read(self, topic: str, partition: int, begin: int, end: int) -> Iterator[KafkaRecord]:
        while begin < end:
            upto = min(begin + CHUNK, end)
            yield from self._reader.read(topic, {partition: (begin, upto)}, timeout_s=READ_TIMEOUT_S)
            begin = upto


def subscription_of(origin: Origin, subscriptions: Iterable[Subscription]) -> Subscription | None:
    """The one of them that gave the letter up, or has come in its place.

    One client id may use a name twice: for a durable subscription, and for one that is shared and not durable. A letter
    of an earlier version does not tell which; then the durable one comes first.
    """
    known = list(subscriptions)
    found = [each for each in known if each.full_name == origin.subscription]
    found = found or [each for each in known if each.former_name == origin.subscription]
    if origin.subscription_kind is not None:
        is_durable = origin.subscription_kind in (SubscriptionKind.DURABLE.value, SubscriptionKind.SHARED_DURABLE.value)
        found = [each for each in found if each.is_durable == is_durable]
    return max(found, key=lambda each: each.is_durable, default=None)


def _partition(letter: DeadLetter, info: TopicInfo, key: bytes | None) -> int:
    """Where the unit's other messages go; without a unit where it was."""
    if key is None:
        return (letter.origin.partition or 0) % info.partitions
    if not info.takes_units:
        raise OrderError(
            f"{info.topic} has {info.partitions} partitions now, and its units are routed by {info.unit_partitions}; "
            f"first: jbm-kafka admit-partitions {info.topic}"
        )
    return info.home(key)  # what is in motion is claimed when it is sent


def _line(letter: DeadLetter) -> _Line:
    """Return what stays in order: one unit's letters from one queue or subscription."""
    return letter.partition, letter.origin.destination, letter.origin.subscription, letter.unit or ""


def given_up(sent: Iterable[DeadLetter], wanted: LetterFilter) -> Iterator[str]:
    """A warning of letters that an operator gave up, mostly for good, and that go back among others.

    Not where they were asked for, by their reason or their id.
    """
    reasons: dict[str | None, list[DeadLetter]] = {}
    for letter in sent:
        reasons.setdefault(letter.reason, []).append(letter)
    theirs = reasons.pop(OPERATOR, [])
    if theirs and wanted.reason is None and wanted.message_id is None:
        more = f" and {len(theirs) - NAMED} more" if len(theirs) > NAMED else ""
        named = ", ".join(letter.message_id for letter in theirs[:NAMED])
        others = [each for each in reasons if each is not None]
        commands = " and ".join(f"jbm-kafka dead-letters retry --reason {each}" for each in others)
        leave = f"; {commands} leave{'s' if len(others) == 1 else ''} them out" if others else ""
        were = "was" if len(theirs) == 1 else "were"
        yield f"{len(theirs)} of them {were} given up by an operator ({named}{more}){leave}"


def _usual(namespace: str) -> Collection[str]:
    return default_addresses().dead_letters, default_addresses(namespace).dead_letters


def nothing_matched(source: Queue, wanted: LetterFilter, usual: Collection[str]) -> Iterator[str]:
    """A warning of a name that no letter has, or of a queue without any: it would look like a retry of all there was.

    Not of a `usual` dead-letter queue: empty it is what one hopes for.
    """
    asked = {"origin": wanted.origin, "reason": wanted.reason, "unit": wanted.unit, "message_id": wanted.message_id}
    named = [f"{name}={str(value)!r}" for name, value in asked.items() if value is not None]
    if wanted.selector is not None:
        named.append("the selector")
    if wanted.places is not None:
        named.append("the places that were named")
    if named:
        yield f"nothing in {source} is of {' and '.join(named)}; Admin.dead_letters() tells what there is"
    elif source.name not in usual:
        yield (
            f"nothing is in {source}; the letters of messages that were sent there are in a dead-letter queue: leave "
            f"the queue out, or name that one, and choose them with origin={source.name!r}"
        )


def passed_over(source: Queue, sent: Iterable[DeadLetter], stayed: Sequence[DeadLetter]) -> Iterator[str]:
    """A warning of units of which a letter is sent, and an earlier one stays.

    What an operator gave up is mostly meant to stay: it killed or hung its workers.
    """
    sent = list(sent)
    others, operators = (
        {each.unit for each in sent if each.unit and first.get(_line(each), each.offset) < each.offset}
        for first in (_first_of_lines(stayed, is_operator=is_operator) for is_operator in (False, True))
    )
    if others:
        yield (
            f"{several(others)}: earlier letters stay in {source.name} while later ones are sent, so their order is "
            f"given up; send all of a unit's letters to keep it"
        )
    if operators:
        yield (
            f"{several(operators)}: earlier letters that an operator gave up (reason operator) stay in {source.name} "
            f"while later ones are sent; leave them there if they were given up for good, as what kills its workers is"
        )


def _first_of_lines(letters: Iterable[DeadLetter], *, is_operator: bool) -> Mapping[_Line, int]:
    """The lowest offset of each line, among what an operator gave up, or among all else."""
    first: dict[_Line, int] = {}
    for letter in letters:
        if letter.unit is not None and (letter.reason == OPERATOR) is is_operator:
            first[_line(letter)] = min(letter.offset, first.get(_line(letter), letter.offset))
    return first


def _originals(letters: Iterable[DeadLetter]) -> Mapping[Queue | Topic, Mapping[int, Mapping[int, str]]]:
    """The letters with a unit by the place of their originals: destination, partition, offset."""
    found: dict[Queue | Topic, dict[int, dict[int, str]]] = {}
    for letter in letters:
        place = letter.original_place
        if letter.unit is not None and place is not None:
            destination = destination_at(place[0])
            found.setdefault(destination, {}).setdefault(place[1], {})[place[2]] = letter.unit
    return found


def _later_units(records: Iterable[KafkaRecord], originals: Mapping[int, str]) -> Collection[str]:
    """Units with a message behind the first of their letters' originals that is not itself one of these."""
    first: dict[str, int] = {}
    for offset, unit in sorted(originals.items(), reverse=True):
        first[unit] = offset
    found: set[str] = set()
    for record in records:
        offset, its_unit = record.offset() or 0, unit_name(record.key())
        if its_unit is not None and offset > first.get(its_unit, offset) and offset not in originals:
            found.add(its_unit)
    return found


def planned_report(source: Queue, plan: RetryPlan, *, is_dry_run: bool) -> RetryReport:
    """Return what a retry that sends nothing tells."""
    return RetryReport(
        source=source, is_dry_run=is_dry_run, letters=plan.letters, kept=plan.kept, taken=(), warnings=plan.warnings
    )
