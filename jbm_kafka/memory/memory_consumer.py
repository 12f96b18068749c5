"""A group member of the in-memory Kafka."""

import time
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.memory.memory_groups import Member
from jbm_kafka.memory.memory_positions import MemoryPositions
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import GroupFenced, GroupListener, KafkaClientError, KafkaRecord


class MemoryGroupConsumer:
    """Implements `ports.GroupConsumer`; callbacks run inside `consume` and `close`, without the cluster's lock."""

    def __init__(
        self, process: Process, *, group: str, topic: str, listener: GroupListener, session_timeout_ms: int
    ) -> None:
        self._process = process
        self._cluster = process.cluster
        self._group = self._cluster.group(group)
        self._topic = topic
        self._listener = listener
        self._session_timeout_ms = session_timeout_ms
        self._member: Member | None = None
        self._positions = MemoryPositions(self._cluster, topic)
        self._errors: list[BaseException] = []
        self._joined = False
        self._is_open = True
        self._is_woken = False

    # -- reading -----------------------------------------------------------------------------------------------------

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        assert self._is_open, f"group {self._group.name}: consume after close"
        deadline = time.monotonic() + timeout_s
        while True:
            self._process.check()
            self._serve_membership()
            with self._cluster.changed:
                self._process.check()
                ends, records = dict(self._positions.ends), list[KafkaRecord]()
                if not self._errors:
                    records, self._errors = self._positions.take(count_max)
                if self._errors:
                    raise self._errors.pop(0)
                is_over = records or self._is_woken or ends != self._positions.ends
                if is_over or not self._cluster.wait(deadline - time.monotonic()):
                    self._is_woken = False
                    return records

    def wake(self) -> None:
        with self._cluster.changed:
            self._is_woken = True
            self._cluster.changed.notify_all()

    # -- positions ---------------------------------------------------------------------------------------------------

    def pause(self, partitions: Sequence[int]) -> None:
        self._process.check()
        self._positions.pause(self.assignment().intersection(partitions))

    def resume(self, partitions: Sequence[int]) -> None:
        self._process.check()
        self._positions.resume(partitions)

    def seek(self, partition: int, position: int) -> None:
        self._process.check()
        if partition not in self.assignment():
            text = f"{self._topic}[{partition}] is not assigned to this member of group {self._group.name}"
            raise KafkaClientError(text)
        self._positions.seek(partition, position)

    # -- membership --------------------------------------------------------------------------------------------------

    def assignment(self) -> frozenset[int]:
        return frozenset(self._member.owned) if self._member is not None else frozenset()

    def ends_reached(self) -> Mapping[int, int]:
        return dict(self._positions.ends)

    def known_ends(self) -> Mapping[int, int]:
        logs = self._cluster.topic(self._topic).logs
        return {partition: logs[partition].end for partition in self.assignment() if partition < len(logs)}

    def breaks(self) -> int:
        return self._cluster.faults.breaks

    def timed_out(self) -> bool:
        return False

    def joined(self) -> bool:
        return self._joined

    @property
    def member(self) -> Member | None:
        """As the group knows this consumer; None before it joined and after it lost its membership."""
        return self._member

    def group_metadata(self) -> object:
        self._process.check()
        with self._cluster.changed:
            metadata = None if self._member is None else self._group.metadata(self._member.member_id)
            if metadata is None:
                raise GroupFenced(f"group {self._group.name}: not a member at present", group=self._group.name)
            return metadata

    def close(self) -> None:
        if not self._is_open:
            return
        self._process.check()
        self._is_open = False
        member = self._member
        if member is not None and member.member_id in self._group.members:
            if member.owned:
                partitions = sorted(member.owned)
                self._guarded(lambda: self._listener.on_revoked(partitions))
            with self._cluster.changed:
                self._process.check()
                self._group.leave(member.member_id, self._cluster.partition_count(self._topic))
                self._cluster.changed.notify_all()
        elif member is not None and member.owned:
            partitions = sorted(member.owned)
            self._guarded(lambda: self._listener.on_lost(partitions))
        self._member = None
        if self._errors:
            raise self._errors.pop(0)

    def _serve_membership(self) -> None:
        """Run whatever the group wants of this member, until it wants nothing."""
        while True:
            with self._cluster.changed:
                self._cluster.tick()
                step = self._next_step()
            if step is None:
                return
            step()

    def _next_step(self) -> Callable[[], None] | None:
        member = self._member
        if member is None:
            self._join()
            return self._next_step()
        if member.member_id not in self._group.members:
            return self._lose
        if member.revoking:
            return self._revoke
        if member.assigned - member.owned:
            return self._assign
        self._joined = True
        return None

    def _join(self) -> None:
        partitions = len(self._cluster.topic(self._topic).logs)
        self._member = self._group.join(self._topic, partitions, self._session_timeout_ms)
        self._process.members.append(self._member)
        self._cluster.changed.notify_all()

    def _assign(self) -> None:
        member = self._member
        assert member is not None
        with self._cluster.changed:
            partitions = sorted(member.assigned - member.owned)
            member.owned.update(partitions)
        self._joined = True
        self._guarded(lambda: self._positions.start(self._listener.on_assigned(partitions)))

    def _revoke(self) -> None:
        member = self._member
        assert member is not None
        partitions = sorted(member.revoking)
        self._guarded(lambda: self._listener.on_revoked(partitions))
        self._process.check()
        with self._cluster.changed:
            self._positions.forget(partitions)
            self._group.revoked(member, set(partitions), self._cluster.partition_count(self._topic))
            self._cluster.changed.notify_all()

    def _lose(self) -> None:
        member = self._member
        assert member is not None
        self._process.members.remove(member)
        partitions = sorted(member.owned)
        self._member = None
        self._positions.forget(partitions)
        if partitions:
            self._guarded(lambda: self._listener.on_lost(partitions))

    def _guarded(self, call: Callable[[], None]) -> None:
        """Run the listener; what it raises comes out of `consume` or `close` after the group has been answered."""
        try:
            call()
        except Exception as error:
            self._errors.append(error)
