"""Finds out why messages of a queue or subscription do not move (decision 39).

Three are asked: Kafka, for the group's members, the ends of the logs and open transactions; topic and changelog, for
what is held; and the processes that have the partitions, for what only they know. Where one cannot answer, the others
still do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from jbm_kafka.admin.cluster.admin_core import AdminCore, Tell
from jbm_kafka.admin.explain import reasons
from jbm_kafka.admin.explain.explanation import (
    ExplainedMessage,
    ExplainedPartition,
    ExplainedReceiver,
    Explanation,
    Holder,
    Reason,
)
from jbm_kafka.admin.explain.held_units import HeldMessageRow, HeldUnits, look_at, row_of
from jbm_kafka.admin.explain.members import being_shared, put_out, silent, silent_members, suspects
from jbm_kafka.admin.explain.reasons import reason
from jbm_kafka.admin.explain.receiver_states import holder_of, process_of, receivers_of, worker_of
from jbm_kafka.admin.owners.present_owners import PERHAPS_S, OwnerAnswers, PresentOwners
from jbm_kafka.browsing.browse import Sought, browse
from jbm_kafka.codec.command_records import EXPLAIN
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.codec.pause_record import Halt, Pause
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.companion_group import lost_of
from jbm_kafka.core.channel.entries import Prepared
from jbm_kafka.core.channel.holders import branch_of
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.ports import FoundTransactions, GroupMember, KafkaClientError, KafkaRecord, Unreachable
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.command_client import waited_for
from jbm_kafka.store.recovery import RecoveredChannel

COUNT_MAX = 50_000
"""Messages looked at where nothing special was asked about: a second's work."""
UNITS_MAX = 20
"""Units that are explained then, those that wait longest."""
OFFSETS_TIMEOUT_S = 4.0
"""For committed offsets, which come in milliseconds unless a process that died has left a checkpoint open: then they do
not come for 10 s."""
READ_TIMEOUT_S = 10.0
"""For changelogs, and for what lies behind an open transaction."""
TELL_EACH_S = 2.0
"""So often it is told how far it is, where that takes long."""
RECORDS_MAX = 20_000
"""Records behind an open transaction that are looked at, of each partition."""
_TIMED = (Rule.DELAYED, Rule.NOT_YET_DUE)
_NOT_WAITING = (Rule.IN_HAND, Rule.PREPARED, Rule.IN_DOUBT, Rule.LEAVING, Rule.SETTLED, Rule.NOT_READ)
_RULES = {each.value: each for each in Rule}


@dataclass(frozen=True, slots=True)
class Question:
    """The part that is to be explained; without unit and id all of it."""

    unit: str | None
    message_id: str | None
    older_than_ms: int
    """Only what was sent longer ago."""
    timeout_s: float
    """For answers of the processes that receive."""
    tell: Tell
    """Called with a line that names the processes that it waits for, or how far it is, where that takes long."""

    @property
    def is_all(self) -> bool:
        """Neither a unit nor a message."""
        return self.unit is None and self.message_id is None

    def is_about(self, row: HeldMessageRow) -> bool:
        """Return True if that message, or its unit, was named."""
        return not self.is_all and self.unit in (None, row.unit) and self.message_id in (None, row.message_id)


class Diagnosis:
    """Finds the answer to one question. One thread."""

    def __init__(
        self, core: AdminCore, group: ChannelGroup, question: Question, *, pause: Pause, places: UnitPlaces
    ) -> None:
        """`places`: where units are."""
        self._core, self._group, self._question = core, group, question
        self._pause, self._places = pause, places
        self._now_ms = core.cluster.clock.now_ms()
        self._began_s = self._told_s = time.monotonic()
        self._members: Sequence[GroupMember] = ()
        self._owners: Mapping[int, GroupMember] = {}
        self._transactions: Mapping[int, list[Reason]] = {}
        """The transactions that hold a partition back, by partition."""
        self._hidden: Mapping[int, tuple[int, int]] = {}
        """The end for readers, and that of the log, of these partitions."""
        self._held = HeldUnits()
        self._unreadable: list[Reason] = []
        """Why what is held cannot be read."""
        self._answers = OwnerAnswers()
        self._receivers: list[ExplainedReceiver] = []

    def run(self) -> Explanation:
        """Look, and look again if the group put out a process that it asked.

        Raises:
            KafkaClientError: no answer.
        """
        messages, gone = self._look(), self._gone()
        if gone:  # what they had is with others now: the answer is about the group as it is
            messages = self._look()
        names = {each.name for each in self._members}  # a process that joined anew lives, and answers for itself
        first_ids = suspects(self._held.firsts.values())
        if self._unreadable:
            first_ids = dict.fromkeys(range(self._group.partitions), "")
        silent_now = self._silent()
        return Explanation(
            name=str(self._group),
            group=self._group.group_id,
            members=len(self._members),
            idle_members=tuple(each.name for each in self._members if not each.partitions),
            silent_members=tuple(each.name for each in silent_now),
            reasons=(
                *self._of_all(is_found=bool(messages)),
                *(put_out(each, first_ids) for each in gone if each.name not in names),
                *map(silent, silent_now),
                *self._unreadable,
            ),
            messages=tuple(messages),
            partitions=tuple(self._partitions(messages)),
            receivers=tuple(self._receivers),
            misplaced=self._held.misplaced,
            is_whole=self._held.is_whole,
        )

    def _look(self) -> list[ExplainedMessage]:
        """Ask all three, at about the same time."""
        self._look_at_kafka()
        if not self._unreadable:  # what could not be read is not waited for again: workers die meanwhile
            self._look_at_log()
        rows = self._rows()
        self._ask(rows)
        return [*map(self._explained, rows), *(() if self._question.is_all else self._unread())]

    def _silent(self) -> Sequence[GroupMember]:
        """Members that did not answer: what they hold is not known, also where others have their partitions."""
        results = self._answers.results
        asked = results.keys() | {partition for partition, why in self._answers.silent.items() if not why}
        return silent_members(self._members, asked, results)

    def _gone(self) -> Sequence[GroupMember]:
        """Return the silent members that are no members any more."""
        found = self._silent()
        if not found:
            return ()
        present = {each.member_id for each in self._core.admin.members(self._group.group_id, self._group.topic)}
        return [each for each in found if each.member_id not in present]

    # -- Kafka ---------------------------------------------------------------------------------------------------

    def _look_at_kafka(self) -> None:
        admin, topic, places = self._core.admin, self._group.topic, list(range(self._group.partitions))
        self._members = admin.members(self._group.group_id, topic)
        self._owners = {partition: member for member in self._members for partition in member.partitions}
        heads = admin.end_positions(topic, places, stable=False)
        ends = admin.end_positions(topic, places, stable=True)
        self._hidden = {place: (ends[place], heads[place]) for place in places if heads[place] > ends[place]}
        found = {place: self._open_on(place) for place in self._hidden}
        # Of all but a hanging one: ended while we looked.
        now = admin.end_positions(topic, list(found), stable=True) if found else {}
        bootstrap = self._core.url
        self._transactions = {
            place: reasons.open_transactions(topic, place, end, head - end, found[place], bootstrap=bootstrap)
            for place, (end, head) in self._hidden.items()
            if now[place] == end
        }

    def _open_on(self, partition: int) -> FoundTransactions | str:
        with closing(self._core.kafka.transaction_log()) as log:
            try:
                return log.open_on(self._group.topic, partition)
            except KafkaClientError as error:
                return str(error)

    # -- topic and changelog ---------------------------------------------------------------------------------------

    def _look_at_log(self) -> None:
        group, begun = self._group, dict[int, RecoveredChannel]()
        try:
            self._core.admin.committed(
                group.group_id, group.topic, range(group.partitions), timeout_s=OFFSETS_TIMEOUT_S
            )
            question = self._question
            sought = Sought(self._wanted(), Counter(), self._tell_progress)
            messages = browse(
                self._core.kafka,
                group,
                now_ms=self._now_ms,
                hands=None,
                include_all=True,
                recovered=begun.update,
                timeout_s=READ_TIMEOUT_S,
                sought=sought,
            )
            self._held = look_at(
                messages,
                now_ms=self._now_ms,
                places=self._places,
                is_requested=question.is_about,
                count_max=COUNT_MAX if question.is_all else 0,
            )
            self._held.by_partition.update(sought.passed_over)
            self._held.prepared = {
                (place, offset): entry.branch
                for place, each in begun.items()
                for entry in each.entries
                if isinstance(entry, Prepared)
                for offset in entry.offsets or ()
            }
            self._held.parked_lost = lost_of(each.parked_lost for each in begun.values())
            self._held.resets = {place: each.reset for place, each in begun.items() if each.reset is not None}
        except Unreachable as error:
            self._held = HeldUnits(is_whole=False)
            self._unreadable = [reasons.unreadable(error)]

    def _wanted(self) -> Callable[[KafkaRecord], bool]:
        """Return True if a record belongs to what was asked about: of its unit all, for what is before and behind it
        there."""
        question = self._question
        if question.unit is not None:
            unit = question.unit
            return lambda record: unit_name(record.key()) == unit
        if question.message_id is None:
            return lambda record: True

        def has_id(record: KafkaRecord) -> bool:
            place = record.topic() or "", record.partition() or 0, record.offset() or 0
            return message_id_of(record.headers(), *place) == question.message_id

        seen = browse(
            self._core.kafka, self._group, now_ms=self._now_ms, hands=None, include_all=True, timeout_s=READ_TIMEOUT_S,
            sought=Sought(has_id, Counter(), self._tell_progress),
        )  # fmt: skip
        units = {key for each in seen if (key := each.record.key())}
        return (lambda record: record.key() in units or has_id(record)) if units else has_id

    def _tell_progress(self, count: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= TELL_EACH_S:
            self._told_s = now_s
            self._question.tell(f"{self._group}: {count} of {total} records looked at")

    def _rows(self) -> list[HeldMessageRow]:
        """The messages that are explained one by one."""
        if self._question.message_id is not None:
            return self._held.requested
        firsts: Iterable[HeldMessageRow] = self._held.firsts.values()
        if self._question.unit is not None:
            firsts = {row.partition: row for row in reversed(self._held.requested)}.values()
        # Where no age was asked for all are meant: also what came since, or from a sender with a clock ahead of ours.
        older_ms = self._question.older_than_ms
        waiting = [row for row in firsts if not older_ms or row.sent_at_ms <= self._now_ms - older_ms]
        waiting.sort(key=lambda row: row.sent_at_ms)
        return waiting[:UNITS_MAX] if self._question.unit is None else waiting

    def _unread(self) -> Iterable[ExplainedMessage]:
        """Yield what was asked about and lies behind an open transaction, so that no reader of committed records sees
        it."""
        for partition, why in self._transactions.items():
            begin, end = self._hidden[partition]
            ranges = {partition: (begin, min(end, begin + RECORDS_MAX))}
            with closing(self._core.kafka.log_reader()) as reader:
                records = reader.read(self._group.topic, ranges, timeout_s=READ_TIMEOUT_S, committed_only=False)
                rows = [row_of(record, None, self._now_ms) for record in records]
            meant = [row for row in rows if self._question.is_about(row)]
            if meant:
                yield meant[0].because(why, behind=len(meant) - 1)

    # -- owners ----------------------------------------------------------------------------------------------------

    def _ask(self, rows: Sequence[HeldMessageRow]) -> None:
        """Ask the processes that have the partitions about these messages, and about the first of their units."""
        about: dict[int, dict[int, str | None]] = {}
        for row in rows:
            key = None if row.key is None else row.key.hex()
            first = self._held.firsts[row.place]
            about.setdefault(row.partition, {}).update(dict.fromkeys((first.offset, row.offset), key))
        if self._question.is_all:
            for partition in (*self._held.by_partition, *(min(m.partitions) for m in self._members if m.partitions)):
                about.setdefault(partition, {})
        self._answers = OwnerAnswers() if not self._members else self._asked(about)
        self._receivers = receivers_of(self._answers.results.values())

    def _asked(self, about: Mapping[int, Mapping[int, str | None]]) -> OwnerAnswers:
        core, timeout_s = self._core, self._question.timeout_s

        def late(partitions: Collection[int], seconds: float) -> None:
            owners = {self._owners[each].member_id: self._owners[each] for each in partitions if each in self._owners}
            self._question.tell(f"{self._group}: {waited_for(owners.values(), partitions, seconds)}")

        # Owners look every second: so long they have at least, however long the log took to read.
        left_s = timeout_s - (time.monotonic() - self._began_s)
        owners = PresentOwners(core.kafka, core.admin, namespace=core.namespace, group=self._group.group_id)
        return owners.ask(
            EXPLAIN,
            {partition: {"messages": list(messages.items())} for partition, messages in about.items()},
            timeout_s=min(timeout_s, max(left_s, PERHAPS_S)),
            late=late,
            perhaps=about.keys() - self._owners.keys(),
        )

    def _answer_on(self, row: HeldMessageRow) -> Mapping[str, Any]:
        """Return what the owner says of the message; empty: nothing."""
        messages = self._answers.results.get(row.partition, {}).get("messages", ())
        return next((each for each in messages if each.get("offset") == row.offset), {})

    # -- the answer ------------------------------------------------------------------------------------------------

    def _of_all(self, *, is_found: bool) -> Iterable[Reason]:
        """Yield what keeps all of the queue or subscription."""
        lost = self._held.parked_lost
        if lost != 0:
            yield reasons.parked_lost(self._group, lost)
        if not (self._question.is_all or is_found or self._unreadable or lost != 0):
            yield reason(Rule.NOT_HELD)
        if self._pause.production is not None:
            yield self._paused(Rule.SENDING_PAUSED, self._pause.production)
        if self._pause.consumption is not None:
            yield self._paused(Rule.PAUSED, self._pause.consumption)
        partitions, routed, admit = self._group.partitions, self._places.partitions, self._command("admit-partitions")
        if self._places.next_partitions:
            yield reasons.admitting(self._places.next_partitions, admit)
        elif partitions > routed:
            yield reason(Rule.NOT_ADMITTED, partitions=partitions, routed=routed, command=admit)
        if self._group.changelog_topic not in self._core.admin.describe([self._group.changelog_topic]):
            yield reason(Rule.NO_CHANGELOG)
        if self._answers.not_asked:
            yield reason(Rule.NOT_ASKED, why=self._answers.not_asked)
        if not self._members:
            # Of a group with members no offset can be reset, and those that came since have begun by it.
            if self._held.resets:
                yield reasons.offsets_reset(self._held.resets, self._group, self._core.url)
            yield self._nobody()

    def _nobody(self) -> Reason:
        """Where nothing is held nobody need receive; and nobody should by a reset that is to be undone before."""
        return reason(Rule.NOBODY_RECEIVES, remedy=None if self._held.by_partition and not self._held.resets else "")

    def _command(self, verb: str) -> str:
        return f"jbm-kafka {verb} {self._group.destination.name}"

    def _explained(self, row: HeldMessageRow) -> ExplainedMessage:
        first = self._held.firsts[row.place]
        found = [self._why(row, first)]
        if first is not row and found[0].rule is Rule.BEHIND:
            found.append(self._why(first, first))
        last = found[-1]
        if last.rule is Rule.SETTLED and self._answers.results.get(first.partition, {}).get("is_recording"):
            found.append(reason(Rule.RECORDING))
        elif last.rule is Rule.IN_HAND and last.holder is not None:
            found[-1:] = self._with_worker(last, last.holder, first)
        return row.because(found, behind=self._held.behind[row.place] if row is first else 0)

    def _with_worker(self, why: Reason, holder: Holder, first: HeldMessageRow) -> Sequence[Reason]:
        """The reason; and, where the message waits for another one in that hand, what is done with that."""
        worker = worker_of(holder, self._receivers)
        taken = None if worker is None else worker.asks.taken
        if worker is None or (taken and (taken.partition, taken.offset) == (first.partition, first.offset)):
            return [why]
        return [replace(why, remedy=""), reasons.working_on(worker, self._now_ms)]

    def _why(self, row: HeldMessageRow, first: HeldMessageRow) -> Reason:
        """The rule that keeps the message; `first`: of its unit."""
        answer, said = self._answers.results.get(row.partition), self._answer_on(row)
        if answer is not None and said:
            return self._as_said(said, first, answer)
        branch = self._held.prepared.get((row.partition, row.offset))
        if branch is not None:
            return reasons.prepared(branch)
        if first is not row:
            return reasons.behind(first.offset)
        if row.rule is not Rule.READY:
            return self._held_back(row.rule, first, row.last_error, row.due_at_ms)
        if not self._members:
            return self._nobody()
        if answer is None and self._answers.not_asked:
            return reason(Rule.NOT_ASKED, why=self._answers.not_asked)
        # Neither topic and changelog have anything on it, nor its owner.
        return next(iter(self._of_partition(row.partition)), reason(Rule.READY))

    def _as_said(self, said: Mapping[str, Any], first: HeldMessageRow, answer: Mapping[str, Any]) -> Reason:
        """Return what the owner says of one message."""
        process, rule = process_of(answer), _RULES.get(said.get("rule", ""))
        holder = None if said.get("holder") is None else holder_of(said["holder"], process)
        if rule is Rule.BEHIND or (rule not in _NOT_WAITING and said.get("offset") != first.offset):
            return reasons.behind(said.get("head", first.offset), holder)
        match rule:
            case None:
                return reason(Rule.OWNER_SILENT, member=process, say="say: a rule of another version keeps it")
            case Rule.IN_HAND:
                return reasons.in_hand(holder or Holder(process=process), said["holder"].get("since_ms"), self._now_ms)
            case Rule.PREPARED:
                return reasons.prepared(branch_of("" if holder is None else holder.session) or "?")
            case Rule.NOT_READ:
                return reason(rule, read_to=answer.get("read_to"))
            case Rule.RECEIVERS_BUSY:
                # Of all that answered, so that partitions of one process have the same reason.
                has_idle = any(not each.partitions for each in self._members)
                has_idle = has_idle or any(each.is_idle for each in self._receivers)
                return reasons.busy(self._receivers, process, has_idle=has_idle)
            case Rule.PAUSED:
                halt = self._pause.consumption or Halt(since_ms=self._now_ms, by="somebody")
                return self._paused(rule, halt)
            case Rule.NOT_SELECTED:
                return reasons.not_selected(each.selector for each in self._receivers)
        return self._held_back(rule, first, said.get("last_error"), said.get("due_at_ms"))

    def _paused(self, rule: Rule, halt: Halt) -> Reason:
        return reason(rule, since_ms=halt.since_ms, by=halt.by, command=self._command("resume"))

    def _held_back(self, rule: Rule, first: HeldMessageRow, last_error: str | None, due_at_ms: int | None) -> Reason:
        """Return what keeps a message by itself; of one that came back with why it failed, as far as that is known."""
        failure = "" if last_error is None else f"; its last attempt failed with {last_error}"
        if rule is Rule.ON_HOLD:
            command = reasons.release_command(self._group, first.unit, first.message_id)
            return reason(rule, failure=failure, command=command)
        if rule is Rule.DELAYED:
            return reason(rule, failure=failure, until_ms=due_at_ms)
        return reason(rule, until_ms=due_at_ms if rule in _TIMED else None)

    def _of_partition(self, partition: int) -> list[Reason]:
        """Return what keeps all of a partition."""
        found = list(self._transactions.get(partition, ()))
        answer, owner = self._answers.results.get(partition), self._owners.get(partition)
        if answer is None:
            if owner is None and self._members and not self._answers.not_asked:
                found.append(being_shared(self._members, self._answers.results))
            elif owner is not None and partition in self._answers.silent:
                found.append(silent(owner, self._answers.silent[partition]))
            return found
        if answer.get("closed"):
            found.append(reason(Rule.CLOSED, why=answer["closed"]))
        elif answer.get("is_opening"):
            found.append(reason(Rule.OPENING))
        if answer.get("is_moving"):
            found.append(reason(Rule.MOVING))
        if not answer.get("is_read_on", True):
            found.append(reason(Rule.NOT_READ, read_to=answer.get("read_to")))
        return found

    def _partitions(self, messages: Sequence[ExplainedMessage]) -> Iterable[ExplainedPartition]:
        """Yield those that hold something or are kept; where a message was asked about, its own, or those that hide
        it."""
        is_all = self._question.is_all
        meant = range(self._group.partitions) if is_all else {each.partition for each in messages} or self._transactions
        for partition in sorted(meant):
            found, count = self._of_partition(partition), self._held.by_partition[partition]
            if is_all and not (count or found):
                continue
            member, answer = self._owners.get(partition), self._answers.results.get(partition, {})
            yield ExplainedPartition(
                partition=partition,
                owner=process_of(answer) if answer else "" if member is None else member.name,
                held=None if self._unreadable else count,
                units=dict(answer.get("units", {})),
                reasons=tuple(found),
            )
