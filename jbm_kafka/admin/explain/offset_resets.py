"""What a reset of a group's offsets does, told before anybody receives by it: then it can be undone without a trace.

Kafka permits a reset only while nobody receives. The first worker since begins by it, and warns in its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbm_kafka.admin.explain.explanation import Reason
from jbm_kafka.core.blocking_rule import Rule
from jbm_kafka.core.reset_effects import effects_of, offsets_before
from jbm_kafka.core.start_position import Reset
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.store.recovery import RecoveredChannel


def resets_of(channels: Mapping[int, RecoveredChannel]) -> Mapping[int, Reset]:
    """Of these partitions, those whose reset changes something."""
    return {place: each.reset for place, each in channels.items() if each.reset is not None}


def told(resets: Mapping[int, Reset], group: ChannelGroup, bootstrap: str) -> Iterable[Reason]:
    """One reason, however many partitions were reset; none, where none was."""
    if resets:
        text = f"somebody reset the group's offsets, and who receives next goes by that: {effects_of(resets)}"
        yield Reason(rule=Rule.OFFSETS_RESET, text=text, remedy=_undo(resets, group, bootstrap))


def skipped_ranges(resets: Mapping[int, Reset]) -> Mapping[int, tuple[int, int]]:
    """By partition the first offset that is skipped, and the one behind the last."""
    return {
        place: (each.skipped.first, each.skipped.last + 1) for place, each in resets.items() if each.skipped is not None
    }


def skips(reset: Reset) -> Reason:
    """Of a message that lies in what is skipped. Of what was settled there nothing is kept behind a reset."""
    text = f"the reset of the group's offset to {reset.begin} skips it, unless it was settled before"
    return Reason(rule=Rule.OFFSETS_RESET, text=text)


def _undo(resets: Mapping[int, Reset], group: ChannelGroup, bootstrap: str) -> str:
    """The command that sets the offsets to where they were; empty where they are there, or nobody knows."""
    before = offsets_before(resets)
    if not before:
        return ""
    tool = f"kafka-consumer-groups.sh --bootstrap-server {bootstrap} --group {group.group_id} --reset-offsets --execute"
    if len(set(before.values())) == 1:
        offset = next(iter(before.values()))
        command = f"{tool} --topic {group.topic}:{','.join(map(str, before))} --to-offset {offset}"
    else:
        rows = " ".join(f"{group.topic},{place},{offset}" for place, offset in before.items())
        command = f"printf '%s\\n' {rows} > before.csv; {tool} --from-file before.csv"
    return f"if that was not meant, undo it before anybody receives: {command}"
