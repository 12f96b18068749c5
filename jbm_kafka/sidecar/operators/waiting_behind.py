"""Finds what of a queue waits in this process for one message to be finished. The owner thread's question; changes
nothing.

It goes through all units that the channels know, so it is for seldom lines of the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import GateKey
from jbm_kafka.core.channel.unit_of_order import Gate
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.operators.current_delivery import CurrentDelivery


def waiting_behind(data: GroupData, link: Link, taken: CurrentDelivery, long_ids: Collection[str]) -> Mapping[int, int]:
    """How many messages by partition: of its unit, and what was granted to its receiver; all that could go now, when
    every receiver is in a message for long (`long_ids`).

    What waits for a time, for an operator or for another selector is not counted.
    """
    is_anybody_free = any(link_id not in long_ids for link_id in data.links)
    links = [link] if is_anybody_free else list(data.links.values())
    found: dict[int, int] = {}
    for partition, channel in data.channels.items():
        count = sum(len(each.unread(partition)) for each in links)
        if not is_anybody_free:
            count += _ready(channel.state)
        elif partition == taken.partition:
            count += _of_unit(channel.state, taken.gate_key)
        if count:
            found[partition] = count
    return found


def _ready(state: ChannelState) -> int:
    gates = [gate for gate in state.gates.by_key.values() if gate.listed_in is not None or gate.in_hand]
    return len(state.arrivals) + sum(_at(gate) for gate in gates)


def _of_unit(state: ChannelState, gate_key: GateKey) -> int:
    gate = state.gates.by_key.get(gate_key)
    return (0 if gate is None else _at(gate)) + sum(each.gate_key == gate_key for each in state.arrivals)


def _at(gate: Gate) -> int:
    return len(gate.waiting) + gate.spilled + len(gate.tail)
