"""A broker of ours that asks for a user and a password."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.devbroker.ports import free_port
from tests.support.broker import local_broker

USER, PASSWORD = "alice", "alice-secret"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class SaslBroker:
    """`host:port` of each of its listeners."""

    plain: str
    """Anybody."""
    sasl: str
    """USER with PASSWORD, mechanism PLAIN, not encrypted."""


@contextmanager
def sasl_broker(folder: Path) -> Iterator[SaslBroker]:
    """It runs while the block does."""
    address = f"127.0.0.1:{free_port()}"
    properties = {
        "listeners": f"SASL://{address}",
        "advertised.listeners": f"SASL://{address}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f'{_LOGIN} required user_{USER}="{PASSWORD}";',
    }
    with local_broker(folder, properties) as broker:
        yield SaslBroker(broker.bootstrap, address)
