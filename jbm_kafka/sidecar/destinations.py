"""The destinations of this process: found or made, their topics looked at again and again, their settings followed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.live_settings import LiveSettings
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.topics import Topics, TopicsFound
from jbm_kafka.sidecar.feeds.catch_up import CatchUp
from jbm_kafka.sidecar.feeds.shared_thread import SharedThread
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.runtime import Runtime
from jbm_kafka.sidecar.temporary.temporaries import Temporaries, TemporariesParts
from jbm_kafka.sidecar.topics.address_topics import AddressTopics
from jbm_kafka.sidecar.topics.topic_settings import TopicSettings
from jbm_kafka.sidecar.topics.topic_watch import TopicWatch

log = logging.getLogger(__name__)


class Destinations:
    """Finds, makes and follows destinations, until `stop`. Any thread may call it."""

    def __init__(
        self,
        given: Runtime,
        registry: Registry,
        holder: ProcessLiveness,
        group_workers: GroupWorkers,
        *,
        thread: SharedThread,
        catch_up: CatchUp,
        back: Callable[[int], None],
        changed: Callable[[], None],
    ) -> None:
        """`group_workers`: those that hear what changes of their destinations; `back`: see TopicWatch.

        `changed`: settings were, while programs run.
        """
        config = given.config
        self._auto_create = config.auto_create
        self._group_workers = group_workers
        self._changed = changed
        self.topics = Topics(
            given.admin, namespace=config.namespace, registry=registry, is_in_memory=config.is_in_memory
        )
        self._topic_settings = TopicSettings(given.admin, given.clock)
        self.watch = TopicWatch(
            topics=self.topics,
            workers=given.workers,
            clock=given.clock,
            looked=self._looked,
            follow=self.follow_settings,
            back=back,
        )
        self._registry = registry.log
        self._settings = LiveSettings(registry.log, config.address_settings, namespace=config.namespace)
        self.settings_of = self._settings.resolve
        """The address settings in force for the destination of a name."""
        self.targets = AddressTopics(
            topics=self.topics,
            ensure=self.ensure,
            workers=given.workers,
            settings=self._settings,
            registry=registry.log,
        )
        self.temporaries = Temporaries(
            TemporariesParts(
                kafka=given.kafka,
                admin=given.admin,
                topics=self.topics,
                holder=holder,
                workers=given.workers,
                clock=given.clock,
                config=config,
                chance=given.chance,
                thread=thread,
                catch_up=catch_up,
                settings_of=self.settings_of,
            )
        )

    def ensure(self, destination: Destination, *, message_bytes_min: int = 0) -> TopicInfo:
        """The destination's topic, made when the configuration says so, with room for messages of that size.

        Raises:
            InvalidDestinationError, JMSError: it cannot be used; the text says why.
        """
        try:
            return self.find(destination, message_bytes_min=message_bytes_min)
        except KafkaClientError as error:
            raise as_jms_error(error, str(destination), destination=destination.name) from None

    def find(self, destination: Destination, *, message_bytes_min: int = 0) -> TopicInfo:
        """As `ensure`, but a KafkaClientError stays one: its kind says whether it helps to ask again."""
        if not self.watch.is_started:
            self.watch.start()
        is_new = self.topics.known(destination.name) is None
        self._settings.load()
        if destination.is_temporary:
            return self.temporaries.ensure(destination)
        found = self.topics.ensure(
            destination,
            create=self._auto_create or self._is_default_address(destination),
            partitions=self.settings_of(destination.name).partitions,
            message_bytes_min=message_bytes_min,
        )
        self._settings.take()  # the first use of a namespace says in its registry that its addresses are its own
        if is_new:
            self._settings.warn_of_differences([destination.name])
        return found

    def _is_default_address(self, destination: Destination) -> bool:
        """It is made in any case: the settings that hold unless others are given name it."""
        return isinstance(destination, Queue) and self._settings.is_default_address(destination.name)

    def follow_settings(self) -> None:
        """Take what the registry says of settings and pauses for the next hand-over, failure and send."""
        has_changed = self._settings.follow()
        self.topics.follow_pauses()
        if not has_changed:
            return
        self._settings.warn_of_differences(self.topics.names())
        for group_worker in self._group_workers.all():
            destination = group_worker.data.group.destination
            try:
                self.targets.ensure_of(destination, self.ensure(destination))
            except JMSError as error:
                log.warning("%s: its settings were changed in the registry, and %s", destination, error)
            group_worker.post(partial(group_worker.use_settings, self.settings_of(destination.name)))
        self._changed()

    def _looked(self, found: TopicsFound) -> None:
        self._group_workers.looked(found)
        self._topic_settings.look(found)

    def hear(self) -> bool:
        """Go by what the registry says by now, not only a second later; False: a topic has to be looked at first.

        Raises:
            KafkaClientError: it cannot be read.
        """
        if not self.watch.is_started:
            return True  # nothing was asked of it yet, and it reads the registry before the first answer
        self._registry.refresh()
        self.follow_settings()
        if self.topics.follow_places():
            self.watch.look_now()
            return False
        return True

    def stop(self, patience: Patience) -> None:
        """Look and read no more."""
        self.watch.stop(patience)
        self.temporaries.stop(patience)
