"""Members of a consumer group as `explain` names them, and which of them did not answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from jbm_kafka.admin.explain.explanation import Reason
from jbm_kafka.admin.explain.held_units import HeldMessageRow
from jbm_kafka.admin.explain.reasons import reason, some
from jbm_kafka.admin.explain.receiver_states import process_of
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.channel.process_names import named_process
from jbm_kafka.ports import GroupMember


def suspects(firsts: Iterable[HeldMessageRow]) -> Mapping[int, str]:
    """Return by partition the id of the first message that a worker could have had; `firsts`: of each unit."""
    lowest: dict[int, HeldMessageRow] = {}
    for row in firsts:
        if row.rule is Rule.READY and row.offset <= lowest.get(row.partition, row).offset:
            lowest[row.partition] = row
    return {partition: row.message_id for partition, row in sorted(lowest.items())}


def silent_members(
    members: Sequence[GroupMember], asked: Collection[int], answers: Mapping[int, Mapping[str, Any]]
) -> Sequence[GroupMember]:
    """Members with a partition that was asked about, of which nobody answered, or another process."""
    return [
        member
        for member in members
        if (mine := member.partitions & set(asked))
        and not any(_is_by(member, answers[partition]) for partition in mine if partition in answers)
    ]


def silent(member: GroupMember, refusal: str = "") -> Reason:
    """It did not answer, or answered with a refusal."""
    return reason(
        Rule.OWNER_SILENT,
        member=member.name,
        say=f"say: {refusal}" if refusal else "answer: what it has in hand is not known",
    )


def put_out(member: GroupMember, first_ids: Mapping[int, str]) -> Reason:
    """A member that had not answered is not in the group any more, so nothing is in its hand now.

    `first_ids`: by partition that may hold something the id of its first message; empty: not known.
    """
    remedy = "if it still lives it hangs, or was stopped: end it (kill -9)"
    held = sorted(member.partitions & first_ids.keys())
    if held:
        ids = some([first_ids[each] for each in held if first_ids[each]])
        remedy += (
            f". If one process after the other ends so, a message kills them: mostly the first of {named(held)}"
            f"{f': {ids}' if ids else ''} (jbm-kafka docs runbook, A message kills its workers)"
        )
    say = "answer, and the group has put it out since: what it had goes to whoever receives"
    return reason(Rule.OWNER_SILENT, member=member.name, say=say, remedy=remedy)


def being_shared(members: Sequence[GroupMember], answers: Mapping[int, Mapping[str, Any]]) -> Reason:
    """The group shares its partitions anew and waits for each member: so no member has this one."""
    heard = {process_of(answer) for answer in answers.values()}
    unheard = some([each.name for each in members if not _is_heard(each, heard)])
    return reason(Rule.NO_OWNER, waits=f", and waits for its members; not heard of: {unheard}" if unheard else "")


def _is_heard(member: GroupMember, heard: Collection[str]) -> bool:
    name = named_process(member.client_id)
    return bool(heard) if name is None else name in heard


def _is_by(member: GroupMember, answer: Mapping[str, Any]) -> bool:
    """A member whose name does not have its process is taken for the one that answered."""
    return named_process(member.client_id) in (None, process_of(answer))
