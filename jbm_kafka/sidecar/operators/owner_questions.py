"""Answers that only the owner of a partition has: why its messages do not move (decision 39). Owner thread only.

A question, which changes nothing: it is answered at once, also while no checkpoint can be written.
"""

from __future__ import annotations

import logging
import os
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.core.channel.blocking_rule import (
    BlockingRule,
    Rule,
    blocking_rule_of,
    blocking_rule_of_gate,
    blocking_rule_of_place,
)
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.holders import kind_of, with_receivers
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.file_limit import file_limit
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.operators.current_delivery import current_delivery_of
from jbm_kafka.sidecar.operators.operator_departures import Reply
from jbm_kafka.version import version

log = logging.getLogger(__name__)

_FAILED = (Rule.ON_HOLD, Rule.DELAYED)
"""Rules that keep a message of which an attempt failed."""
MESSAGES_MAX = 1_000
"""Asked about at once."""
GATES_MAX = 50_000
"""Looked at for one answer: a tenth of a second, in which nobody is served."""
RECEIVERS_MAX = 200
_version = cache(version)
"""It is read from a file, and does not change."""
ID_MAX = 500
"""Characters of an id in an answer: a foreign program may write one that fills it."""


class OwnerQuestions:
    """The answers for the channels of one group worker."""

    def __init__(self, data: GroupData, *, closed: Mapping[int, JMSError], is_paused: Callable[[], bool]) -> None:
        """`closed`: partitions of which nothing more is read, and why; `is_paused`: nothing may be handed over."""
        self._data = data
        self._closed = closed
        self._is_paused = is_paused

    def answer(self, command: Command, reply: Reply) -> None:
        """Tell of the partition if it is ours; of another's nothing.

        `arguments["messages"]` are pairs of an offset and a unit, its bytes as hexadecimal text or None.
        """
        try:
            fields = self._of_partition(command)
        except Exception as error:  # anybody may ask anything, and a question that cannot be answered harms nobody
            log.debug("explain of partition %d: %r", command.partition, error, exc_info=True)
            reply(Answer(command.id, command.partition, error=f"it cannot answer: {type(error).__name__}: {error}"))
            return
        if fields is not None:
            reply(Answer(command.id, command.partition, fields))

    def _of_partition(self, command: Command) -> dict[str, Any] | None:
        partition = command.partition
        clock = self._data.clock
        fields: dict[str, Any] = {
            "process": {
                "host": platform.node(),
                "id": os.getpid(),
                "version": _version(),
                "time_ms": clock.now_ms() - clock.set_back_ms,
                "files_max": file_limit(),
            }
        }
        channel = self._data.channels.get(partition)
        closed = self._closed.get(partition)
        if closed is not None:
            fields["closed"] = str(closed)
        if channel is not None:
            fields.update(self._of_channel(channel, command.arguments.get("messages", ())))
        elif partition in self._data.opening:
            fields["is_opening"] = True
        elif closed is None:
            return None
        return fields

    def _of_channel(self, channel: OwnedChannel, messages: Sequence[tuple[int, str | None]]) -> dict[str, Any]:
        state, now_ms = channel.state, self._data.clock.now_ms()
        has_some = self._has_some_ready()
        return {
            "is_paused": self._is_paused(),
            "is_moving": channel.is_closing,
            "is_recording": channel.mark.waits,
            "read_to": state.read_position,
            "is_read_on": not channel.memory.is_paused,
            "units": _units(state, now_ms),
            "in_hand": {session: len(hand) for session, hand in with_receivers(state.in_hand)},
            "receivers": [
                self._receiver(link, has_some(link)) for link in islice(self._data.links.values(), RECEIVERS_MAX)
            ],
            "messages": [
                self._message(channel, offset, None if unit is None else bytes.fromhex(unit), now_ms)
                for offset, unit in messages[:MESSAGES_MAX]
            ],
        }

    def _message(self, channel: OwnedChannel, offset: int, unit: bytes | None, now_ms: int) -> dict[str, Any]:
        standing = blocking_rule_of(channel.state, offset, unit, now_ms=now_ms, tentative=channel.checkpoints.tentative)
        return {"offset": offset, **self._answer_of(channel, standing, offset)}

    def _answer_of(self, channel: OwnedChannel, standing: BlockingRule, offset: int) -> dict[str, Any]:
        set_back_ms = channel.state.set_back_ms
        fields: dict[str, Any] = {"rule": self._refined(channel, standing.rule, offset).value}
        if standing.head is not None:
            fields["head"] = standing.head
        if standing.due_at_ms:
            fields["due_at_ms"] = standing.due_at_ms - set_back_ms
        failure = channel.state.durable.failures.get(offset) if standing.rule in _FAILED else None
        if failure is not None:
            fields["last_error"] = failure
        if standing.session is not None and kind_of(standing.session).has_receiver:
            in_hand = offset if standing.rule is not Rule.BEHIND else standing.head
            fields["holder"] = self._holder(channel, standing.session, in_hand)
        return fields

    def _refined(self, channel: OwnedChannel, rule: Rule, offset: int) -> Rule:
        """The channel's own rule, made exact with the receivers that would take a message that may go."""
        links = self._data.links.values()
        if rule is Rule.NOT_SELECTED and any((channel.partition, offset) in link.undeliverable for link in links):
            return Rule.UNDELIVERABLE_HERE
        if rule is not Rule.READY:
            return rule
        if self._is_paused():
            return Rule.PAUSED
        if channel.is_closing:
            return Rule.MOVING
        if not links:
            return Rule.NOBODY_RECEIVES
        if not any(link.demand.credit > 0 and not link.is_stopped for link in links):
            return Rule.RECEIVERS_BUSY
        is_beyond_mark = offset >= channel.state.offered_position and channel.mark.waits
        return Rule.RECORDING if is_beyond_mark else Rule.READY

    def _holder(self, channel: OwnedChannel, session: str, offset: int | None) -> dict[str, Any]:
        """The receiver that has it, since when, and whether the application has it already."""
        row = None if offset is None else channel.hand_overs.last_of(offset)
        if row is not None and row.session_id != session:
            row = None
        links = list(self._data.links_of(session))
        link = next((link for link in links if row is not None and link.terms.link_id == row.link_id), None)
        known = link or next(iter(links), None)
        return {
            "session": session,
            "receiver": "" if row is None else row.link_id,
            "client_id": "" if known is None else known.terms.client_id,
            "mode": "" if known is None else known.terms.mode,
            "since_ms": None if row is None else row.at_ms - channel.state.set_back_ms,
            "is_unread": offset is not None and any(offset in link.unread(channel.partition) for link in links),
        }

    def _receiver(self, link: Link, has_some: bool) -> dict[str, Any]:
        demand = link.demand
        # The thread of its session takes messages for all its listeners, and for none while it is in one of them.
        is_kept = any(each.demand.is_in_listener for each in self._data.links_of(link.terms.session_id))
        waits = demand.is_waiting and not is_kept
        held = sum(len(c.state.in_hand.get(link.terms.session_id, ())) for c in self._data.channels.values())
        return {
            "receiver": link.terms.link_id,
            "session": link.terms.session_id,
            "client_id": link.terms.client_id,
            "mode": link.terms.mode,
            "selector": "" if link.terms.selector is None else link.terms.selector.text,
            "prefetch": link.terms.prefetch,
            "in_hand": held,
            "unread": len(link.buffer),
            "is_asking": demand.credit > 0 or waits,
            "is_stopped": link.is_stopped,
            "is_idle": waits and not link.is_stopped and not has_some,
            "is_waiting": waits,
            "has_listener": demand.has_listener,
            "is_in_listener": demand.is_in_listener,
            "has_asked": demand.receives > 0,
            "asked_ms_ago": demand.asked_ms_ago(self._data.clock.monotonic_ms()),
            "taken": self._taken(link),
        }

    def _taken(self, link: Link) -> dict[str, Any] | None:
        """The message that its listener is in, or that its application took last and has not finished."""
        taken = current_delivery_of(self._data, link)
        return taken and {
            "partition": taken.partition,
            "offset": taken.offset,
            "message_id": taken.message_id if len(taken.message_id) <= ID_MAX else "",
            "since_ms": self._data.clock.now_ms() - taken.ago_ms,
        }

    def _has_some_ready(self) -> Callable[[Link], bool]:
        states, selections = [channel.state for channel in self._data.channels.values()], self._data.selections

        def has_some(link: Link) -> bool:
            chooses = selections.bit_of(link)
            return any(state.arrivals or state.gates.free_for(chooses) for state in states)

        return has_some


def _units(state: ChannelState, now_ms: int) -> dict[str, int]:
    """How many units, and messages without one that wait for something of their own, each rule keeps."""
    found = Counter(
        blocking_rule_of_gate(state, gate, now_ms=now_ms).rule.value
        for gate in islice(state.gates.by_key.values(), GATES_MAX)
    )
    for place, standing in state.shelf.places.items():
        fetched = len(state.shelf.to_fetch.get(place, ()))
        found[blocking_rule_of_place(place).rule.value] += len(standing) - fetched
        if fetched:
            found[Rule.READY.value] += fetched
    # What came and was not looked at yet: only what is the first of its unit could go.
    firsts = {each.gate_key for each in islice(state.arrivals, GATES_MAX)} - state.gates.by_key.keys()
    if firsts:
        found[Rule.READY.value] += len(firsts)
    return dict(found)
