"""An AMQP server in this process, before a world in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jbm_kafka import AddressSettings
from jbm_kafka.amqp.access import OPEN, Access
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory


@contextmanager
def amqp_server(
    world: str,
    address_settings: Mapping[str, AddressSettings] | None = None,
    access: Access = OPEN,
    message_bytes: int = 64 * 2**20,
) -> Iterator[str]:
    """Its URL."""
    config = SidecarConfig(address_settings=address_settings or {})
    limits = Limits(topics_made_per_hour=100_000, message_bytes=message_bytes)
    settings = ServerSettings([Listener(port=0)], access, limits, drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(Installation(world, {}, None, config))) as made:
        yield f"amqp://127.0.0.1:{made.ports[0]}"
