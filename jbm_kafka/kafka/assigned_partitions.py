"""The partitions that a member has, and where each of them is read: its seeks, its pauses, and where it had ended.

Used by the thread that calls the consumer, within its calls and its callbacks.
"""

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from jbm_kafka.kafka.leaked_references import Unheeded, let_error_go
from jbm_kafka.kafka.translated_errors import cause, trouble

_SEEK_TRIES = 20
"""Calls of `consume` in which a seek refused as too early is tried again before the partition is reassigned."""

_WAKE_S = 0.001
"""How long to wait for the answer to the question that wakes a broker's thread. Nobody wants it, and it comes behind
that to the fetch which waits for messages: with 50 ms a member stood still for 400 when its 8 partitions started."""


class AssignedPartitions:
    """The partitions of one topic that one member of a group has."""

    def __init__(self, client: Consumer, topic: str, bootstrap: str) -> None:
        self._client = client
        self._topic = topic
        self._bootstrap = bootstrap
        self.owned: set[int] = set()
        self.waiting: set[int] = set()
        """Owned, but without a position yet: assigned and paused, so that `seek` can start them."""
        self.damaged: set[int] = set()
        """Stopped before records that cannot be read, until they are assigned anew."""
        self.seeks: dict[int, tuple[int, int]] = {}
        """Positions that a partition could not take yet, with the tries left."""
        self.ends: dict[int, int] = {}
        """Where a partition had nothing more, when it was last found so."""
        self._paused: set[int] = set()
        self._stopped: set[int] = set()
        """librdkafka stopped fetching after a position out of range; only a new assignment starts it again."""

    # -- coming and going ------------------------------------------------------------------------------------------

    def add(self, partitions: Sequence[int]) -> None:
        """They were given to this member; nothing is known of them yet."""
        self._forget(partitions)
        self.owned.update(partitions)

    def start(self, partitions: Sequence[int], starts: Mapping[int, int]) -> None:
        """Read each from its start on; those without one wait for `seek`."""
        waiting = [partition for partition in partitions if partition not in starts]
        # Paused at 0 they ask the broker for nothing.
        self._client.incremental_assign([TopicPartition(self._topic, p, starts.get(p, 0)) for p in partitions])
        self.waiting.update(waiting)
        self._client.pause(self._places(waiting))
        # A pause from before a revocation outlives it.
        self._client.resume(self._places(list(starts)))

    def release(self, places: list[TopicPartition]) -> None:
        """Give the partitions up, and let the client go on with the rebalance."""
        partitions = [place.partition for place in places]
        self.owned.difference_update(partitions)
        self._forget(partitions)
        self._client.incremental_unassign(places)

    def _forget(self, partitions: Sequence[int]) -> None:
        self._paused.difference_update(partitions)
        self.waiting.difference_update(partitions)
        self._stopped.difference_update(partitions)
        self.damaged.difference_update(partitions)
        for partition in partitions:
            self.seeks.pop(partition, None)
            self.ends.pop(partition, None)

    # -- reading on, or not ----------------------------------------------------------------------------------------

    def pause(self, partitions: Sequence[int]) -> None:
        """Read no further; what is not owned stays as it is."""
        wanted = [partition for partition in partitions if partition in self.owned]
        self._paused.update(wanted)
        self._client.pause(self._places(wanted))

    def resume(self, partitions: Sequence[int]) -> None:
        """Read on, those that can be read."""
        self._paused.difference_update(partitions)
        ready = [p for p in partitions if p in self.owned and not self._must_rest(p)]
        self._client.resume(self._places(ready))
        for partition in ready:
            self._wake_fetcher(partition)

    def _must_rest(self, partition: int) -> bool:
        return partition in self.waiting or partition in self.seeks or partition in self.damaged

    def note_end(self, partition: int, position: int) -> None:
        """It had nothing more there."""
        if not self._must_rest(partition):
            self.ends[partition] = position

    def stop_before_damage(self, partition: int) -> None:
        """Hold the partition before what cannot be read."""
        self.damaged.add(partition)
        self._client.pause(self._places([partition]))

    def note_out_of_range(self, partition: int) -> bool:
        """The client stopped at a position outside the log; True when nobody has given another yet."""
        if partition in self.owned:
            self._stopped.add(partition)
        return partition in self.owned and partition not in self.waiting

    # -- positions -------------------------------------------------------------------------------------------------

    def seek(self, partition: int, position: int) -> None:
        """Go on there, at once or by `retry_seeks`."""
        self.ends.pop(partition, None)
        self.seeks[partition] = (position, 0 if partition in self._stopped else _SEEK_TRIES)
        if partition not in self._stopped:
            self._try_seek(partition)

    def retry_seeks(self) -> None:
        """Try the seeks again that were too early. Only right after a poll."""
        for partition, (position, tries) in list(self.seeks.items()):
            if tries:
                self.seeks[partition] = (position, tries - 1)
                self._try_seek(partition)
            else:
                self._reassign(partition, position)

    def _try_seek(self, partition: int) -> None:
        position = self.seeks[partition][0]
        try:
            self._client.seek(TopicPartition(self._topic, partition, position))
        except KafkaException as error:
            let_error_go(error)
            # A partition whose fetching has not begun cannot seek; that is a matter of microseconds.
            if cause(error).code() != KafkaError._STATE:
                raise trouble(cause(error), f"seek {self._topic}[{partition}]", self._bootstrap) from None
        else:
            self._started(partition)

    def _reassign(self, partition: int, position: int) -> None:
        # Only here, right after poll served what was pending: librdkafka takes any unassign call while a revocation
        # waits for its callback as the answer to it, and would give the partitions away before on_revoked ran.
        self._client.incremental_unassign(self._places([partition]))
        self._client.incremental_assign([TopicPartition(self._topic, partition, position)])
        self._stopped.discard(partition)
        self._started(partition)

    def _started(self, partition: int) -> None:
        self.seeks.pop(partition, None)
        if partition in self.waiting:
            self.waiting.discard(partition)
            if partition not in self._paused:
                self._client.resume(self._places([partition]))
                self._wake_fetcher(partition)

    def _wake_fetcher(self, partition: int) -> None:
        """librdkafka's thread for a broker notices a resumed partition at its next wake-up, up to a second later."""
        try:
            self._client.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_WAKE_S)
        except KafkaException as raised:  # the answer is not wanted, and a broker that is away is asked again anyway
            let_error_go(raised)

    def known_ends(self) -> Mapping[int, int]:
        """Where the logs ended by the latest fetch; of what was not fetched yet nothing. Nobody is asked for it."""
        found: dict[int, int] = {}
        for partition in self.owned:
            with Unheeded():
                ends = self._client.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
                if ends is not None and ends[1] > 0:
                    found[partition] = ends[1]
        return found

    def _places(self, partitions: Sequence[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]
