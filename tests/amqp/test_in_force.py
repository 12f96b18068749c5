"""What an attach's answer names is in force: a client that gets it back relies on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from proton import UNDESCRIBED, Array, Data, Described, Message, Terminus, symbol, ulong
from proton import Link as ProtonLink
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, LinkDetached

from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.codec.events import decode_events
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory

TIMEOUT_S = 20
SELECTOR = Described(ulong(0x0000468C00000004), "kind = 'a'")
BY_SYMBOL = Described(symbol("apache.org:selector-filter:string"), "kind = 'a'")
NO_LOCAL = Described(ulong(0x0000468C00000003), "NoLocalFilter{}")
UNKNOWN = Described(symbol("com.example:xpath"), "//a")
ALL = {"amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings([Listener(port=0)], drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        connection = BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)
        yield connection
        connection.close()


class Said(LinkOption):
    """What an attach says of the terminus that is the server's."""

    def __init__(
        self,
        *,
        filters: dict[str, Any] | None = None,
        capabilities: tuple[str, ...] = (),
        outcomes: tuple[str, ...] = (),
        also: Callable[[Any], None] = lambda link: None,
    ) -> None:
        self._filters, self._capabilities, self._outcomes, self._also = filters, capabilities, outcomes, also

    def apply(self, link: Any) -> None:
        end = link.source if link.is_receiver else link.target
        if self._filters:
            end.filter.put_object({symbol(key): value for key, value in self._filters.items()})
        for data, names in ((end.capabilities, self._capabilities), (end.outcomes, self._outcomes)):
            if names:
                data.put_object(Array(UNDESCRIBED, Data.SYMBOL, *(symbol(each) for each in names)))  # type: ignore[arg-type]
        self._also(link)


def attached(client: Any, address: str | None, said: Said, **options: Any) -> Any:
    """A receiver's link, open."""
    name = options.pop("name", secrets.token_hex(8))
    return client.create_receiver(address, credit=0, name=name, options=[said], **options).link


def value(data: Data) -> Any:
    data.rewind()
    return data.get_object() if data.next() else None


def names(data: Data) -> set[str]:
    held = value(data)
    return {str(each) for each in getattr(held, "elements", held) or ()}


def durable(link: Any) -> None:
    link.source.durability, link.source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER


def conditions(link: Any) -> tuple[Any, ...]:
    source = link.remote_source
    return source.durability, source.expiry_policy, source.timeout, source.distribution_mode


@pytest.mark.parametrize(
    ("address", "asked", "kept"),
    [
        ("orders", {"s": SELECTOR, "x": UNKNOWN}, {"s": SELECTOR}),
        ("orders", {"any-key": BY_SYMBOL}, {"any-key": BY_SYMBOL}),
        ("orders", {"apache.org:selector-filter:string": "kind = 'a'"}, None),
        ("orders", {"s": Described(ulong(0x0000468C00000004), 17)}, None),
        ("orders", {"n": NO_LOCAL}, None),
        ("orders", {"s": SELECTOR, "t": Described(ulong(0x0000468C00000004), "kind = 'b'")}, {"s": SELECTOR}),
        ("topic://prices", {"n": NO_LOCAL, "x": UNKNOWN}, {"n": NO_LOCAL}),
        ("topic://prices", {"x": UNKNOWN}, None),
    ],
)
def test_only_filters_that_filter_come_back(
    client: Any, address: str, asked: dict[str, Any], kept: dict[str, Any] | None
) -> None:
    """AMQP-18: a consumer with an unknown filter, or a selector as a bare string, got others' messages unawares."""
    found = value(attached(client, address, Said(filters=asked)).remote_source.filter)
    assert found == (None if kept is None else {symbol(key): each for key, each in kept.items()})


def test_a_filter_that_comes_back_filters(client: Any) -> None:
    """AMQP-18."""
    queue = f"orders.{secrets.token_hex(4)}"
    sender = client.create_sender(queue)
    for kind in "ba":
        sender.send(Message(body=kind, properties={"kind": kind}))
    receiver = client.create_receiver(queue, credit=2, options=[Said(filters={"s": SELECTOR, "x": UNKNOWN})])
    assert receiver.receive(timeout=TIMEOUT_S).body == "a"
    receiver.accept()


@pytest.mark.parametrize(
    ("address", "asked", "kept"),
    [
        ("orders", ("queue", "shared", "priority", "JBM-ALL"), {"queue"}),
        ("orders", ("JBM-UNITS",), {"queue", "JBM-UNITS"}),
        ("prices", ("topic", "global", "com.example:ring"), {"topic"}),
        ("prices", ("topic", "shared", "global"), {"topic", "shared", "global"}),
    ],
)
def test_only_capabilities_that_are_in_force_come_back(
    client: Any, address: str, asked: tuple[str, ...], kept: set[str]
) -> None:
    """AMQP-18: any came back."""
    assert names(attached(client, address, Said(capabilities=asked)).remote_source.capabilities) == kept


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ((), ALL),
        (("amqp:accepted:list",), {"amqp:accepted:list"}),
        (("amqp:accepted:list", "x:list"), {"amqp:accepted:list"}),
    ],
)
def test_outcomes_are_those_that_may_be_said(client: Any, asked: tuple[str, ...], kept: set[str]) -> None:
    """AMQP-18."""
    assert names(attached(client, "orders", Said(outcomes=asked)).remote_source.outcomes) == kept


def test_durability_expiry_and_mode_are_what_becomes_of_it(client: Any) -> None:
    """AMQP-18: a receiver of a queue was told that its link lasts."""
    ends = (Terminus.NONDURABLE, Terminus.EXPIRE_WITH_LINK, 0)
    stays = (Terminus.DELIVERIES, Terminus.EXPIRE_NEVER, 0)

    def lasts_a_minute(link: Any) -> None:
        link.source.durability, link.source.timeout = Terminus.CONFIGURATION, 60
        link.source.distribution_mode = Terminus.DIST_MODE_MOVE

    assert conditions(attached(client, "orders", Said(also=durable))) == (*ends, Terminus.DIST_MODE_MOVE)
    assert conditions(attached(client, "orders", Said(also=lasts_a_minute))) == (*ends, Terminus.DIST_MODE_MOVE)
    assert conditions(attached(client, "topic://prices", Said())) == (*ends, Terminus.DIST_MODE_COPY)
    assert conditions(attached(client, "topic://prices", Said(also=durable))) == (*stays, Terminus.DIST_MODE_COPY)
    short = attached(client, "topic://prices", Said(also=lasts_a_minute))
    assert conditions(short) == (*stays, Terminus.DIST_MODE_COPY)


def test_a_browser_is_told_that_its_messages_are_settled_and_what_it_shows(client: Any) -> None:
    """AMQP-18."""

    def copies(link: Any) -> None:
        link.source.distribution_mode = Terminus.DIST_MODE_COPY

    said = Said(filters={"s": SELECTOR, "n": NO_LOCAL}, capabilities=("queue", "JBM-ALL", "JBM-UNITS"), also=copies)
    link = attached(client, "orders", said)
    source = link.remote_source
    assert link.remote_snd_settle_mode == ProtonLink.SND_SETTLED
    assert (source.distribution_mode, names(source.outcomes)) == (Terminus.DIST_MODE_COPY, set())
    assert names(source.capabilities) == {"queue", "JBM-ALL"}
    assert value(source.filter) == {symbol("s"): SELECTOR}


def test_settle_modes_are_those_that_are_kept(client: Any) -> None:
    """AMQP-18: `mixed` came back from a server that settles nothing before it sends it."""

    def mixed(link: Any) -> None:
        link.snd_settle_mode, link.rcv_settle_mode = ProtonLink.SND_MIXED, ProtonLink.RCV_SECOND

    link = attached(client, "orders", Said(also=mixed))
    assert (link.remote_snd_settle_mode, link.remote_rcv_settle_mode) == (
        ProtonLink.SND_UNSETTLED,
        ProtonLink.RCV_SECOND,
    )
    sender = client.create_sender("orders", name=secrets.token_hex(8), options=[Said(also=mixed)]).link
    assert (sender.remote_snd_settle_mode, sender.remote_rcv_settle_mode) == (
        ProtonLink.SND_MIXED,
        ProtonLink.RCV_FIRST,
    )


def test_a_sender_is_told_what_its_target_is(client: Any) -> None:
    """AMQP-18."""

    def lasts(link: Any) -> None:
        link.target.durability, link.target.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER

    said = Said(capabilities=("topic", "com.example:last-value"), also=lasts)
    link = client.create_sender("prices", name=secrets.token_hex(8), options=[said]).link
    target = link.remote_target
    assert (target.address, names(target.capabilities)) == ("prices", {"topic"})
    assert (target.durability, target.expiry_policy) == (Terminus.NONDURABLE, Terminus.EXPIRE_WITH_LINK)
    assert link.remote_max_message_size == 64 * 2**20


def test_a_dynamic_node_is_told_how_long_it_lives(client: Any) -> None:
    """AMQP-18, of AMQP-13: another lifetime came back as if it held."""

    def lives(link: Any) -> None:
        asked = {symbol("lifetime-policy"): Described(symbol("amqp:delete-on-no-messages:list"), [])}
        link.source.properties.put_object({**asked, symbol("supported-dist-modes"): symbol("copy")})

    source = attached(client, None, Said(capabilities=("temporary-topic",), also=lives), dynamic=True).remote_source
    assert source.dynamic
    assert names(source.capabilities) == {"temporary-topic"}
    assert value(source.properties) == {symbol("lifetime-policy"): Described(symbol("amqp:delete-on-close:list"), [])}


@pytest.mark.parametrize("is_browser", [False, True], ids=["receiver", "browser"])
def test_a_message_larger_than_a_receiver_takes_is_not_sent_and_stays(client: Any, is_browser: bool) -> None:
    """AMQP-18: it came all the same. It is neither lost nor counted, and another receiver gets it."""
    queue = f"large.{secrets.token_hex(4)}"
    sender = client.create_sender(queue)
    for body in ("small", "x" * 5_000):
        sender.send(Message(body=body))

    def limited(link: Any) -> None:
        link.max_message_size = 2_000
        if is_browser:
            link.source.distribution_mode = Terminus.DIST_MODE_COPY

    receiver = client.create_receiver(queue, credit=0, name=secrets.token_hex(8), options=[Said(also=limited)])
    receiver.flow(1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "small"
    if not is_browser:
        receiver.accept()
    receiver.flow(1)
    with pytest.raises(LinkDetached, match="message-size-exceeded"):
        receiver.receive(timeout=TIMEOUT_S)
    other = client.create_receiver(queue, credit=2, name=secrets.token_hex(8))
    found = [other.receive(timeout=TIMEOUT_S) for _ in range(2 if is_browser else 1)]
    assert [(len(each.body), each.delivery_count) for each in found] == [(5, 0), (5_000, 0)][not is_browser :]
    for _ in found:
        other.accept()


def test_a_message_that_is_too_large_is_not_told_as_given() -> None:
    """Of LOG-10: the events told of a hand-over, though nothing was sent to that client."""
    world = f"amqp{secrets.token_hex(4)}"
    config = SidecarConfig(address_settings={"#": AddressSettings(partitions=1, record_deliveries=True)})
    installation, settings = Installation(world, {}, None, config), ServerSettings([Listener(port=0)], drain_s=0.0)
    held = in_memory.use_world(world)
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        client: Any = BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)
        client.create_sender("large").send(Message(body="x" * 5_000))
        small = Said(also=lambda link: setattr(link, "max_message_size", 2_000))
        receiver = client.create_receiver("large", credit=0, name="small", options=[small])
        receiver.flow(1)
        with pytest.raises(LinkDetached, match="message-size-exceeded"):
            receiver.receive(timeout=TIMEOUT_S)
        other = client.create_receiver("large", credit=1, name="other")
        other.receive(timeout=TIMEOUT_S)
        other.accept()
        other.close()
        client.close()
    logs = held.cluster.topics["jbm.events"].logs
    values = [each.value() for log in logs for each in log.read(log.begin, 1 << 20, committed_only=True)[0]]
    runs = [run for value in values for run in decode_events(value or b"").deliveries]
    held.let_go()
    assert [(run.first, run.count, run.attempt) for run in runs] == [(0, 1, 1)]
