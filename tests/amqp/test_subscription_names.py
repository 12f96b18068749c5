"""Names of subscriptions over AMQP, where the name of a link has to tell them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Connection

from jbm_kafka import ConnectionFactory, Topic, errors
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp.terminus import Filters, capabilities, looked_up, shared_name, subscription_of
from jbm_kafka.amqp_client.termini import lookup_of, receiver_of
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.jms.connection import Connection as JmsConnection
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory

TIMEOUT_S = 20.0
PRICES = Topic("prices")
KINDS = [SubscriptionKind.DURABLE, SubscriptionKind.SHARED_DURABLE, SubscriptionKind.SHARED]
BARS = ["a", "a|b", "a|", "|", "a|2", "a|global", "a|volatile1", "a|global-volatile1", "a|-jbm-0123456789abcdef"]
NAMES = st.sampled_from(BARS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200
)


def meant(session: Any, wanted: Subscription) -> Subscription:
    """What the server understands of our client's attach."""
    link = receiver_of(session, wanted, "")
    source = link.source
    named, client_id = capabilities(source), wanted.client_id
    filters = Filters(source)
    return subscription_of(PRICES, link.name, source, named, filters, client_id=client_id, connection_id="c1")


@given(NAMES, st.sampled_from(KINDS), st.booleans())
def test_of_our_client_each_name_is_a_subscription_of_its_own(name: str, kind: SubscriptionKind, has_id: bool) -> None:
    """Of TOPIC-3: `a|b` and `a|c` were one, and each got half."""
    session = Connection().session()
    wanted = Subscription(PRICES, kind, name, "billing" if has_id or kind is SubscriptionKind.DURABLE else "")
    assert meant(session, wanted) == wanted
    assert looked_up(lookup_of(session, wanted.client_id, name).name, wanted.client_id) == (wanted.client_id, name)


@pytest.mark.parametrize(
    ("link_name", "lasting", "is_global"),
    [
        ("sub", True, False),
        ("sub|2", True, False),
        ("sub|global", True, True),
        ("sub|global2", True, True),
        ("sub|volatile1", False, False),
        ("sub|global-volatile12", False, True),
        ("sub|17", False, True),  # of another sidecar
        ("sub|-jbm-0123456789abcdef", True, False),
        ("sub|global-jbm-0123456789abcdef", False, True),
    ],
)
def test_what_clients_write_behind_a_shared_name_is_no_part_of_it(
    link_name: str, lasting: bool, is_global: bool
) -> None:
    assert shared_name(link_name, lasting=lasting, is_global=is_global) == "sub"


def test_a_name_that_the_engine_would_cut_is_refused() -> None:
    """A NUL ended the name: `a\\0b` and `a\\0c` were one."""
    session = Connection().session()
    for kind in KINDS:
        with pytest.raises(errors.InvalidSettingError, match=r"^name is 'a\\x00b': it has a NUL.*leave it out$"):
            receiver_of(session, Subscription(PRICES, kind, "a\0b", "billing"), "")
    with pytest.raises(errors.InvalidSettingError, match="NUL"):
        lookup_of(session, "billing", "a\0b")


@pytest.fixture
def url() -> Iterator[str]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings([Listener(port=0)], drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        yield f"amqp://127.0.0.1:{server.ports[0]}"


@pytest.fixture
def connection(url: str) -> Iterator[JmsConnection]:
    with ConnectionFactory(url, client_id="billing").create_connection() as made:
        yield made


def test_subscriptions_whose_names_begin_alike_each_get_all(connection: JmsConnection) -> None:
    """Of TOPIC-3, AMQP-14."""
    session = connection.create_session()
    consumers = [session.create_shared_durable_consumer(PRICES, name) for name in ("a", "a|b", "a|c")]
    session.create_producer(PRICES).send("one")
    assert [each.receive_body(str, timeout=TIMEOUT_S) for each in consumers] == ["one", "one", "one"]


def test_to_end_one_subscription_ends_no_other(connection: JmsConnection) -> None:
    """Of TOPIC-2, AMQP-14: `unsubscribe("a|b")` ended `a`, with what it held."""
    session = connection.create_session()
    for name in ("a", "a|b"):
        session.create_durable_consumer(PRICES, name).close()
    session.create_producer(PRICES).send("one")
    session.unsubscribe("a|b")
    with pytest.raises(errors.InvalidDestinationError, match=r"a\|b"):
        session.unsubscribe("a|b")
    assert session.create_durable_consumer(PRICES, "a").receive_body(str, timeout=TIMEOUT_S) == "one"
