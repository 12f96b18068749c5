"""A connection of the administration's own, for what only a receiver can do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from jbm_kafka.client.source_use import begin_use
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.provider import Provider
from jbm_kafka.ports.wake_up import Sleepers
from jbm_kafka.providers.sidecar_provider import SidecarProvider

JOIN_TIMEOUT_S = 10.0
LEAVE_TIMEOUT_S = 10.0
"""For what is on its way to another queue when the administration is done."""


@dataclass(frozen=True, slots=True)
class OwnConnections:
    """Makes them. Each has a folder, so that it shares no sidecar with the application, nor its settings."""

    url: str
    client_settings: Mapping[str, object] | None
    namespace: str

    @contextmanager
    def open(self, address_settings: Mapping[str, AddressSettings] | None = None) -> Iterator[Connection]:
        """A connection, started; it and its folder are gone at the end."""
        with TemporaryDirectory(prefix="jbm-admin-") as folder:
            factory = ConnectionFactory(
                self.url,
                kafka=self.client_settings,
                namespace=self.namespace,
                state_dir=folder,
                auto_create=False,
                address_settings=address_settings,
            )
            with factory.create_connection() as connection:
                yield connection

    @contextmanager
    def provider(self) -> Iterator[Provider]:
        """Give the provider that such a connection works with."""
        with self.open() as connection:
            yield provider_of(connection)

    def owner_of(
        self, source: Source, address_settings: Mapping[str, AddressSettings]
    ) -> Callable[[], AbstractContextManager[None]]:
        """Return what joins the group of a queue or subscription without receiving.

        In its end it leaves, when what must leave has left.
        """
        return lambda: self._own(source, address_settings)

    @contextmanager
    def _own(self, source: Source, address_settings: Mapping[str, AddressSettings]) -> Iterator[None]:
        with self.open(address_settings) as connection, connection.create_session() as session:
            provider = provider_of(connection)
            assert isinstance(provider, SidecarProvider), provider
            if isinstance(source, Queue):
                session.create_consumer(source)
                yield
            else:
                with _subscribed(provider, source):
                    yield
            provider.sidecar.sources.wait_idle(LEAVE_TIMEOUT_S)


@contextmanager
def _subscribed(provider: SidecarProvider, subscription: Subscription) -> Iterator[None]:
    """Served as a consumer of it that asks for nothing; without its client id, which its program may hold."""
    lock = threading.RLock()
    link = Link(LinkTerms("admin/1", session_id="admin", prefetch=1), filled=Sleepers(lock), lock=lock)
    begin_use(provider, subscription, link, "")
    try:
        worker = provider.attach(subscription, link)
        link.attach(worker)
        link.filled.wait_for(lambda: worker.data.is_settled or not worker.is_alive, JOIN_TIMEOUT_S)
        yield
        provider.sidecar.sources.wait_idle(LEAVE_TIMEOUT_S)
    finally:
        link.leave()
