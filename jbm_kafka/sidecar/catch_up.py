"""Tells receivers whose time is up when everything that was there has been read and handed over. Owner thread only."""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.sidecar.completion import Completion
from jbm_kafka.sidecar.group_data import GroupData


class CatchUp:
    """The watchers of one lane."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self._watchers: list[tuple[Mapping[int, int], Completion]] = []

    def watch(self, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when each partition of ours was read up to its end."""
        self._watchers.append((ends, done))

    def tell_watchers(self) -> None:
        """At the end of a turn, after hand-over."""
        if not self._watchers or not self._data.is_settled:
            return
        if any(channel.waits_for_mark for channel in self._data.channels.values()):
            return
        left = []
        for ends, done in self._watchers:
            if self._is_read(ends):
                done.complete()
            else:
                left.append((ends, done))
        self._watchers = left

    def _is_read(self, ends: Mapping[int, int]) -> bool:
        consumer, channels = self._data.consumer, self._data.channels
        assert consumer is not None, self._data.group
        at_end = consumer.ends_reached()  # markers at the end of a log never come as records
        return all(
            max(channels[partition].state.cursor, at_end.get(partition, 0)) >= end
            for partition, end in ends.items()
            if partition in channels and not channels[partition].is_paused
        )
