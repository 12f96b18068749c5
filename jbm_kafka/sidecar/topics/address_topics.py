"""Dead-letter and expiry addresses: made usable ahead, and looked up again after one refused a copy or was deleted."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from jbm_kafka.codec.reader_record import PRIVATE_KIND, readers_in
from jbm_kafka.codec.registry_records import subscriptions_in
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError
from jbm_kafka.core.settings.address_settings import ADDRESSES
from jbm_kafka.core.settings.addresses import destination_at, kind_remedy
from jbm_kafka.core.temporary_name import settings_name
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.steps import GO_ON, Steps, Workers
from jbm_kafka.registry.live_settings import LiveSettings
from jbm_kafka.registry.readers import is_kept, keep_original
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.registry.topic_configs import MARGIN_BYTES
from jbm_kafka.registry.topics import Topics

log = logging.getLogger("jbm_kafka.messages")


class LookedUp(JMSError):
    """A worker asks Kafka about the topic: no fault yet."""


class Ensure(Protocol):
    """Makes a destination usable, with room for messages of so many bytes, or raises JMSError."""

    def __call__(self, destination: Destination, *, message_bytes_min: int) -> TopicInfo: ...


class TargetTopics(Protocol):
    """A group worker's questions about topics."""

    def topic_of(self, address: str) -> TopicInfo:
        """Where copies for a dead-letter or expiry address go; raises JMSError while that is not known."""

    def known(self, name: str) -> TopicInfo | None:
        """Return what is known of a destination's topic."""

    def keep_original(self, topic: str, topic_id: str, partition: int, offset: int) -> None:
        """Return once it is recorded that this record stays in the log; raises LookedUp before."""


class AddressTopics:
    """The topics of addresses. No call waits: a worker asks Kafka, and copies are tried again until it answers."""

    def __init__(
        self, *, topics: Topics, ensure: Ensure, workers: Workers, settings: LiveSettings, registry: RegistryLog
    ) -> None:
        self._topics = topics
        self._ensure = ensure
        self._workers = workers
        self._settings = settings
        self._registry = registry
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        """Addresses that a worker is asking about."""
        self._troubles: dict[str, JMSError] = {}
        """Why an address could not be used when it was looked at last."""
        self._unheard: set[str] = set()
        """Addresses that are topics, and had no subscription when a copy left for them last."""
        self._kept: set[tuple[str, str, int, int]] = set()
        """Originals of which it is recorded that they stay, or is being recorded."""
        self._heard: tuple[int, frozenset[Topic]] = (-1, frozenset())
        """The version of the registry, and the topics that have subscriptions by it."""

    def ensure_of(self, source: Destination, info: TopicInfo) -> None:
        """Make the addresses of a destination, which must be there before the first message needs them, with room for
        any.

        A copy of a copy is no larger, for the headers of the hop before are replaced; and two addresses that are each
        other's would grow for ever. This one waits for Kafka.

        Raises:
            InvalidDestinationError: an address cannot be used.
        """
        settings = self._settings.resolve(settings_name(source.name))
        size = info.max_message_bytes + (0 if self._settings.takes_copies(source.name) else MARGIN_BYTES)
        for setting in ADDRESSES:
            address: str | None = getattr(settings, setting)
            if address is not None:
                try:
                    self._ensure(destination_at(address), message_bytes_min=size)
                except InvalidDestinationError as error:
                    is_other_kind = "kind" in error.values
                    why = (
                        kind_remedy(address, setting=setting, of=settings_name(source.name)) if is_other_kind else error
                    )
                    raise InvalidDestinationError(
                        f"the dead-letter or expiry address {address!r} cannot be used: {why}", destination=address
                    ) from None

    def known(self, name: str) -> TopicInfo | None:
        """Return what is known of a destination's topic, without asking."""
        return self._topics.known(name)

    def topic_of(self, address: str) -> TopicInfo:
        """Where its copies go.

        Raises:
            JMSError: that is not known now, or it cannot be written to; try again a little later.
        """
        destination = destination_at(address)
        found = self._topics.present(destination.name)
        if found is not None and self._topics.destination(destination.name) == destination:
            if isinstance(destination, Topic):
                self._note_unheard(address, destination)
            return found
        with self._lock:
            is_new = address not in self._asked
            self._asked.add(address)
            trouble = self._troubles.get(address)
        if is_new:
            self._workers.start(f"jbm-target-{address}", self._look(address, destination))
        raise trouble or LookedUp(
            f"its Kafka topic {destination.name!r} is looked up again", destination=destination.name
        )

    def _look(self, address: str, destination: Destination) -> Steps:
        yield GO_ON
        trouble: JMSError | None = None
        before = self._topics.known(destination.name)
        try:
            self._ensure(destination, message_bytes_min=0 if before is None else before.max_message_bytes)
        except JMSError as error:
            trouble = error
        with self._lock:
            self._asked.discard(address)
            if trouble is None:
                self._troubles.pop(address, None)
            else:
                self._troubles[address] = trouble

    def keep_original(self, topic: str, topic_id: str, partition: int, offset: int) -> None:
        """Return once it is recorded that this record stays in the log (REDELIVER-4).

        Raises:
            LookedUp: a worker records it; try again a little later.
        """
        if is_kept(self._registry.values(), topic, topic_id, partition, offset):
            return
        place = topic, topic_id, partition, offset
        with self._lock:
            is_new = place not in self._kept
            self._kept.add(place)
        if is_new:
            self._workers.start(f"jbm-keep-{topic}", self._keep(place))
        raise LookedUp(f"{topic}[{partition}] offset {offset}: it is being recorded that it stays", destination=topic)

    def _keep(self, place: tuple[str, str, int, int]) -> Steps:
        yield GO_ON
        try:
            keep_original(self._registry, *place)
        except KafkaClientError as error:
            log.info("%s: that it stays in the log is recorded another time: %s", place[0], error)
        finally:
            with self._lock:
                self._kept.discard(place)

    def _note_unheard(self, address: str, topic: Topic) -> None:
        """Copies leave for a topic: look whether anybody will get them."""
        is_unheard = not self._is_heard(topic)
        with self._lock:
            is_new = is_unheard and address not in self._unheard
            (self._unheard.add if is_unheard else self._unheard.discard)(address)
        if is_new:
            self._workers.start(f"jbm-unheard-{address}", self._log_unheard(topic))

    def _log_unheard(self, topic: Topic) -> Steps:
        """Not before the registry was read again: a subscription may be younger than what is known of it."""
        yield GO_ON
        try:
            self._registry.refresh()
        except KafkaClientError as error:
            log.debug("which subscriptions %s has is not known: %s", topic, error)
            return
        if not self._is_heard(topic):
            log.warning(
                "messages leave for %s, which has no subscription: nobody gets them; they are in its log only. Make a "
                "durable subscription of %s before messages leave for it, or name a queue",
                topic,
                topic.name,
            )

    def _is_heard(self, topic: Topic) -> bool:
        """Return True if the topic has a reader: a subscription that does not end or a plain consumer.

        The subscriptions are remembered until the registry has another version.
        """
        version, heard = self._heard
        if version != self._registry.version:
            version = self._registry.version  # before the values: those may be newer, and are looked at again then
            found = [record for _, record in subscriptions_in(self._registry.values())]
            heard = frozenset(record.subscription.topic for record in found if not record.is_ending)
            self._heard = (version, heard)
        if topic in heard:
            return True
        info = self._topics.known(topic.name)
        readers = (reader for _, reader in readers_in(self._registry.values()) if reader is not None)
        return info is not None and any((e.kind, e.topic) == (PRIVATE_KIND, info.topic) for e in readers)
