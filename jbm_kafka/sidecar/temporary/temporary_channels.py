"""Opens the channel of a temporary destination: nothing is recorded of it, so nothing is read (decision 33)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.changes import TimePassed
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.entries import Position
from jbm_kafka.ports import Clock, GroupListener, Kafka, KafkaRecord, LogReader
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.temporary.temporary_feed import TemporaryFeed
from jbm_kafka.sidecar.temporary.temporary_log import TemporaryLog


class TemporaryChannels:
    """What the group worker of one temporary queue or subscription has instead of Kafka's group and a changelog.

    Implements `GroupConsumers` and `Opener`. The first channel begins where the destination's messages do; one that is
    opened anew, where something was not settled.
    """

    def __init__(
        self,
        log: TemporaryLog,
        group: ChannelGroup,
        *,
        kafka: Kafka,
        clock: Clock,
        config: SidecarConfig,
        settings: ResolvedSettings,
        begin: Callable[[], int],
    ) -> None:
        """`begin` tells where the messages begin, at the moment when somebody is there to take what comes."""
        self._log = log
        self._group = group
        self._kafka = kafka
        self._clock = clock
        self._config = config
        self._settings = settings
        self._begin = begin
        self._begins_at: int | None = None
        self._latest: OwnedChannel | None = None

    def group_consumer(
        self, *, group: str, topic: str, partitions: int, listener: GroupListener, session_timeout_ms: int,
        rebalance_timeout_ms: int, memory_bytes: int, client_id: str = "") -> TemporaryFeed:  # fmt: skip
        """The only member that there will be."""
        with self._log.lock:
            if self._begins_at is None:
                self._begins_at = self._begin()
            begin = self._first_unsettled(self._begins_at)
            return TemporaryFeed(self._log, self._group.destination.name, listener, kafka=self._kafka, begin=begin)

    def log_reader(self) -> LogReader:
        """Of whole topics."""
        return self._kafka.log_reader()

    def open(
        self,
        group: ChannelGroup,
        partitions: Sequence[int],
        *,
        opened: Callable[[OwnedChannel], None],
        closed: Callable[[int, str], None],
        failed: Callable[[Exception], None],
        is_wanted: Callable[[int], bool],
        delivered_below: int | None = None,
    ) -> None:
        """Tell of it at once: there is nothing to read."""
        for partition in partitions:
            opened(self._channel(partition))

    def parked_records(self, group: ChannelGroup, partition: int) -> Sequence[KafkaRecord]:
        """None, for nothing is recorded."""
        return ()

    def _channel(self, partition: int) -> OwnedChannel:
        group, latest, state = self._group, self._latest, ChannelState()
        assert self._begins_at is not None, group.group_id
        state.apply(TimePassed(self._clock.now_ms()))
        begin = self._first_unsettled(self._begins_at)
        offered = begin if latest is None else latest.state.offered_position
        state.apply(Position("", "", watermark=begin, fetched=begin, offered=offered, truncated=0))
        self._latest = OwnedChannel(
            topic=group.topic,
            partition=partition,
            state=state,
            settings=self._settings,
            changelog=ChannelChangelog(group=group.group_id, topic="", topic_id="", position=0, journal_channel=""),
            offered_limits=self._config.offered_limits,
        )
        return self._latest

    def _first_unsettled(self, begin: int) -> int:
        return begin if self._latest is None else self._latest.state.watermark
