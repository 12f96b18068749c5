"""The consumers of a session: made, connected when their connection starts, paused when it stops.

One whose making fails is forgotten, and so is each that was closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source
from jbm_kafka.jms.base.arguments import checked_prefetch
from jbm_kafka.jms.base.call_pauses import Pauses, on_this_thread
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.receiving.listening import Listening
from jbm_kafka.jms.settling.acknowledge import AcknowledgeStrategy
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.jms.shared.subscribing import begin_use


class SessionConsumers:
    """The consumers of one session; the session decides which thread may call."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._consumers: list[MessageConsumer] = []
        self.default_prefetch = core.connection.defaults.prefetch
        """The prefetch of those made from now on that are given none."""
        self.is_first = True
        """The next one made is the first."""
        self.waits_until_ready = True
        """False: whoever has one made carries `until_ready` out, on an event loop."""

    def make(
        self,
        source_of: Callable[[], Source],
        prefetch: int | None,
        selector: Selector | None,
        strategy: AcknowledgeStrategy,
        listening: Listening,
    ) -> MessageConsumer:
        """Make one more; on a started connection return when partitions are assigned and recovered.

        Raises:
            JMSError: `source_of` raised, or the source cannot be used; the session is as before.
        """
        core = self._core
        with core.in_use(beside_listener=True):
            source = source_of()
            room = self.default_prefetch if prefetch is None else checked_prefetch(prefetch)
            consumer = MessageConsumer(core, strategy, listening, source, room, selector)
            strategy.consumer_made(consumer._link)
            self.is_first = False
            begin_use(core.connection, source, consumer._link, selector)
            strategy.let_go_closed()
            self._consumers = [*self.open(), consumer]
            core.links.add(source, consumer._link)
            with self._forgotten_if_refused(consumer):
                consumer._inbox.connect()
            core.wake()
        if self.waits_until_ready:
            on_this_thread(self.until_ready(consumer), core.filled)
        return consumer

    def until_ready(self, consumer: MessageConsumer) -> Pauses[None]:
        """Finish making one: on a started connection wait for its partitions."""
        if self._core.connection.is_started:
            with self._forgotten_if_refused(consumer):
                yield from consumer._waiting.until_ready()

    def open(self) -> list[MessageConsumer]:
        """Return those that are not closed."""
        return [consumer for consumer in self._consumers if not consumer.is_closed]

    def connect(self) -> None:
        """Let them receive, for the connection was started; one that is refused keeps no other from it."""
        self._with_each(lambda consumer: consumer._inbox.connect())

    def wait_ready(self) -> None:
        """Return when all that could connect have their first assignment."""
        self._with_each(lambda consumer: on_this_thread(consumer._waiting.until_ready(), self._core.filled))

    def pause(self) -> None:
        """Give unread messages back, for the connection was stopped."""
        for consumer in self.open():
            consumer._inbox.pause()

    def _with_each(self, step: Callable[[MessageConsumer], None]) -> None:
        error: JMSError | None = None
        for consumer in self.open():
            try:
                step(consumer)
            except JMSError as failure:
                error = error or failure
        if error is not None:
            raise error

    @contextmanager
    def _forgotten_if_refused(self, consumer: MessageConsumer) -> Iterator[None]:
        """Around a step of making a consumer: when it fails the session is as if it had never been asked for."""
        try:
            yield
        except BaseException:
            self._core.links.remove(consumer._link)
            self._consumers = self.open()
            raise
