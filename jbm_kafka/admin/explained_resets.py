"""What a reset of a group's offsets does, told before anybody receives by it: then it can be undone without a trace.

Kafka permits a reset only while nobody receives. The first worker since begins by it, and warns in its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbm_kafka.admin.explanation import Reason
from jbm_kafka.core.partition_names import named
from jbm_kafka.core.standing import Rule
from jbm_kafka.core.start_position import Reset
from jbm_kafka.sidecar.channel_group import ChannelGroup
from jbm_kafka.store.recovery import RecoveredChannel


def resets_of(channels: Mapping[int, RecoveredChannel]) -> Mapping[int, Reset]:
    """Of these partitions, those whose reset changes something."""
    return {place: each.reset for place, each in channels.items() if each.reset is not None}


def told(resets: Mapping[int, Reset], group: ChannelGroup, bootstrap: str) -> Iterable[Reason]:
    """One reason, however many partitions were reset; none, where none was."""
    if resets:
        again = {place: f"from {each.begin} on" for place, each in resets.items() if each.comes_again}
        effects = [f"again comes what was delivered of {_places(again)}"] if again else []
        skipped = {
            place: f"from {each.skipped.first} to {each.skipped.last}"
            for place, each in resets.items()
            if each.skipped is not None
        }
        if skipped:
            effects.append(f"never comes what was not settled of {_places(skipped)}")
        text = f"somebody reset the group's offsets, and who receives next goes by that: {'; '.join(effects)}"
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


def _places(texts: Mapping[int, str]) -> str:
    """`partition 3 from 17 on, partitions 0-2, 5 from 0 on`: what is said of several is said once."""
    places: dict[str, list[int]] = {}
    for place in sorted(texts):
        places.setdefault(texts[place], []).append(place)
    return ", ".join(f"{named(some)} {text}" for text, some in places.items())


def _undo(resets: Mapping[int, Reset], group: ChannelGroup, bootstrap: str) -> str:
    """The command that sets the offsets to where they were; empty where they are there, or nobody knows."""
    before = {place: reset.before for place, reset in sorted(resets.items()) if reset.before not in (None, reset.begin)}
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
