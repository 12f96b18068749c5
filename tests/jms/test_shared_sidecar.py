"""Several factories of one process, which share a sidecar where they name the same installation."""

from __future__ import annotations

import socket

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Queue
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError, JMSError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.providers.sidecar_provider import SidecarProvider
from tests.jms.support import SOON_S, Aside


def provider_of(connection: Connection) -> SidecarProvider:
    assert isinstance(connection._core.provider, SidecarProvider)
    return connection._core.provider


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_timeout_ms", 6_000),
        ("revoke_drain_ms", 5_000),
        ("membership_idle_ms", 5_000),
        ("receiver_idle_ms", 5_000),
        ("checkpoint_interval_ms", 10),
        ("record_timeout_ms", 5_000),
        ("commit_timeout_ms", 20_000),
        ("memory_budget_bytes", 2**25),
        ("persist_delivery_count_before_delivery", True),
        ("auto_create", False),
        ("address_settings", {"#": AddressSettings(max_delivery_attempts=3)}),
    ],
)
def test_what_a_second_factory_asks_for_is_not_ignored(
    bootstrap: str, kafka_name: str, name: str, value: object
) -> None:
    first = ConnectionFactory(bootstrap, namespace=kafka_name)
    second = ConnectionFactory(bootstrap, namespace=kafka_name, **{name: value})  # type: ignore[arg-type]
    with first.create_connection():
        with pytest.raises(InvalidSettingError, match=rf"^{name} is .* open already .*leave it out") as told:
            second.create_connection()
        assert told.value.values["setting"] == name
    with second.create_connection() as alone:
        assert getattr(provider_of(alone).sidecar._given.config, name) == value


def test_what_a_second_factory_does_not_give_it_takes_from_the_first(bootstrap: str, kafka_name: str) -> None:
    settings = {"#": AddressSettings(max_delivery_attempts=3)}
    first = ConnectionFactory(
        bootstrap, namespace=kafka_name, session_timeout_ms=5_000, auto_create=False, address_settings=settings
    )
    with first.create_connection() as one:
        with ConnectionFactory(bootstrap, namespace=kafka_name).create_connection() as adopted:
            assert provider_of(adopted).sidecar is provider_of(one).sidecar
        with ConnectionFactory(bootstrap, namespace=kafka_name, session_timeout_ms=5_000).create_connection() as same:
            assert provider_of(same).sidecar is provider_of(one).sidecar


def test_a_second_factory_is_refused_a_queue_without_a_word_on_the_first_ones_auto_create(
    bootstrap: str, kafka_name: str
) -> None:
    """It was: it says nothing of `auto_create` itself, and its programs never set it."""
    missing = Queue(f"{kafka_name}.missing")
    first = ConnectionFactory(bootstrap, namespace=kafka_name, auto_create=False)
    second = ConnectionFactory(bootstrap, namespace=kafka_name)
    with first.create_connection(), second.create_connection() as refused:
        session = refused.create_session()
        for call in (session.create_producer, session.create_consumer):
            with pytest.raises(
                InvalidDestinationError,
                match=r"another one .* was made with auto_create=False, as those of an Admin are$",
            ):
                call(missing)
    with second.create_connection() as alone:
        assert alone.create_session().create_producer(missing).send("a").message_id


@pytest.mark.thorough
@pytest.mark.kafka_only
def test_a_cluster_that_does_not_answer_holds_up_no_connection_to_another(bootstrap: str, kafka_name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        unreachable = Aside(lambda: ConnectionFactory(address).create_connection())
        silent.settimeout(SOON_S)
        silent.accept()[0].close()  # it is connecting
        with ConnectionFactory(bootstrap, namespace=kafka_name).create_connection():
            assert unreachable.is_running
        with pytest.raises(JMSError, match="cannot connect"):
            unreachable.result()
