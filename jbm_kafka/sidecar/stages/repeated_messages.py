"""Messages that were sent before, by their duplicate id: settled as they are read, and logged (SEND-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jbm_kafka.core.channel.changes import Fetched
from jbm_kafka.core.channel.duplicate_window import Identified, decide_repeated
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.ports.clock import Clock
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.log_lines.message_lines import MessageLines
from jbm_kafka.sidecar.stages.departures import event_of


class RepeatedMessages:
    """The repeated messages that the windows of one group's channels find. Owner thread only."""

    def __init__(self, lines: MessageLines, clock: Clock) -> None:
        self._lines = lines
        self._clock = clock

    def sift(self, channel: OwnedChannel, change: Fetched, identified: Sequence[Identified], now_ms: int) -> Fetched:
        """The change without the messages that repeat an id. `now_ms`: wall clock.

        What an earlier owner has read already was looked at then, and recorded with how far it was read.
        """
        settings, state = channel.settings, channel.state
        new = [message for message in identified if message.offset >= state.end_position]
        if not (new and settings.duplicate_window_ms):
            return change
        sifted = decide_repeated(
            state.window,
            new,
            window_ms=settings.duplicate_window_ms,
            count_max=settings.duplicate_window_count,
            now_ms=now_ms,
        )
        for reference in change.references:
            first = sifted.repeated.get(reference.offset)
            if first is not None:
                reason = f"it has the duplicate id of offset {first}"
                channel.checkpoints.note(event_of(MessageFate.DUPLICATE, reference, 0, None, reason, channel, now_ms))
                self._lines.repeated(
                    channel.topic, channel.partition, reference.offset, first, self._clock.monotonic_ms()
                )
        return replace(
            change,
            references=[each for each in change.references if each.offset not in sifted.repeated],
            repeated=tuple(sifted.repeated),
            remembered=sifted.remembered,
            forgotten=sifted.forgotten,
        )
