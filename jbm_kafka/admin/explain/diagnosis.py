"""Finds out why messages of a queue or subscription do not move (decision 39).

Three are asked: Kafka, for the group's members, the ends of the logs and open transactions; topic and changelog, for
what is held; and who has the partitions, for what only he knows. Where one cannot say, the others still do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jbm_kafka.admin.explain import offset_resets, reasons, suggested_commands
from jbm_kafka.admin.explain.explanation import ExplainedMessage, ExplainedPartition, Explanation, Holder, Reason
from jbm_kafka.admin.explain.held_units import Held, HeldMessageRow, look_at
from jbm_kafka.admin.explain.members import (
    being_shared,
    gone_for_good,
    not_answering,
    put_out,
    silent_members,
    silent_owner,
    suspects,
)
from jbm_kafka.admin.explain.question import Asked, Sources
from jbm_kafka.admin.explain.receiver_states import is_elsewhere, kept_by, process_of, receivers_of
from jbm_kafka.admin.explain.unread import Unseen, message_of
from jbm_kafka.admin.owners.present_owners import PERHAPS_S, PresentOwners, Told
from jbm_kafka.browsing.browse import browse
from jbm_kafka.codec.command_records import EXPLAIN
from jbm_kafka.codec.pause_record import Pause
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.ports import FoundTransactions, GroupMember, KafkaClientError, Unreachable
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.command_client import waited_for
from jbm_kafka.store.recovery import RecoveredChannel

COUNT_MAX = 50_000
"""Messages looked at where nothing special was asked about: a second's work."""
UNITS_MAX = 20
"""Units told of then, those that wait longest."""
OFFSETS_TIMEOUT_S = 4.0
"""For committed offsets, which come in milliseconds unless who died has left a checkpoint open: then not for 10 s."""
READ_TIMEOUT_S = 10.0
"""For the changelogs."""
PATIENCE_LEAST_S = 2.0
"""Owners look every second: so long they have at least, where it took long to find out that nothing can be read."""
_TIMED = (Rule.DELAYED, Rule.NOT_YET_DUE)
LOOKS_MAX = 3
"""At a unit whose first message is finished while it is asked about: one that goes fast is in nobody's way."""


@dataclass(frozen=True, slots=True)
class Look:
    """What all three said at about the same time."""

    seen: FromKafka
    held: Held
    whole: Sequence[Reason]
    """What is wrong with finding out what is held."""
    told: Told
    messages: Sequence[ExplainedMessage]
    silent: Sequence[GroupMember]
    """Members that did not answer."""


@dataclass(frozen=True, slots=True)
class FromKafka:
    """What Kafka says of the group and its logs."""

    members: Sequence[GroupMember]
    owners: Mapping[int, GroupMember]
    ends: Mapping[int, int]
    """Of what readers may see."""
    heads: Mapping[int, int]
    """Of what was written."""
    transactions: Mapping[int, list[Reason]]
    """By partition that one holds back."""
    has_changelog: bool


def explain(group: ChannelGroup, asked: Asked, cluster: Sources, *, pause: Pause, places: UnitPlaces) -> Explanation:
    """Why what was asked about does not move; `places`: where units are.

    Raises:
        KafkaClientError: no answer.
    """
    return _Explaining(group, asked, cluster, pause, places).run()


class _Explaining:
    """One question."""

    def __init__(self, group: ChannelGroup, asked: Asked, cluster: Sources, pause: Pause, places: UnitPlaces) -> None:
        self._group = group
        self._asked = asked
        self._cluster = cluster
        self._pause = pause
        self._places = places
        self._now_ms = cluster.now_ms()
        self._began_s = time.monotonic()
        self._patience_s = cluster.timeout_s

    def run(self) -> Explanation:
        look = self._look()
        gone = self._put_out(look.silent)
        if gone:  # what they had is with others now: of the group as it is one account is given, and not of two
            look = self._look(before=look)
        seen, held, told, messages = look.seen, look.held, look.told, look.messages
        has_others = bool(seen.members)
        firsts = None if look.whole else suspects(held.firsts.values())
        gone_now = (put_out(each, has_others=has_others, firsts=firsts) for each in gone_for_good(gone, seen.members))
        silent = (not_answering(each, self._patience_s) for each in look.silent)
        return Explanation(
            name=str(self._group),
            group=self._group.group_id,
            members=len(seen.members),
            idle_members=tuple(each.name for each in seen.members if not each.partitions),
            silent_members=tuple(each.name for each in look.silent),
            reasons=(*self._not_held(look), *self._of_all(held, seen), *gone_now, *silent, *look.whole),
            messages=tuple(messages),
            partitions=tuple(self._partitions(look)),
            receivers=tuple(receivers_of(told.results.values())),
            misplaced=held.misplaced,
            is_whole=held.is_whole,
        )

    def _look(self, before: Look | None = None) -> Look:
        seen = self._look_at_kafka()
        for _ in range(LOOKS_MAX):
            # What could not be read before is not waited for again: the answer is wanted while workers die.
            held, whole = (before.held, before.whole) if before and before.whole else self._look_at_log()
            if whole or before:
                left_s = self._cluster.timeout_s - (time.monotonic() - self._began_s)
                least_s = PERHAPS_S if before else PATIENCE_LEAST_S
                self._patience_s = min(self._cluster.timeout_s, max(left_s, least_s))
            rows = self._rows(held)
            told = self._ask(held, rows, seen)
            # The first of a unit may be finished between both looks: then the next one is meant.
            if self._asked.unit is None or all(self._told_of(row, told).get("rule") != "settled" for row in rows):
                break
        messages = [self._explained(row, held, told, seen) for row in rows]
        if not self._asked.is_all:
            messages += self._unseen(seen, held, is_held=bool(messages))
        return Look(seen, held, whole, told, messages, self._silent(told, seen))

    def _silent(self, told: Told, seen: FromKafka) -> Sequence[GroupMember]:
        """Who did not answer: what he holds is not known, also where others have his partitions."""
        refused = {partition for partition, why in told.silent.items() if why}
        return silent_members(seen.members, (told.results.keys() | told.silent.keys()) - refused, told.results)

    def _put_out(self, silent: Sequence[GroupMember]) -> Sequence[GroupMember]:
        """Of them, those that are no members any more."""
        if not silent:
            return ()
        present = {each.member_id for each in self._cluster.admin.members(self._group.group_id, self._group.topic)}
        return [each for each in silent if each.member_id not in present]

    # -- Kafka ---------------------------------------------------------------------------------------------------

    def _look_at_kafka(self) -> FromKafka:
        admin, topic = self._cluster.admin, self._group.topic
        places = list(range(self._group.partitions))
        members = admin.members(self._group.group_id, topic)
        owners = {partition: member for member in members for partition in member.partitions}
        heads = admin.end_positions(topic, places, stable=False)
        ends = admin.end_positions(topic, places, stable=True)
        waiting = {place: heads[place] - ends[place] for place in places if heads[place] > ends[place]}
        has_changelog = self._group.changelog_topic in admin.describe([self._group.changelog_topic])
        return FromKafka(members, owners, ends, heads, self._transactions(waiting, ends), has_changelog)

    def _transactions(self, waiting: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, list[Reason]]:
        """Why records behind the stable end wait; nothing of those that went on in the meantime."""
        topic, cluster = self._group.topic, self._cluster
        if not waiting:
            return {}
        found = {place: self._open_on(place) for place in waiting}
        # Of all but a hanging one: ended while we looked.
        now = cluster.admin.end_positions(topic, list(waiting), stable=True)
        return {
            place: reasons.open_transactions(
                topic, place, ends[place], count, found[place], bootstrap=cluster.bootstrap
            )
            for place, count in waiting.items()
            if now[place] == ends[place]
        }

    def _open_on(self, partition: int) -> FoundTransactions | str:
        log = self._cluster.kafka.transaction_log()
        try:
            return log.open_on(self._group.topic, partition)
        except KafkaClientError as error:
            return str(error)
        finally:
            log.close()

    # -- topic and changelog ---------------------------------------------------------------------------------------

    def _look_at_log(self) -> tuple[Held, Sequence[Reason]]:
        """What is held; and what is wrong with finding it out."""
        group = self._group
        try:
            self._cluster.admin.committed(
                group.group_id, group.topic, range(group.partitions), timeout_s=OFFSETS_TIMEOUT_S
            )
            return self._held(self._asked.wants), []
        except Unreachable as error:
            is_whole = False
            return Held({}, [], {}, is_whole=is_whole), [reasons.unreadable(error, has_brokers=self._has_brokers())]

    def _has_brokers(self) -> bool:
        """Whether they answer now: then it is not for their sake that offsets cannot be read."""
        topic = self._group.topic
        try:
            return bool(self._cluster.admin.end_positions(topic, [0], stable=False, timeout_s=PATIENCE_LEAST_S))
        except KafkaClientError:
            return False

    def _held(self, wants: Callable[[HeldMessageRow], bool]) -> Held:
        begun: dict[int, RecoveredChannel] = {}
        messages = browse(
            self._cluster.kafka,
            self._group,
            now_ms=self._now_ms,
            hands=None,
            include_all=True,
            recovered=begun.update,
            timeout_s=READ_TIMEOUT_S,
        )
        held = look_at(
            messages,
            now_ms=self._now_ms,
            places=self._places,
            wants=wants,
            count_max=COUNT_MAX if self._asked.is_all else 0,
        )
        held.resets = offset_resets.resets_of(begun)
        return held

    def _rows(self, held: Held) -> list[HeldMessageRow]:
        """What is told of, one by one."""
        older_ms = self._asked.older_than_ms
        if self._asked.message_id is not None:
            return held.wanted
        firsts: Iterable[HeldMessageRow] = held.firsts.values()
        if self._asked.unit is not None:
            firsts = {row.partition: row for row in reversed(held.wanted)}.values()
        # Where no age was asked for all are meant: also what came since, or from one whose clock is ahead.
        waiting = [row for row in firsts if not older_ms or row.sent_at_ms <= self._now_ms - older_ms]
        waiting.sort(key=lambda row: row.sent_at_ms)
        return waiting if self._asked.unit is not None else waiting[:UNITS_MAX]

    def _first_of(self, row: HeldMessageRow, held: Held) -> HeldMessageRow:
        return held.firsts[row.partition, row.offset if row.key is None else row.key]

    # -- owners ----------------------------------------------------------------------------------------------------

    def _ask(self, held: Held, rows: Sequence[HeldMessageRow], seen: FromKafka) -> Told:
        """What those who have the partitions say of these messages, and of the first of their units."""
        about: dict[int, dict[int, str | None]] = {}
        for row in rows:
            first = self._first_of(row, held)
            key = None if row.key is None else row.key.hex()
            about.setdefault(row.partition, {}).update(dict.fromkeys((first.offset, row.offset), key))
        if self._asked.is_all:
            for partition in (*held.by_partition, *(min(m.partitions) for m in seen.members if m.partitions)):
                about.setdefault(partition, {})
        return self._ask_about({place: list(messages.items()) for place, messages in about.items()}, seen)

    def _ask_about(self, about: Mapping[int, Sequence[tuple[int, str | None]]], seen: FromKafka) -> Told:
        """By partition the messages, by offset and unit."""
        if not seen.members:
            return Told()
        arguments = {partition: {"messages": messages} for partition, messages in about.items()}
        cluster = self._cluster
        owners = PresentOwners(cluster.kafka, cluster.admin, namespace=cluster.namespace, group=self._group.group_id)
        perhaps = arguments.keys() - seen.owners.keys()

        def late(partitions: Collection[int], seconds: float) -> None:
            who = {member.member_id: member for p in partitions if (member := seen.owners.get(p)) is not None}
            cluster.tell(f"{self._group}: {waited_for(who.values(), partitions, seconds)}")

        return owners.ask(EXPLAIN, arguments, timeout_s=self._patience_s, late=late, perhaps=perhaps)

    def _unseen(self, seen: FromKafka, held: Held, *, is_held: bool) -> Iterable[ExplainedMessage]:
        """What was asked about and is not held: no reader of committed records sees it yet, or a reset skips it."""
        cluster = self._cluster
        unseen = Unseen(cluster.kafka, cluster.admin, self._group.topic, self._asked.wants, self._now_ms)
        ranges = {place: (seen.ends[place], seen.heads[place]) for place in seen.transactions}
        yield from unseen.within(ranges, seen.transactions, committed_only=False)
        if not (is_held or seen.members):
            why = {place: [offset_resets.skips(each)] for place, each in held.resets.items()}
            yield from unseen.within(offset_resets.skipped_ranges(held.resets), why, committed_only=True)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _not_held(self, look: Look) -> Iterable[Reason]:
        """An answer without a message was taken for one that tells what keeps it."""
        if not self._asked.is_all and not look.messages and not look.whole and look.held.is_whole:
            yield reasons.not_held(self._asked.older_than_ms)

    def _of_all(self, held: Held, seen: FromKafka) -> Iterable[Reason]:
        resume, admit = suggested_commands.resume(self._group), suggested_commands.admit(self._group)
        if self._pause.production is not None:
            yield reasons.paused(Rule.SENDING_PAUSED, self._pause.production, resume)
        if self._pause.consumption is not None:
            yield reasons.paused(Rule.PAUSED, self._pause.consumption, resume)
        if self._places.next_partitions:
            yield reasons.admitting(self._places.next_partitions, admit)
        elif self._group.partitions > self._places.partitions:
            yield reasons.not_admitted(self._group.partitions, self._places.partitions, admit)
        if not seen.has_changelog:
            yield reasons.reason(Rule.NO_CHANGELOG)
        if not seen.members:
            # Of a group with members no offset can be reset, and those that came since have begun by it.
            yield from offset_resets.told(held.resets, self._group, self._cluster.bootstrap)
            nobody = reasons.reason(Rule.NOBODY_RECEIVES)
            # Where nothing is held nobody need receive; and nobody should by a reset that is to be undone before.
            yield nobody if held.by_partition and not held.resets else replace(nobody, remedy="")

    def _explained(self, row: HeldMessageRow, held: Held, told: Told, seen: FromKafka) -> ExplainedMessage:
        first = self._first_of(row, held)
        found = [self._why(row, first, told, seen)]
        if first is not row and found[0].rule is Rule.BEHIND:
            found.append(self._why(first, first, told, seen))
        last = found[-1]
        if last.rule is Rule.SETTLED and told.results.get(first.partition, {}).get("is_recording"):
            found.append(reasons.reason(Rule.RECORDING))
        elif last.rule is Rule.IN_HAND and last.holder is not None:
            found[-1:] = self._in_whose_hand(last, last.holder, first, told)
        return message_of(row, tuple(found))

    def _in_whose_hand(self, why: Reason, holder: Holder, first: HeldMessageRow, told: Told) -> Sequence[Reason]:
        """The reason; of what is in a hand with the message that is worked on there."""
        receivers = list(receivers_of(told.results.values()))
        keeper = kept_by(holder, receivers)
        taken = None if keeper is None else keeper.asks.taken
        if keeper is None or taken is None:
            theirs = [each for each in receivers if (each.process, each.receiver) == (holder.process, holder.receiver)]
            away = [each for each in theirs if holder.is_unread and is_elsewhere(each)]
            return [replace(why, remedy="") if away else why, *map(reasons.in_another_listener, away)]
        if (taken.partition, taken.offset) == (first.partition, first.offset):
            is_in_it = keeper.asks.is_in_listener
            return [reasons.in_listener(holder, taken.since_ms, self._now_ms) if is_in_it else why]
        if not (holder.is_unread or keeper.asks.is_in_listener):
            return [why]
        return [replace(why, remedy=""), reasons.working_on(keeper, taken, self._now_ms)]

    @staticmethod
    def _told_of(row: HeldMessageRow, told: Told) -> Mapping[str, Any]:
        """What the owner says of the message; empty: nothing."""
        messages = told.results.get(row.partition, {}).get("messages", ())
        return next((each for each in messages if each.get("offset") == row.offset), {})

    def _why(self, row: HeldMessageRow, first: HeldMessageRow, told: Told, seen: FromKafka) -> Reason:
        answer, mine = told.results.get(row.partition), self._told_of(row, told)
        if answer is not None and mine:
            return self._as_told(mine, first, answer, told, seen)
        if first is not row:
            return reasons.behind(first.offset, None)
        if row.rule is Rule.ON_HOLD:
            return reasons.on_hold(self._release(first), None)
        if row.rule is not Rule.READY:
            return reasons.reason(row.rule, until_ms=row.due_at_ms if row.rule in _TIMED else None)
        return self._unowned(row.partition, answer, told, seen)

    def _as_told(
        self, mine: Mapping[str, Any], first: HeldMessageRow, answer: Mapping[str, Any], told: Told, seen: FromKafka
    ) -> Reason:
        """What the owner says of one message."""
        rule, holder, process = _rule(mine.get("rule")), mine.get("holder"), process_of(answer)
        who = None if holder is None else reasons.holder_of(holder, process)
        is_in_store = rule not in (Rule.IN_HAND, Rule.IN_DOUBT, Rule.LEAVING, Rule.SETTLED, Rule.NOT_READ)
        if rule is Rule.BEHIND or (is_in_store and mine.get("offset") != first.offset):
            return reasons.behind(mine.get("head", first.offset), who)
        if rule is Rule.IN_HAND and who is not None and holder is not None:
            return reasons.in_hand(who, holder.get("since_ms"), self._now_ms)
        if rule is Rule.NOT_READ:
            return reasons.not_read(answer)
        if rule is Rule.RECEIVERS_BUSY:
            # Of all that was said, so that partitions of one process have the same to say.
            has_idle_members = any(not member.partitions for member in seen.members)
            receivers = list(receivers_of(told.results.values()))
            return reasons.busy(receivers, process, has_idle_members=has_idle_members)
        if rule is Rule.PAUSED and self._pause.consumption is not None:
            return reasons.paused(rule, self._pause.consumption, suggested_commands.resume(self._group))
        if rule is Rule.NOT_SELECTED:
            return reasons.not_selected(each.selector for each in receivers_of(told.results.values()))
        if rule is Rule.ON_HOLD:
            return reasons.on_hold(self._release(first), mine.get("last_error"))
        return reasons.reason(rule, until_ms=mine.get("due_at_ms") if rule in _TIMED else None)

    def _release(self, first: HeldMessageRow) -> str:
        return suggested_commands.release(self._group, first.unit, first.message_id)

    def _unowned(self, partition: int, answer: Mapping[str, Any] | None, told: Told, seen: FromKafka) -> Reason:
        """Of what topic and changelog have nothing to say, and its owner neither."""
        if not seen.members:
            return reasons.reason(Rule.NOBODY_RECEIVES)
        if answer is not None:
            return self._of_partition(partition, told, seen)[0]
        if partition not in seen.owners:
            return being_shared(seen.members, told.results)
        return silent_owner(seen.owners[partition], told.silent.get(partition, ""))

    def _of_partition(self, partition: int, told: Told, seen: FromKafka) -> list[Reason]:
        """What keeps all of a partition."""
        found = list(seen.transactions.get(partition, ()))
        answer = told.results.get(partition)
        if seen.members and partition not in seen.owners and answer is None:
            found.append(being_shared(seen.members, told.results))
        elif partition in told.silent and partition in seen.owners:
            found.append(silent_owner(seen.owners[partition], told.silent[partition]))
        if answer is not None:
            if answer.get("closed"):
                found.append(reasons.reason(Rule.CLOSED, text=str(answer["closed"])))
            elif answer.get("is_opening"):
                found.append(reasons.reason(Rule.OPENING))
            if answer.get("is_moving"):
                found.append(reasons.reason(Rule.MOVING))
            if not answer.get("is_read_on", True):
                found.append(reasons.not_read(answer))
        return found

    def _partitions(self, look: Look) -> Iterable[ExplainedPartition]:
        seen, held, told, messages = look.seen, look.held, look.told, look.messages
        wanted = set(range(self._group.partitions)) if self._asked.is_all else {each.partition for each in messages}
        if not self._asked.is_all and not messages:
            wanted = set(seen.transactions)  # what was asked about may be behind one, and not to be seen
        for partition in sorted(wanted):
            found = self._of_partition(partition, told, seen)
            count = held.by_partition.get(partition, 0)
            if not (count or found) and self._asked.is_all:
                continue
            member, answer = seen.owners.get(partition), told.results.get(partition)
            who_answers = "" if answer is None else process_of(answer)
            yield ExplainedPartition(
                partition=partition,
                owner=who_answers or ("" if member is None else member.name),
                held=None if look.whole else count,
                units=dict((answer or {}).get("units", {})),
                reasons=tuple(found),
            )


def _rule(value: object) -> Rule:
    """A newer owner may have rules that are not known here."""
    try:
        return Rule(value)
    except ValueError:
        return Rule.OWNER_SILENT
