"""Carries out the commands of administrators on the channels of this process. Owner thread only (decision 34).

A verb is a function of the channel and the command's arguments that returns what to answer, named in `_verbs`; those
that take messages out are in operator_departures.py. It may be asked the same twice, so it names messages by offset and
changes only those that are as the administrator found them. What it changes is durable before the answer goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jbm_kafka.browsing.unacknowledged_offsets import hand_of, to_answer
from jbm_kafka.codec.command_records import EXPLAIN, IN_HAND, QUESTIONS, SEND_NOW, Answer, Command
from jbm_kafka.core.channel.early import decide_let_go
from jbm_kafka.core.channel.on_hold import decide_leaving, decide_released, is_released
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.operators.operator_departures import OperatorDepartures, Reply
from jbm_kafka.sidecar.operators.owner_questions import OwnerQuestions
from jbm_kafka.sidecar.stages.departures import Departures

LOOKS_SHARE = 0.05
"""The largest share of the owner's time that goes into looking which of the released may leave: there may be very
many."""

TAKING_OUT = frozenset(verb.value for verb in Verb)


class OwnerCommands:
    """The commands to the channels of one group worker."""

    def __init__(
        self, data: GroupData, departures: Departures, taking_out: OperatorDepartures, questions: OwnerQuestions
    ) -> None:
        self._data = data
        self._departures = departures
        self._taking_out = taking_out
        """Its verbs answer when what they took is gone."""
        self._questions = questions
        self._leaving: dict[OwnedChannel, set[int]] = {}
        """Offsets that were released and have not begun to leave: not the first of their unit, or not in memory."""
        self.is_leaving = False
        """Something that was released, or that an operator takes out, may still have to leave: `go_on` lets it."""
        self._look_at_ms = 0
        """Monotonic: not before it the next look at them."""
        self._verbs: Mapping[str, Callable[[OwnedChannel, Mapping[str, Any]], Mapping[str, Any]]] = {
            "release": self._release,
            SEND_NOW: _send_now,
            IN_HAND: _in_hand,
        }

    def carry_out(self, command: Command, reply: Reply) -> None:
        """Do what the command says and answer when that is durable; of a partition that is another's: nothing."""
        if command.verb == EXPLAIN:
            self._questions.answer(command, reply)
            return
        channel = self._data.channels.get(command.partition)
        # While its handlers are waited for it takes nothing on any more, and still knows what they have.
        if channel is None or (channel.is_closing and command.verb not in QUESTIONS):
            return
        verb = self._verbs.get(command.verb)
        try:
            if command.verb in TAKING_OUT:
                self.is_leaving = True
                self._taking_out.begin(channel, command, reply)
                return
            if verb is None:
                raise JMSError(f"the process that receives does not know {command.verb!r}; its jbm-kafka is older")
            result = verb(channel, command.arguments)
        except JMSError as error:
            reply(Answer(command.id, command.partition, error=str(error)))
            return
        answer = Answer(command.id, command.partition, result)
        # A channel that is lost before answers nothing: its next owner is asked again.
        channel.checkpoints.wait_durable(Completion(lambda error: reply(answer) if error is None else None))

    def go_on(self) -> None:
        """Let leave what was released and has become the first of its unit, and what is taken out. In each turn."""
        self._taking_out.go_on()
        began_ms = self._data.clock.monotonic_ms()
        if self._leaving and began_ms >= self._look_at_ms:
            self._let_leave()
            ended_ms = self._data.clock.monotonic_ms()
            self._look_at_ms = ended_ms + int((ended_ms - began_ms) / LOOKS_SHARE)
        self.is_leaving = bool(self._leaving) or self._taking_out.is_busy

    def _let_leave(self) -> None:
        for channel, offsets in list(self._leaving.items()):
            offsets.intersection_update([offset for offset in offsets if is_released(channel.state, offset)])
            if channel.is_closing or not offsets:
                del self._leaving[channel]
                continue
            leaving = decide_leaving(channel.state, offsets)
            channel.state.apply(leaving.change)
            for departure in leaving.departures:
                offsets.discard(departure.reference.offset)
                failure = channel.state.durable.failures.get(departure.reference.offset)
                self._departures.send(channel, replace(departure, last_error=failure))

    def _release(self, channel: OwnedChannel, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        again = bool(arguments.get("again"))
        released = decide_released(channel.state, arguments.get("offsets", ()), again=again)
        channel.state.apply(released)
        offsets = [message.offset for message in released.messages]
        if not again and offsets:
            self.is_leaving = True
            self._leaving.setdefault(channel, set()).update(offsets)
        return {"offsets": offsets}


def _send_now(channel: OwnedChannel, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    named = {int(offset): None if unit is None else bytes.fromhex(unit) for offset, unit in arguments["messages"]}
    found = decide_let_go(channel.state, named)
    channel.state.apply(found.change)
    return {"done": list(found.change.units), "in_hand": found.in_hand, "unread": found.unread, "gone": found.gone}


def _in_hand(channel: OwnedChannel, _: Mapping[str, Any]) -> Mapping[str, Any]:
    return to_answer(hand_of(channel.state))
