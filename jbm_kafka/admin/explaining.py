"""Finds out why messages of a queue or subscription do not move (decision 39).

Three are asked: Kafka, for the group's members, the ends of the logs and open transactions; topic and changelog, for
what is held; and who has the partitions, for what only he knows. Where one cannot say, the others still do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jbm_kafka.admin import commands, explained_firsts, explained_resets, reasons
from jbm_kafka.admin.asking_present import PERHAPS_S, PresentOwners, Told
from jbm_kafka.admin.explained_members import (
    being_shared,
    gone_for_good,
    not_answering,
    put_out,
    silent_members,
    silent_owner,
    suspects,
)
from jbm_kafka.admin.explained_question import Asked, Sources
from jbm_kafka.admin.explained_receivers import is_elsewhere, kept_by, process_of, receivers_of, why_none_asks
from jbm_kafka.admin.explained_unseen import Unseen, message_of
from jbm_kafka.admin.explanation import ExplainedMessage, ExplainedPartition, Explanation, Reason
from jbm_kafka.admin.held_units import Held, HeldMessageRow, look_at
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
            if self._asked.unit is None or not any(explained_firsts.is_settled(row, told) for row in rows):
                break
        firsts = [self._first_of(row, held) for row in rows]
        more = explained_firsts.still_to_ask(firsts, told)
        if more:
            told = explained_firsts.with_more(told, self._ask_about(more, seen))
        told = explained_firsts.with_firsts(told, firsts)
        rows = [row if self._asked.unit is None else explained_firsts.gone_on(row, held, told) for row in rows]
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
        held.resets = explained_resets.resets_of(begun)
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
        return row if row.has_gone_on else held.firsts[row.partition, row.offset if row.key is None else row.key]

    # -- owners ----------------------------------------------------------------------------------------------------

    def _ask(self, held: Held, rows: Sequence[HeldMessageRow], seen: FromKafka) -> Told:
        """What those who have the partitions say of these messages, and of the first of their units."""
        about: dict[int, dict[int, str | None]] = {}
        for row in rows:
            first = self._first_of(row, held)
            key = None if row.key is None else row.key.hex()
            about.setdefault(row.partition, {}).update(dict.fromkeys((first.offset, row.offset, *first.later), key))
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
            why = {place: [explained_resets.skips(each)] for place, each in held.resets.items()}
            yield from unseen.within(explained_resets.skipped_ranges(held.resets), why, committed_only=True)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _not_held(self, look: Look) -> Iterable[Reason]:
        """An answer without a message was taken for one that tells what keeps it."""
        if not self._asked.is_all and not look.messages and not look.whole and look.held.is_whole:
            yield reasons.not_held(self._asked.older_than_ms, self._asked.message_id)

    def _of_all(self, held: Held, seen: FromKafka) -> Iterable[Reason]:
        if self._pause.production is not None:
            yield reasons.with_remedy(reasons.paused_sending(self._pause.production), commands.resume(self._group))
        if self._pause.consumption is not None:
            yield reasons.with_remedy(reasons.paused(self._pause.consumption), commands.resume(self._group))
        if self._places.next_partitions:
            yield reasons.admitting(self._places.next_partitions, commands.admit(self._group))
        elif self._group.partitions > self._places.partitions:
            yield reasons.not_admitted(self._group.partitions, self._places.partitions, commands.admit(self._group))
        if not seen.has_changelog:
            yield reasons.reason(Rule.NO_CHANGELOG)
        if not seen.members:
            # Of a group with members no offset can be reset, and those that came since have begun by it.
            yield from explained_resets.told(held.resets, self._group, self._cluster.bootstrap)
            nobody = reasons.reason(Rule.NOBODY_RECEIVES)
            # Where nothing is held nobody need receive; and nobody should by a reset that is to be undone before.
            yield nobody if held.by_partition and not held.resets else replace(nobody, remedy="")

    def _explained(self, row: HeldMessageRow, held: Held, told: Told, seen: FromKafka) -> ExplainedMessage:
        first = self._first_of(row, held)
        found = [self._why(row, first, told, seen)]
        if first is not row and found[0].rule is Rule.BEHIND:
            found.append(self._why(first, first, told, seen))
        is_of_unit = self._asked.message_id is None or len(found) > 1
        if is_of_unit and found[-1].rule is Rule.SETTLED and explained_firsts.is_settled(first, told):
            first, found[-1:] = self._since_settled(first, told, seen)
        found[-1:] = [
            reasons.not_to_stop_yet(each, self._now_ms) for each in self._in_whose_hand(found[-1], first, told)
        ]
        if first.has_gone_on and found[-1].rule in (Rule.IN_HAND, Rule.RECEIVERS_BUSY):
            found[-1] = reasons.going_on(found[-1], self._now_ms)
        return message_of(row, tuple(self._with_command(each, first) for each in found))

    def _since_settled(
        self, first: HeldMessageRow, told: Told, seen: FromKafka
    ) -> tuple[HeldMessageRow, Sequence[Reason]]:
        """Of a unit whose first is settled: the one that is first now, as far as it is known, and why it waits."""
        answer, now = told.results[first.partition], explained_firsts.first_now(first, told)
        is_recording = bool(answer.get("is_recording"))
        if now is None or now.get("rule") == Rule.BEHIND.value:
            process = process_of(answer) if first.behind else ""
            return first, [reasons.settled(is_recording=is_recording, worked_on_in=process)]
        following = replace(first, offset=int(now["offset"]), has_gone_on=True)
        why = self._as_told(now, following, answer, told, seen)
        is_exact = explained_firsts.is_exact(first, now, told)
        # Where all wait for one checkpoint the same is said of all, and so told once.
        offset = following.offset if is_exact and why.rule is not Rule.RECORDING else None
        now_first = reasons.settled(is_recording=is_recording, next_offset=offset)
        return following, [now_first, reasons.of_the_next(why)]

    def _in_whose_hand(self, why: Reason, first: HeldMessageRow, told: Told) -> Sequence[Reason]:
        """The reason; of what is in a hand with the message that is worked on there."""
        holder = why.holder if why.rule is Rule.IN_HAND else None
        if holder is None:
            return [why]
        receivers = list(receivers_of(told.results.values()))
        keeper = kept_by(holder, receivers)
        taken = None if keeper is None else keeper.asks.taken
        if keeper is None or taken is None:
            theirs = [each for each in receivers if (each.process, each.receiver) == (holder.process, holder.receiver)]
            away = [each for each in theirs if holder.is_unread and is_elsewhere(each)]
            more = [reasons.in_another_listener(each) for each in away]
            return [replace(why, remedy="") if more else why, *more]
        if (taken.partition, taken.offset) == (first.partition, first.offset):
            return [reasons.in_listener(why, taken.since_ms)] if keeper.asks.is_in_listener else [why]
        if not (holder.is_unread or keeper.asks.is_in_listener):
            return [why]
        return [replace(why, remedy=""), reasons.working_on(keeper, taken)]

    def _with_command(self, why: Reason, first: HeldMessageRow) -> Reason:
        """With the command that ends it, where there is one."""
        if why.rule is Rule.ON_HOLD:
            return reasons.with_release(why, commands.release(self._group, first.unit, first.message_id))
        return reasons.with_remedy(why, commands.resume(self._group)) if why.rule is Rule.PAUSED else why

    def _why(self, row: HeldMessageRow, first: HeldMessageRow, told: Told, seen: FromKafka) -> Reason:
        answer = told.results.get(row.partition)
        if answer is not None:
            mine = {each.get("offset"): each for each in answer.get("messages", ())}.get(row.offset)
            if mine is not None:
                return self._as_told(mine, first, answer, told, seen)
        if first is not row:
            return reasons.behind(first.offset, None)
        if row.rule is not Rule.READY:
            return reasons.reason(row.rule, until_ms=_until(row))
        return self._unowned(row.partition, answer, told, seen)

    def _as_told(
        self, mine: Mapping[str, Any], first: HeldMessageRow, answer: Mapping[str, Any], told: Told, seen: FromKafka
    ) -> Reason:
        """What the owner says of one message."""
        rule = _rule(mine.get("rule"))
        holder = mine.get("holder")
        process = process_of(answer)
        who = None if holder is None else reasons.holder_of(holder, process)
        offset = mine.get("offset")
        is_in_store = rule not in (Rule.IN_HAND, Rule.IN_DOUBT, Rule.LEAVING, Rule.SETTLED, Rule.NOT_READ)
        if rule is Rule.BEHIND or (is_in_store and offset != first.offset):
            return reasons.behind(mine.get("head", first.offset), who)
        if rule is Rule.IN_HAND and who is not None and holder is not None:
            return reasons.in_hand(who, holder.get("since_ms"))
        if rule is Rule.NOT_READ:
            return reasons.not_read(answer)
        if rule is Rule.RECEIVERS_BUSY:
            # Of all that was said, so that partitions of one process have the same to say.
            receivers = list(receivers_of(told.results.values()))
            has_idle_members = any(not member.partitions for member in seen.members)
            return reasons.busy(*why_none_asks(receivers, process, has_idle_members=has_idle_members))
        if rule is Rule.PAUSED and self._pause.consumption is not None:
            return reasons.paused(self._pause.consumption)
        if rule is Rule.NOT_SELECTED:
            return reasons.not_selected(each.selector for each in receivers_of(told.results.values()))
        if rule is Rule.ON_HOLD and "last_error" in mine:
            return reasons.failed_on_hold(str(mine["last_error"]))
        due_at_ms = mine.get("due_at_ms")
        until_ms = due_at_ms if rule in (Rule.DELAYED, Rule.NOT_YET_DUE) else None
        return reasons.reason(rule, until_ms=until_ms)

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


def _until(row: HeldMessageRow) -> int | None:
    return row.due_at_ms if row.rule in (Rule.DELAYED, Rule.NOT_YET_DUE) else None
