"""Servers of AMQP 1.0 that are not ours, each with what it has on disk: Artemis, and the distribution's RabbitMQ."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.amqp_client.client_settings import ClientSettings
from tests.support.artemis import ArtemisServer
from tests.support.rabbitmq import PASSWORD, USER, RabbitServer

PEERS = ("artemis", "rabbitmq")


@dataclass(frozen=True)
class AmqpPeer:
    """One that runs."""

    name: str
    url: str
    port: int
    kafka: Mapping[str, str]
    """What a ConnectionFactory needs to be let in."""
    pattern: str
    """Of an address that it makes when it is first used, and that no name of ours can be."""
    duplicate_property: str | None
    """By which it drops duplicates."""
    kill: Callable[[], None]
    start: Callable[[], None]

    def new_address(self) -> str:
        """A queue that nobody has used."""
        return self.pattern.format(f"a:{secrets.token_hex(4)}")

    @property
    def settings(self) -> ClientSettings:
        """Of a connection that knows bytes and addresses only."""
        names = ("username", "password", "mechanism")
        user, password, mechanism = (self.kafka.get(f"sasl.{name}", "") for name in names)
        return ClientSettings(self.url, (("127.0.0.1", self.port),), user, password, mechanism, None, False)


@contextlib.contextmanager
def amqp_peer(name: str, folder: Path) -> Iterator[AmqpPeer]:
    """One of PEERS, gone with the block."""
    if name == "artemis":
        artemis = ArtemisServer(folder)
        try:
            artemis.start()
            yield AmqpPeer(name, artemis.url, artemis.port, {}, "kept./{}", "_AMQ_DUPL_ID", artemis.kill, artemis.start)
        finally:
            artemis.kill()
        return
    rabbit = RabbitServer(folder, ())
    kafka = {"sasl.username": USER, "sasl.password": PASSWORD, "sasl.mechanism": "PLAIN"}
    try:
        rabbit.start()
        yield AmqpPeer(name, rabbit.url, rabbit.port, kafka, "/queue/{}", None, rabbit.kill, rabbit.start)
    finally:
        rabbit.end()
