"""Members of a consumer group as `explain` names them, and which of them answered nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jbm_kafka.admin.explain import reasons
from jbm_kafka.admin.explain.explanation import Reason
from jbm_kafka.admin.explain.held_units import HeldMessageRow
from jbm_kafka.admin.explain.receiver_states import process_of
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.core.partition_names import named
from jbm_kafka.core.process_names import named_process
from jbm_kafka.ports import GroupMember

NAMES_MAX = 5
"""So many members are named in one sentence."""
SUSPECTS_MAX = 3
"""So many messages are named that may have killed a process."""


def suspects(firsts: Iterable[HeldMessageRow]) -> Mapping[int, str]:
    """By partition the first message that a worker could have had; `firsts`: of each unit."""
    lowest: dict[int, HeldMessageRow] = {}
    for row in firsts:
        if row.rule is Rule.READY and row.offset <= lowest.get(row.partition, row).offset:
            lowest[row.partition] = row
    return {partition: row.message_id for partition, row in sorted(lowest.items())}


def silent_members(
    members: Sequence[GroupMember], asked: Collection[int], answers: Mapping[int, Mapping[str, Any]]
) -> Sequence[GroupMember]:
    """Those that have a partition that was asked about, and did not answer: nobody did, or another process."""
    return [
        member
        for member in members
        if (mine := member.partitions & set(asked))
        and not any(_is_by(member, answers[partition]) for partition in mine if partition in answers)
    ]


def not_answering(member: GroupMember, within_s: float) -> Reason:
    """Of all that it has."""
    text = f"{member.name} did not answer within {within_s:g} s: what it has in hand is not known"
    return reasons.reason(Rule.OWNER_SILENT, text=text)


def gone_for_good(gone: Sequence[GroupMember], members: Sequence[GroupMember]) -> Sequence[GroupMember]:
    """Those whose process is not a member anew, as all are soon after an outage: that one lives, and answers."""
    here = {each.name for each in members}
    return [each for each in gone if each.name not in here]


def put_out(member: GroupMember, *, has_others: bool = True, firsts: Mapping[int, str] | None = None) -> Reason:
    """Of one that was there when it was asked, and is no member of the group any more: nothing is in its hand now.

    `has_others`: somebody else receives. `firsts`: as `suspects` tells; None: what is held could not be read.
    """
    whose = "goes to others" if has_others else "waits for whoever receives next"
    text = f"{member.name} did not answer, and the group has put it out since: what it had {whose}"
    remedy = "if it still lives it hangs, or was stopped: end it (kill -9)"
    held = [each for each in sorted(member.partitions) if firsts is None or each in firsts]
    if held:
        ids = [firsts[each] for each in held] if firsts is not None else []
        which = f": {', '.join(ids)}" if 0 < len(ids) <= SUSPECTS_MAX else ""
        remedy += (
            f". If one process after the other ends so, a message kills them: mostly the first of {named(held)}{which} "
            f"(docs/runbook.md, A message kills its workers)"
        )
    return replace(reasons.reason(Rule.OWNER_SILENT, text=text), remedy=remedy)


def being_shared(members: Sequence[GroupMember], answers: Mapping[int, Mapping[str, Any]]) -> Reason:
    """Of a partition that no member has: the group shares its partitions anew, and waits for each of them."""
    heard = {process_of(answer) for answer in answers.values()}
    unheard = [each.name for each in members if not _is_heard(each, heard)]
    text = reasons.reason(Rule.NO_OWNER).text
    if unheard:
        more = f" and {len(unheard) - NAMES_MAX} more" if len(unheard) > NAMES_MAX else ""
        text += f", and waits for its members; not heard of: {', '.join(unheard[:NAMES_MAX])}{more}"
    return reasons.reason(Rule.NO_OWNER, text=text)


def silent_owner(member: GroupMember, why: str) -> Reason:
    """Of what it has the partition of; `why`: as far as that is known."""
    text = f"{member.name}, which has the partition, did not {f'say: {why}' if why else 'answer'}"
    return reasons.reason(Rule.OWNER_SILENT, text=text)


def _is_heard(member: GroupMember, heard: Collection[str]) -> bool:
    name = named_process(member.client_id)
    return bool(heard) if name is None else name in heard


def _is_by(member: GroupMember, answer: Mapping[str, Any]) -> bool:
    """A member whose process cannot be told by its name is taken for the one that answered."""
    return named_process(member.client_id) in (None, process_of(answer))
