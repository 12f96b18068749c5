"""Opens the channels of a group of which nothing is recorded, so nothing is read (decisions 33 and 81)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.core.channel.changes import TimePassed
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.entries import Position
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.ports import Clock, GroupListener, Kafka, KafkaRecord, LogReader
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.feeds.log_feed import FedLog, LogFeed


class FedChannels:
    """Stands in for Kafka's group and a changelog where a group worker has neither. Implements `GroupConsumers` and
    `Opener`.

    The first channel of a partition begins where the feed does, or the log of a topic that was made anew; one that is
    opened once more, where something was not settled.
    """

    def __init__(
        self,
        reader: FedLog,
        feed: LogFeed,
        *,
        kafka: Kafka,
        clock: Clock,
        config: SidecarConfig,
        settings: Callable[[], ResolvedSettings],
    ) -> None:
        self.reader = reader
        self.feed = feed
        self._kafka = kafka
        self._clock = clock
        self._config = config
        self._settings = settings
        self._latest: dict[int, OwnedChannel] = {}

    def group_consumer(
        self, *, group: str, topic: str, partitions: int, listener: GroupListener, session_timeout_ms: int,
        rebalance_timeout_ms: int, memory_bytes: int, client_id: str = "") -> LogFeed:  # fmt: skip
        """The only member that there will be."""
        self.reader.look()  # where the topic was made anew, the group worker may have heard before
        self.feed.join(listener)
        return self.feed

    def log_reader(self) -> LogReader:
        """A reader of whole topics."""
        return self._kafka.log_reader()

    def open(
        self,
        group: ChannelGroup,
        partitions: Sequence[int],
        *,
        opened: Callable[[OwnedChannel], object],
        closed: Callable[[int, str], object],
        failed: Callable[[Exception], object],
        is_wanted: Callable[[int], bool],
        delivered_below: int | None = None,
    ) -> None:
        """Tell of it at once: there is nothing to read."""
        for partition in partitions:
            opened(self._channel(group, partition, delivered_below or 0))

    def parked_records(self, group: ChannelGroup, partition: int) -> Sequence[KafkaRecord]:
        """None, for nothing is recorded."""
        return ()

    def needed(self) -> Mapping[int, int]:
        """Return by partition the first offset that is not settled. Any thread."""
        positions = {}
        for partition in list(self.reader.positions):
            latest = self._latest_of(partition)
            positions[partition] = self.feed.begins(partition) if latest is None else latest.state.watermark
        return positions

    def _latest_of(self, partition: int) -> OwnedChannel | None:
        """None also where that was of a topic that was made anew since."""
        latest = self._latest.get(partition)
        return None if latest is None or latest.changelog.topic_id != self.reader.topic_id else latest

    def _channel(self, group: ChannelGroup, partition: int, delivered_below: int) -> OwnedChannel:
        latest, state = self._latest_of(partition), ChannelState()
        state.apply(TimePassed(self._clock.now_ms()))
        begin = self.feed.begins(partition) if latest is None else latest.state.watermark
        offered = max(begin, delivered_below) if latest is None else latest.state.offered_position
        state.apply(Position("", "", watermark=begin, fetched=begin, offered=offered, truncated=0))
        made = self._latest[partition] = OwnedChannel(
            topic=group.topic,
            partition=partition,
            state=state,
            settings=self._settings(),
            changelog=ChannelChangelog(
                group=group.group_id, topic="", topic_id=self.reader.topic_id, position=0, journal_channel=""
            ),
            offered_limits=self._config.offered_limits,
        )
        return made
