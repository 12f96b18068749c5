"""Deletes what is settled of the destinations that this process owns channels of, again and again (LOG-4).

Other owners do the same, and whoever comes second finds it done. Nothing waits for it: whatever fails is tried again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial

from jbm_kafka.core.channel.changes import LogTruncated
from jbm_kafka.core.channel.truncation import RECEIVERS, PinKind, is_truncated
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.statistics import DestinationStatistics
from jbm_kafka.ports import AccessRefused, KafkaClientError, LogReader
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import GO_ON, Steps, StepWorker, Wait
from jbm_kafka.ports.wake_up import WakeUp
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.retention import BY_MAKER, BY_SETTING, NOBODY_SETTLED, Retention, RetentionLook
from jbm_kafka.sidecar.destinations import Destinations
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.runtime import Runtime

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 10.0


class Truncator:
    """Works from the first `start` to `stop`. Any thread may call it."""

    def __init__(
        self, given: Runtime, registry: Registry, destinations: Destinations, group_workers: GroupWorkers
    ) -> None:
        self._given = given
        self._registry = registry
        self._destinations = destinations
        self._group_workers = group_workers
        self._look = RetentionLook(given.admin, registry, given.clock, given.config.namespace)
        self._wake = WakeUp()
        self._lock = threading.Lock()
        self._is_stopping = False
        self._worker: StepWorker | None = None
        self._logged: set[tuple[str, str]] = set()
        self.logs: Mapping[str, DestinationStatistics] = {}
        """The rest that the last look has left of each log, in our partitions, by destination."""

    def start(self) -> None:
        """Begin; again: nothing happens."""
        with self._lock:
            if self._worker is None and not self._is_stopping:
                self._worker = self._given.workers.start("jbm-truncate", self._run())

    def start_if_needed(self) -> None:
        """Begin where what is settled of an open channel is to be deleted."""
        if self._owned():
            self.start()

    def deletes(self, name: str, topic_id: str) -> bool:
        """Return True if what is settled of a destination with that topic is deleted; from now on it is."""
        is_so = self._is_truncated(name, topic_id)
        if is_so:
            self.start()
        return is_so

    def _is_truncated(self, name: str, topic_id: str | None = None) -> bool:
        is_ours = self._registry.is_made_by_us(name, topic_id)
        return is_truncated(self._destinations.settings_of(name).truncate, is_ours=is_ours)

    def stop(self, patience: Patience) -> None:
        """End, once a look that is under way has ended."""
        with self._lock:
            self._is_stopping = True
        self._wake.set()
        if self._worker is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)

    def _run(self) -> Steps:
        while True:
            yield Wait(self._given.config.truncate_look_ms / 1_000, self._wake)
            owned = self._owned()
            if owned and not self._is_stopping:
                reader = self._given.kafka.log_reader()
                self.logs = {name: row for name, row in self.logs.items() if name in {each.name for each in owned}}
                try:
                    for destination, partitions in owned.items():
                        if self._is_stopping:
                            break
                        self._truncate(destination, sorted(partitions), reader)
                        yield GO_ON
                finally:
                    reader.close()
            if self._is_stopping:
                return

    def _owned(self) -> dict[Destination, set[int]]:
        """Whose channels are open here, and which partitions, where the setting asks for it."""
        owned: defaultdict[Destination, set[int]] = defaultdict(set)
        for group_worker in self._group_workers.all():
            data = group_worker.data
            destination = data.group.destination
            if not group_worker.is_alive or data.group.is_temporary or not data.channels:
                continue
            if self._is_truncated(destination.name):
                owned[destination].update(list(data.channels))
        return owned

    def _truncate(self, destination: Destination, partitions: list[int], reader: LogReader) -> None:
        setting = self._destinations.settings_of(destination.name).truncate
        try:
            found = self._look.look(destination, partitions, setting=setting, reader=reader)
            is_deleted = not found.because
            self.logs = {**self.logs, destination.name: _left(destination.name, found, is_deleted=is_deleted)}
            if found.because:
                if found.because not in (BY_MAKER, BY_SETTING, NOBODY_SETTLED):
                    self._log_once(destination, found.because)
                return
            before = {partition: cut.before for partition, cut in found.cuts.items() if cut.frees > 0}
            if before:
                begins = self._given.admin.delete_records(destination.kafka_topic(self._given.config.namespace), before)
                log.debug("%s: what is settled was deleted, up to these offsets: %s", destination, dict(begins))
                self._tell(destination, found.topic_id, begins)
        except AccessRefused as error:
            self._log_once(destination, str(error))
        except KafkaClientError as error:
            log.debug("%s: what is settled is deleted another time: %s", destination, error)
        except Exception:
            log.exception("%s: what is settled could not be deleted; it is tried again", destination)

    def _tell(self, destination: Destination, topic_id: str, begins: Mapping[int, int]) -> None:
        """The owners here record it with their next checkpoints."""
        for group_worker in self._group_workers.all():
            if group_worker.is_alive and group_worker.data.group.destination == destination:
                group_worker.post(partial(_note, group_worker, topic_id, begins))

    def _log_once(self, destination: Destination, because: str) -> None:
        if (destination.name, because) not in self._logged:
            self._logged.add((destination.name, because))
            log.warning("%s: nothing of what is settled is deleted: %s", destination, because)


def _left(name: str, found: Retention, *, is_deleted: bool) -> DestinationStatistics:
    needed: Counter[tuple[PinKind, bool]] = Counter()
    for cut in found.cuts.values():
        kinds = [PinKind.CHANNEL if pin.kind in RECEIVERS else pin.kind for pin in cut.pins]
        for kind in {(kind, bool(pin.branch)) for kind, pin in zip(kinds, cut.pins, strict=True)}:
            needed[kind] += cut.end - cut.before
    deletable = 0 if is_deleted else sum(cut.frees for cut in found.cuts.values())
    return DestinationStatistics(
        destination=name,
        log_records=sum(cut.end - cut.before for cut in found.cuts.values()) + deletable,
        log_deletable=deletable,
        log_for_receivers=needed[PinKind.CHANNEL, False],
        log_for_branches=needed[PinKind.CHANNEL, True],
        log_for_readers=needed[PinKind.READER, False],
        log_for_groups=needed[PinKind.GROUP, False],
    )


def _note(group_worker: GroupWorker, topic_id: str, begins: Mapping[int, int]) -> None:
    """On the group's owner thread."""
    data = group_worker.data
    for partition, channel in data.channels.items():
        if partition in begins and channel.changelog.topic_id == data.group.log_id(topic_id):
            channel.state.apply(LogTruncated(begins[partition]))
