"""Tells receivers whose time is up when everything that was there has been read and handed over. Owner thread only."""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.group_data import GroupData


class CatchUp:
    """The watchers of one group worker."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self._watchers: list[tuple[Link, Mapping[int, int], Completion]] = []

    def watch(self, link: Link, ends: Mapping[int, int], done: Completion) -> None:
        """Complete when each partition of ours was read up to its end, and the link has got what it asked for."""
        self._watchers.append((link, ends, done))

    def notify_watchers(self, *, is_paused: bool = False) -> None:
        """At the end of a turn, after hand-over; `is_paused`: nothing will come, however far it is read."""
        if not self._watchers or not self._data.is_settled:
            return
        self._watchers = [row for row in self._watchers if not row[2].is_done]  # its receive has ended
        if is_paused:
            for _, _, done in self._watchers:
                done.complete()
            self._watchers = []
            return
        for channel in self._data.channels.values():
            if channel.mark.waits or channel.is_awaiting_store:
                return
        left = []
        for link, ends, done in self._watchers:
            if self._is_read(ends) and link.is_answered():
                done.complete()
            else:
                left.append((link, ends, done))
        self._watchers = left

    def _is_read(self, ends: Mapping[int, int]) -> bool:
        consumer, channels = self._data.consumer, self._data.channels
        assert consumer is not None, self._data.group
        at_end = consumer.ends_reached()  # markers at the end of a log never come as records
        return all(
            max(channels[partition].state.read_position, at_end.get(partition, 0)) >= end
            for partition, end in ends.items()
            if partition in channels and not channels[partition].memory.is_paused
        )
