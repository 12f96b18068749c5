"""Two AMQP servers over one world in memory: each forwards to the other's receivers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from proton import Condition, Data, Delivery, Message, Terminus, symbol
from proton.reactor import LinkOption, Selector
from proton.utils import BlockingConnection, LinkDetached

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.amqp import feeds
from jbm_kafka.amqp.access import ANONYMOUS, Access, User
from jbm_kafka.amqp.across_sidecars import PREPARE
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.feeds import FORWARDED
from jbm_kafka.amqp.neighbours import Neighbours
from jbm_kafka.amqp.receiver_links import Receiver
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import ForwardingSettings, Listener, ServerSettings
from jbm_kafka.amqp_wire.names import BEHIND, SESSION, UNITS
from jbm_kafka.core.channel.branch import Branch, BranchState, branch_across
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.jms.connection import Connection
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from jbm_kafka.sidecar.branches import branches
from tests.amqp.blocking_transactions import BlockingTransaction, is_committed
from tests.support.waiting import wait_until

TIMEOUT_S = 20
EVERYTHING = {"send": ["#"], "receive": ["#"], "browse": ["#"]}
USERS = {
    ANONYMOUS: User(rights=EVERYTHING),  # type: ignore[arg-type]
    "sidecars": User(Verifier.of_password("secret"), {"forward": ["#"]}),
}


def begin(world: str, place: str, *, password: str = "secret", partitions: int = 4) -> Server:
    config = SidecarConfig(
        address_settings={
            "#": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ", partitions=partitions)
        }
    )
    port = free_port()
    said = ForwardingSettings(f"127.0.0.1:{port}", "sidecars", password)
    settings = ServerSettings([Listener(port=port)], access=Access(USERS), drain_s=0.0, forwarding=said)
    made = Server(settings, lambda: in_memory.connect(Installation(world, {}, place, config)))
    made.start()
    return made


@pytest.fixture
def world() -> str:
    return f"forward{secrets.token_hex(4)}"


@pytest.fixture
def servers(world: str) -> Iterator[list[Server]]:
    made = [begin(world, place) for place in ("a", "b")]
    met(made)
    yield made
    for each in made:
        each.stop()


def over_amqp(server: Server) -> Connection:
    """A connection of the API, over AMQP."""
    return ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}").create_connection()


def met(servers: list[Server]) -> None:
    for each in servers:
        neighbours = each.neighbours
        assert neighbours is not None
        reached = partial(_reaches, neighbours, len(servers) - 1)
        wait_until(reached, about="all are reached", timeout_s=TIMEOUT_S)


def _reaches(neighbours: Neighbours, count: int) -> bool:
    return len(neighbours._reached) == count


def connect(server: Server) -> Any:
    return BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)


@pytest.fixture
def one_partition(world: str) -> Iterator[list[Server]]:
    made = [begin(world, place, partitions=1) for place in ("a", "b")]
    met(made)
    yield made
    for each in made:
        each.stop()


def owner_and_other(servers: list[Server]) -> tuple[Server, Server, Any]:
    """The first has the one partition, and a receiver that selects nothing that is sent."""
    keeping = connect(servers[0])
    keeping.create_receiver("orders", credit=1, options=Selector("region = 'nowhere'"))
    return servers[0], servers[1], keeping


def send(client: Any, count: int, **properties: Any) -> None:
    sender = client.create_sender("orders")
    for number in range(count):
        sender.send(Message(body=number, durable=True, group_id=f"{properties}{number}", properties=properties))
    sender.close()


def accepted(receiver: Any, count: int) -> set[Any]:
    bodies = set()
    for _ in range(count):
        bodies.add(receiver.receive(timeout=TIMEOUT_S).body)
        receiver.accept()
    return bodies


def test_a_receiver_gets_what_another_sidecar_owns_whatever_that_ones_receivers_select(servers: list[Server]) -> None:
    """Of SEL-2: each selects otherwise, and gets all that it selects, out of all partitions."""
    one, other = map(connect, servers)
    eu = one.create_receiver("orders", credit=5, options=Selector("region = 'EU'"))
    us = other.create_receiver("orders", credit=5, options=Selector("region = 'US'"))
    send(one, 40, region="EU")
    send(other, 40, region="US")
    assert accepted(eu, 40) == set(range(40))
    assert accepted(us, 40) == set(range(40))


def test_a_receiver_where_no_partition_is_gets_everything_in_unit_order(one_partition: list[Server]) -> None:
    """UNIT-1, of SEL-2: more sidecars than partitions; of a unit one comes at a time."""
    owner, other, keeping = owner_and_other(one_partition)
    client = connect(other)
    receiver = client.create_receiver("orders", credit=10)
    sender = connect(owner).create_sender("orders")
    for number in range(30):
        sender.send(Message(body=number, durable=True, group_id="joe"))
    assert other.provider.sidecar.sources._group_workers.all()[0].data.channels == {}  # type: ignore[attr-defined]
    for number in range(30):
        assert receiver.receive(timeout=TIMEOUT_S).body == number
        assert not receiver.fetcher.has_message
        receiver.accept()
    keeping.close()


def test_a_failing_message_is_counted_where_its_partition_is_and_is_one_dead_letter(
    one_partition: list[Server],
) -> None:
    """REDELIVER-5, of SEL-2: released uncounted, failed, failed again; what is behind it waits for it."""
    owner, other, keeping = owner_and_other(one_partition)
    client = connect(other)
    sender = connect(owner).create_sender("orders")
    for body in ("poison", "well"):
        sender.send(Message(body=body, durable=True, group_id="joe"))
    receiver = client.create_receiver("orders", credit=1)
    for count, delivered in ((0, False), (0, True), (1, True)):
        message = receiver.receive(timeout=TIMEOUT_S)
        assert (message.body, message.delivery_count) == ("poison", count)
        receiver.fetcher.unsettled[0].local.failed = delivered
        receiver.release(delivered=delivered)
    assert receiver.receive(timeout=TIMEOUT_S).body == "well"
    receiver.accept()
    letters = connect(other).create_receiver("DLQ", credit=5)
    assert letters.receive(timeout=TIMEOUT_S).body == "poison"
    letters.accept()
    letters.link.drain(1)
    letters.connection.wait(lambda: not letters.link.credit)
    assert not letters.fetcher.has_message
    keeping.close()


@pytest.mark.thorough
def test_what_is_undeliverable_at_a_link_of_another_sidecar_goes_to_another_link_there(
    one_partition: list[Server],
) -> None:
    """AMQP-16: the owner has a link for each of theirs."""
    owner, other, keeping = owner_and_other(one_partition)
    client = connect(other)
    sender = connect(owner).create_sender("orders")
    for body in ("joe 1", "joe 2", "ann 1"):
        sender.send(Message(body=body, durable=True, group_id=body[:3]))
    refusing = client.create_receiver("orders", credit=1)
    assert refusing.receive(timeout=TIMEOUT_S).body == "joe 1"
    refusing.fetcher.unsettled[0].local.undeliverable = True
    refusing.release(delivered=True)
    assert refusing.receive(timeout=TIMEOUT_S).body == "ann 1"
    refusing.accept()
    refusing.link.drain(1)
    client.wait(lambda: not refusing.link.credit)
    assert not refusing.fetcher.has_message
    another = client.create_receiver("orders", credit=1, name="another")
    for body in ("joe 1", "joe 2"):
        assert another.receive(timeout=TIMEOUT_S).body == body
        another.accept()
    keeping.close()


@pytest.mark.thorough
def test_what_is_confirmed_as_accepted_is_durable_at_its_owner(one_partition: list[Server]) -> None:
    """AMQP-8, of SEL-2: the client that does not settle hears so from there."""
    owner, other, keeping = owner_and_other(one_partition)
    client = connect(other)
    send(client, 1)
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == 0
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.update(Delivery.ACCEPTED)
    client.wait(lambda: delivery.settled)
    assert delivery.remote_state == Delivery.ACCEPTED
    receiver.close()
    again = connect(owner).create_receiver("orders", name="again", credit=0)
    again.link.drain(1)
    again.connection.wait(lambda: not again.link.credit)
    assert not again.fetcher.has_message
    keeping.close()


@pytest.mark.thorough
def test_a_drain_looks_at_the_other_sidecars_too(one_partition: list[Server]) -> None:
    """Of SEL-2: a receive without waiting finds what is there."""
    owner, other, keeping = owner_and_other(one_partition)
    send(connect(owner), 1)
    receiver = connect(other).create_receiver("orders", credit=0)
    receiver.link.drain(2)
    receiver.connection.wait(lambda: receiver.fetcher.has_message or not receiver.link.credit)
    assert receiver.receive(timeout=TIMEOUT_S).body == 0
    keeping.close()


def is_draining(server: Server) -> bool:
    """A client's receiver, not another sidecar's."""
    served = [each for wire in list(server.wires) if wire.peer is not None for each in wire.peer._served.values()]
    return any(type(each) is Receiver and each._is_draining for each in served)


@pytest.mark.thorough
def test_a_drain_waits_for_partitions_that_are_on_their_way(servers: list[Server]) -> None:
    """Of SEL-2: while they moved nobody had them, and the queue was empty, it was said."""
    one, other = map(connect, servers)
    holding = one.create_receiver("orders", credit=0)
    units = [next(unit for unit in "abcdefghijkl" if partition_for(unit.encode(), 4) == each) for each in range(4)]
    sender = one.create_sender("orders")
    for number in range(2):
        for unit in units:
            sender.send(Message(body=f"{unit}{number}", durable=True, group_id=unit))
    holding.link.flow(4)
    one.wait(lambda: not holding.link.credit)  # its partitions stay while it has these
    receiver = other.create_receiver("orders", credit=0)
    (worker,) = servers[0].provider.sidecar.sources._group_workers.all()  # type: ignore[attr-defined]
    wait_until(lambda: worker.is_passing_on, about="partitions are asked for", timeout_s=TIMEOUT_S)
    receiver.link.drain(4)
    other.wait(lambda: is_draining(servers[1]))
    for _ in range(4):
        assert holding.fetcher.pop().body[1] == "0"
        holding.accept()
    one.create_sender("others")  # said what it accepts
    other.wait(lambda: receiver.fetcher.has_message or not receiver.link.credit)
    assert receiver.fetcher.has_message, "it was said that nothing is there"


@pytest.mark.thorough
def test_a_slow_client_has_no_more_than_its_credit(servers: list[Server]) -> None:
    """Of SEL-2: what it was not sent goes to others, though it has a link to each sidecar."""
    slow, quick = map(connect, servers)
    first = slow.create_receiver("orders", credit=0)
    first.link.flow(3)  # by itself it would ask for more
    send(slow, 40)
    slow.wait(lambda: not first.link.credit)
    others = quick.create_receiver("orders", credit=10)
    assert len(accepted(others, 37)) == 37


def test_what_a_stopped_sidecar_forwarded_comes_again_and_a_late_outcome_is_dropped(world: str) -> None:
    """AMQP-9, of SEL-2: marked as redelivered is what the client had; its word on it is void."""
    owner, other = [begin(world, place, partitions=1) for place in ("a", "b")]
    try:
        met([owner, other])
        owner_and_other([owner, other])
        client = connect(other)
        send(client, 1)
        receiver = client.create_receiver("orders", credit=2)
        assert receiver.receive(timeout=TIMEOUT_S).body == 0
        late = receiver.fetcher.unsettled.popleft()
        owner.stop()
        assert receiver.receive(timeout=TIMEOUT_S).body == 0
        late.update(Delivery.ACCEPTED)
        client.wait(lambda: late.settled)
        assert late.remote_state == Delivery.RELEASED
        receiver.accept()
    finally:
        owner.stop()
        other.stop()


@pytest.mark.thorough
def test_a_shared_subscription_is_forwarded_and_ends_for_nobody_with_a_link_between_sidecars(
    one_partition: list[Server],
) -> None:
    """Of SEL-2: both sidecars have a receiver of it, and one of them the partition."""
    first, second = map(connect, one_partition)

    class Shared(LinkOption):
        def apply(self, link: Any) -> None:
            link.source.durability, link.source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER
            link.source.capabilities.put_array(False, Data.SYMBOL)
            link.source.capabilities.enter()
            for each in ("topic", "shared", "global"):
                link.source.capabilities.put_symbol(symbol(each))
            link.source.capabilities.exit()

    idle = first.create_receiver("prices", name="audit|1", credit=0, options=Shared())
    receiver = second.create_receiver("prices", name="audit|2", credit=3, options=Shared())
    sender = first.create_sender("topic://prices")
    for number in range(6):
        sender.send(Message(body=number, durable=True))
    assert accepted(receiver, 6) == set(range(6))
    second.close()
    sender.send(Message(body=6, durable=True))
    idle.flow(1)
    assert idle.receive(timeout=TIMEOUT_S).body == 6
    idle.accept()


@pytest.mark.thorough
def test_only_who_has_the_right_may_forward(servers: list[Server]) -> None:
    """AMQP-12, of SEL-2: a client that says it is a sidecar is refused, and so is one with a wrong password."""

    class Property(LinkOption):
        def apply(self, link: Any) -> None:
            link.properties = {FORWARDED: ""}

    with pytest.raises(LinkDetached, match="unauthorized-access"):
        connect(servers[0]).create_receiver("orders", options=Property())


@pytest.mark.thorough
def test_a_sidecar_with_another_password_is_not_forwarded_to(world: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of SEL-2: the log says so, once."""
    both = [begin(world, "a"), begin(world, "b", password="wrong")]
    try:
        wait_until(lambda: "or the password is wrong" in caplog.text, about="said", timeout_s=TIMEOUT_S)
        assert not any(each.neighbours._reached for each in both[1:])  # type: ignore[union-attr]
    finally:
        for each in both:
            each.stop()


def left_in(client: Any, address: str = "orders") -> list[Any]:
    """What a receiver that drains gets."""
    receiver = client.create_receiver(address, name=secrets.token_hex(4), credit=0)
    receiver.link.drain(100)
    client.wait(lambda: not receiver.link.credit)
    found = []
    while receiver.fetcher.has_message:
        found.append(receiver.receive(timeout=TIMEOUT_S).body)
        receiver.accept()
    receiver.close()
    return found


@pytest.mark.parametrize("is_late", [False, True], ids=["", "begun behind its receiver"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_transaction_with_messages_of_several_sidecars_is_committed_or_rolled_back_whole(
    servers: list[Server], fails: bool, is_late: bool
) -> None:
    """SEL-2, UNIT-3: several of a unit of each, and what it sends; rolled back all come again, counted."""
    _, other, keeping = owner_and_other(servers)
    client, beside = connect(other), connect(servers[0])
    early = client.create_receiver("orders", credit=20) if is_late else None
    transaction = BlockingTransaction(client)
    sender = client.create_sender("results")
    receiver = early or client.create_receiver("orders", credit=20)
    wait_until(lambda: [len(partitions_at(each)) for each in servers] == [2, 2], about="shared", timeout_s=TIMEOUT_S)
    units = [a_unit_at(each) for each in servers]
    sending = beside.create_sender("orders")
    for number in range(4):
        for unit in units:
            sending.send(Message(body=f"{unit}{number}", durable=True, group_id=unit))

    seen = dict.fromkeys(units, 0)

    def in_order(count: int) -> dict[str, int]:
        for _ in range(count):
            message = receiver.receive(timeout=TIMEOUT_S)
            unit, number = message.body
            assert int(number) == seen[unit], seen
            assert bool(message.delivery_count) == (int(number) < failed[unit])
            seen[unit] += 1
            transaction.settle(receiver, 0x24, [])
        return dict(seen)

    failed = dict.fromkeys(units, 0)
    rolled_back = in_order(6)
    transaction.send(sender, Message(body="done", durable=True))
    assert is_committed(transaction.discharge(fails=fails))
    transaction = transaction.next()
    if fails:
        failed, seen = rolled_back, dict.fromkeys(units, 0)
        while receiver.fetcher.has_message:  # as JMS clients do with what they have not looked at
            receiver.fetcher.pop()
            receiver.release(delivered=False)
    in_order(2)
    assert is_committed(transaction.discharge())
    if not fails:  # what was there at the commit behind what was committed came once
        receiver.link.drain(0)
        client.wait(lambda: not receiver.link.credit)
        assert not receiver.fetcher.has_message
    receiver.close()
    assert left_in(beside, "results") == ([] if fails else ["done"])
    rest = beside.create_receiver("orders", name="rest", credit=1)
    assert len(accepted(rest, 6 if fails else 0)) == (6 if fails else 0)
    rest.close()
    assert left_in(beside) == []
    keeping.close()


class InTransaction:
    """A client of the one sidecar that has one message of the other's acknowledged, and one behind it; and a send."""

    def __init__(self, owner: Server, other: Server) -> None:
        self.client = connect(other)
        self.transaction = BlockingTransaction(self.client)
        self.receiver = self.client.create_receiver("orders", credit=2)
        sender = connect(owner).create_sender("orders")
        for number in range(3):
            sender.send(Message(body=number, durable=True, group_id="joe"))
        assert self.receiver.receive(timeout=TIMEOUT_S).body == 0
        self.transaction.settle(self.receiver, 0x24, [])
        self.transaction.send(self.client.create_sender("results"), Message(body="done", durable=True))
        assert self.receiver.receive(timeout=TIMEOUT_S).body == 1
        self.owner, self.other = owner, other
        (self.peer,) = (wire.peer for wire in other.wires if wire.peer is not None and wire.peer.transactions)

    def prepared(self) -> tuple[Branch, bytes]:
        """Prepared by the owner, which has it for the branch; its sidecar has not decided yet, as at the commit."""
        decider = self.other.provider.decider  # type: ignore[attr-defined]

        async def ask() -> bytes:
            ((owner, _),) = self.peer.transactions[self.transaction.id]._across._messages.items()
            return bytes(await owner.ask(PREPARE, [self.transaction.id, 0, decider], lambda: None))

        record = asyncio.run_coroutine_threadsafe(ask(), self.other.loop).result(TIMEOUT_S)
        # It answers once the checkpoint is durable, and its channel learns of that right after.
        wait_until(lambda: has_prepared(self.owner), about="it is the branch's", timeout_s=TIMEOUT_S)
        return branch_across(self.transaction.id, 0, decider), record


def test_a_transaction_of_a_temporary_queue_and_another_sidecar_is_committed(one_partition: list[Server]) -> None:
    """SEL-2, ACK-7: of the temporary one nothing is prepared."""
    owner, other, keeping = owner_and_other(one_partition)
    made = InTransaction(owner, other)
    replies = made.client.create_receiver(None, dynamic=True, credit=1)
    sender = made.client.create_sender(replies.remote_source.address)
    sender.send(Message(body="reply"))
    assert replies.receive(timeout=TIMEOUT_S).body == "reply"
    made.transaction.settle(replies, 0x24, [])
    assert is_committed(made.transaction.discharge())
    sender.send(Message(body="another"))
    replies.flow(1)
    assert replies.receive(timeout=TIMEOUT_S).body == "another"
    made.client.close()
    assert [body for body, _ in comes_again(owner)] == [1, 2]
    keeping.close()


def has_prepared(server: Server) -> bool:
    workers = server.provider.sidecar.sources._group_workers.all()  # type: ignore[attr-defined]
    return any(channel.state.durable.prepared for worker in workers for channel in worker.data.channels.values())


def comes_again(owner: Server) -> list[tuple[Any, bool]]:
    """All that is left, and whether it was failed before."""
    receiver = connect(owner).create_receiver("orders", name=secrets.token_hex(4), credit=1)
    found: list[tuple[Any, bool]] = []
    while not found or found[-1][0] != 2:
        message = receiver.receive(timeout=TIMEOUT_S)
        found.append((message.body, bool(message.delivery_count)))
        receiver.accept()
    receiver.close()
    return found


def test_a_transaction_of_a_sidecar_that_died_before_it_decided_is_rolled_back_by_the_owner(
    one_partition: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEL-2, UNIT-1: in time; what the client had behind it comes behind it. Who decides later hears so."""
    owner, other, keeping = owner_and_other(one_partition)
    made = InTransaction(owner, other)
    branch, record = made.prepared()
    monkeypatch.setattr(branches, "LATE_MS", 0)
    wait_until(lambda: not has_prepared(owner), about="it is rolled back", timeout_s=TIMEOUT_S)
    made.client.close()
    found = comes_again(owner)
    assert [body for body, _ in found] == [0, 1, 2]
    assert found[:2] == [(0, True), (1, True)], "what the client had behind it is marked"
    decider: Any = other.provider
    decider.note_prepared(branch.branch, record)
    assert decider.decide_across([branch], BranchState.COMMITTED, []) is BranchState.ROLLED_BACK
    assert left_in(connect(owner), "results") == []
    keeping.close()


def test_a_decision_of_a_sidecar_that_died_then_is_read_by_the_owner(one_partition: list[Server]) -> None:
    """SEL-2: nobody told it."""
    owner, other, keeping = owner_and_other(one_partition)
    branch, record = InTransaction(owner, other).prepared()
    decider: Any = other.provider
    decider.note_prepared(branch.branch, record)
    assert decider.decide_across([branch], BranchState.COMMITTED, []) is BranchState.COMMITTED
    other.stop()
    assert [body for body, _ in comes_again(owner)] == [1, 2]
    keeping.close()


def test_a_commit_whose_owner_has_gone_is_rolled_back(world: str) -> None:
    """SEL-2, ACK-7: nothing is sent, and what was received comes again."""
    owner, other = [begin(world, place, partitions=1) for place in ("a", "b")]
    try:
        met([owner, other])
        owner_and_other([owner, other])
        made = InTransaction(owner, other)
        owner.stop()
        assert not is_committed(made.transaction.discharge())
        made.client.close()
        assert [body for body, _ in comes_again(other)] == [0, 1, 2]
        assert left_in(connect(other), "results") == []
    finally:
        owner.stop()
        other.stop()


@pytest.mark.thorough
def test_a_link_between_sidecars_keeps_nobody_in_a_group(servers: list[Server]) -> None:
    """Of SEL-2: partitions are where clients receive, and not where links only look."""

    def serves(server: Server) -> bool:
        sources = server.provider.sidecar.sources  # type: ignore[attr-defined]
        return any(each.is_running for each in sources._group_workers.all())

    one, other = map(connect, servers)
    staying = one.create_receiver("orders", credit=5)
    send(one, 1)
    assert accepted(staying, 1) == {0}
    assert not serves(servers[1])
    other.create_receiver("orders", credit=0).close()
    wait_until(lambda: not serves(servers[1]), about="it has left", timeout_s=TIMEOUT_S)
    send(one, 8)
    assert accepted(staying, 8) == set(range(8))


def test_a_session_of_the_api_gets_several_of_a_unit_from_another_sidecar(one_partition: list[Server]) -> None:
    """UNIT-1, UNIT-3, of SEL-2: what it recovers comes again, in order, counted, before what follows."""
    _, other, keeping = owner_and_other(one_partition)
    with over_amqp(other) as connection:
        producer = connection.create_session().create_producer(Queue("orders"))
        for number in range(8):
            producer.send(str(number), unit_of_order="joe")
        session = connection.create_session(AcknowledgeMode.CLIENT)
        consumer = session.create_consumer(Queue("orders"))

        def received(count: int) -> list[tuple[Any, int]]:
            found = [consumer.receive(TIMEOUT_S) for _ in range(count)]
            return [(message and message.body, message.delivery_count if message else 0) for message in found]

        assert received(3) == [(str(number), 1) for number in range(3)]
        session.recover()
        assert received(3) == [(str(number), 2) for number in range(3)]
        session.acknowledge()
        assert received(5) == [(str(number), 1) for number in range(3, 8)]
        session.acknowledge()
    keeping.close()


class Together(LinkOption):
    """A receiver that has several of a unit."""

    def __init__(self, session: str) -> None:
        self._session = session

    def apply(self, link: Any) -> None:
        link.source.capabilities.put_array(False, Data.SYMBOL)
        link.source.capabilities.enter()
        link.source.capabilities.put_symbol(symbol(UNITS))
        link.source.capabilities.exit()
        link.properties = {symbol(SESSION): self._session}


def partitions_at(server: Server) -> set[int]:
    workers = server.provider.sidecar.sources._group_workers.all()  # type: ignore[attr-defined]
    return {partition for worker in workers for partition in worker.data.channels}


def a_unit_at(server: Server) -> str:
    return next(unit for unit in "abcdefghijkl" if partition_for(unit.encode(), 4) in partitions_at(server))


def waiting_at(server: Server) -> int:
    assert server.neighbours is not None
    return sum(len(each.waiting) for each in list(server.neighbours._receivers))


class HereAndThere:
    """Receivers of one session at the second of two sidecars; a unit that this one owns, and one of the first."""

    def __init__(self, servers: list[Server], *names: str) -> None:
        owner, self.other, self.keeping = owner_and_other(servers)
        self.client = connect(self.other)
        self.receivers = [
            self.client.create_receiver("orders", name=name, credit=0, options=Together("one")) for name in names
        ]
        wait_until(
            lambda: [len(partitions_at(each)) for each in servers] == [2, 2], about="shared", timeout_s=TIMEOUT_S
        )
        self.here, self.there = a_unit_at(self.other), a_unit_at(owner)
        self._sender = connect(self.other).create_sender("orders")

    def send(self, unit: str, *numbers: int) -> None:
        for number in numbers:
            self._sender.send(Message(body=f"{unit}{number}", durable=True, group_id=unit))

    def close(self) -> None:
        self.keeping.close()


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_waits_behind_a_failed_message_does_not_come_before_it(
    servers: list[Server], is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-1, UNIT-3, of SEL-2: it waits for the client's credit, or goes back for want of it, in portions."""
    monkeypatch.setattr(feeds, "KEEP_S", 60.0 if is_kept else feeds.KEEP_S)
    made = HereAndThere(servers, "one")
    here, there, (receiver,) = made.here, made.there, made.receivers
    made.send(there, 0)
    receiver.link.flow(1)
    assert receiver.receive(timeout=TIMEOUT_S).body == f"{there}0"
    receiver.link.flow(2)
    made.send(here, 0, 1)
    made.client.wait(lambda: not receiver.link.credit)
    made.send(there, 1, 2)
    wait_until(lambda: waiting_at(made.other) == 2, about="they wait", timeout_s=TIMEOUT_S)
    if is_kept:
        failed = receiver.fetcher.unsettled.popleft()
        failed.local.failed = True
        failed.update(Delivery.MODIFIED)
        made.client.wait(lambda: failed.settled)
    else:
        wait_until(lambda: waiting_at(made.other) == 0, about="they are for others", timeout_s=TIMEOUT_S)
        receiver.accept()
    assert [receiver.fetcher.pop().body for _ in range(2)] == [f"{here}0", f"{here}1"]
    receiver.accept()
    receiver.accept()
    receiver.link.flow(10)
    numbers = range(3) if is_kept else range(1, 3)
    for number in numbers:
        message = receiver.receive(timeout=TIMEOUT_S)
        assert (message.body, message.delivery_count) == (f"{there}{number}", int(number == 0))
        receiver.accept()
    made.close()


def test_a_late_word_on_what_its_owner_has_again_takes_nothing_back(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-1, of SEL-2: what waited was taken back with it, and what came behind that was sent."""
    monkeypatch.setattr(feeds, "KEEP_S", 60.0)
    made = HereAndThere(servers, "one")
    here, there, (receiver,) = made.here, made.there, made.receivers
    made.send(there, 0, 1)
    receiver.link.flow(2)
    assert [receiver.receive(timeout=TIMEOUT_S).body for _ in range(2)] == [f"{there}0", f"{there}1"]
    failed, behind = receiver.fetcher.unsettled
    receiver.fetcher.unsettled.clear()
    receiver.link.flow(2)  # its two are from here, and what comes again from there waits
    made.send(here, 0, 1)
    made.client.wait(lambda: not receiver.link.credit)
    failed.local.failed = True
    failed.update(Delivery.MODIFIED)
    made.client.wait(lambda: failed.settled)
    wait_until(lambda: waiting_at(made.other) == 2, about="both wait again", timeout_s=TIMEOUT_S)
    behind.update(Delivery.RELEASED)
    made.client.wait(lambda: behind.settled)
    assert waiting_at(made.other) == 2
    assert [receiver.fetcher.pop().body for _ in range(2)] == [f"{here}0", f"{here}1"]
    receiver.link.flow(2)
    assert [receiver.receive(timeout=TIMEOUT_S).body for _ in range(2)] == [f"{there}0", f"{there}1"]
    made.close()


@pytest.mark.parametrize("is_forwarded", [False, True])
def test_the_first_outcome_of_a_unit_says_what_becomes_of_the_rest(servers: list[Server], is_forwarded: bool) -> None:
    """UNIT-3, REDELIVER-1, of SEL-2: nothing else is said, as where the other outcomes come in later reads."""
    made = HereAndThere(servers, "one")
    (receiver,), unit = made.receivers, made.there if is_forwarded else made.here
    made.send(unit, *range(5))
    for counts in ([0, 0, 0, 0, 0], [1, 1, 1, 1, 0]):
        receiver.link.flow(5)
        got = [receiver.receive(timeout=TIMEOUT_S) for _ in range(5)]
        assert [(each.body, each.delivery_count) for each in got] == [(f"{unit}{n}", c) for n, c in enumerate(counts)]
        failed = receiver.fetcher.unsettled[0]
        failed.local.failed, failed.local.annotations = True, {symbol(BEHIND): [1, 2]}
        failed.update(Delivery.MODIFIED)
        made.client.wait(lambda: failed.settled)  # noqa: B023
        while receiver.fetcher.unsettled:
            receiver.fetcher.unsettled.pop().settle()
    receiver.link.flow(3)  # the first two are out of attempts, which only counted ones are
    left = [receiver.receive(timeout=TIMEOUT_S) for _ in range(3)]
    assert [(each.body, each.delivery_count) for each in left] == [(f"{unit}2", 1), (f"{unit}3", 1), (f"{unit}4", 0)]
    rejected = receiver.fetcher.unsettled[0]
    rejected.local.condition = Condition("app:no", "no", {symbol(BEHIND): [1, 0]})
    rejected.update(Delivery.REJECTED)
    made.client.wait(lambda: rejected.settled)
    while receiver.fetcher.unsettled:
        receiver.fetcher.unsettled.pop().settle()
    letters = connect(made.other).create_receiver("DLQ", credit=10)
    assert accepted(letters, 4) == {f"{unit}{n}" for n in range(4)}
    made.close()


def test_what_cannot_be_read_of_a_first_outcome_is_nothing(one_partition: list[Server]) -> None:
    """Of REDELIVER-1: another peer's words; the rest of the unit comes as what was sent and not seen."""
    client = connect(one_partition[0])
    receiver = client.create_receiver("orders", credit=0, options=Together("one"))
    sender = client.create_sender("orders")
    for unit, said in enumerate(["2", [2], [-1, "x"], {"alike": 2}]):
        for number in range(2):
            sender.send(Message(body=number, durable=True, group_id=str(unit)))
        receiver.link.flow(2)
        assert [receiver.receive(timeout=TIMEOUT_S).body for _ in range(2)] == [0, 1]
        failed, behind = receiver.fetcher.unsettled
        failed.local.failed, failed.local.annotations = True, {symbol(BEHIND): said}
        failed.update(Delivery.MODIFIED)
        client.wait(lambda: failed.settled)  # noqa: B023
        behind.settle()
        receiver.fetcher.unsettled.clear()
        receiver.link.flow(2)
        got = [receiver.receive(timeout=TIMEOUT_S) for _ in range(2)]
        assert [(each.body, each.delivery_count) for each in got] == [(0, 1), (1, 0)]
        receiver.accept()
        receiver.accept()


def test_what_waits_for_one_receiver_of_a_session_goes_back_when_another_one_asks(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNIT-3, of SEL-2: what is behind it in its unit came to the other one before it."""
    monkeypatch.setattr(feeds, "KEEP_S", 60.0)
    made = HereAndThere(servers, "first", "second")
    here, there, (first, second) = made.here, made.there, made.receivers
    first.link.flow(1)
    made.send(there, 0)
    assert first.receive(timeout=TIMEOUT_S).body == f"{there}0"
    first.link.flow(1)  # it has this from here, and what comes from there waits
    made.send(here, 0)
    made.client.wait(lambda: not first.link.credit)
    made.send(there, 1, 2)
    wait_until(lambda: waiting_at(made.other) == 1, about="it waits", timeout_s=TIMEOUT_S)
    second.link.flow(2)
    assert [second.receive(timeout=TIMEOUT_S).body for _ in range(2)] == [f"{there}1", f"{there}2"]
    made.close()


@pytest.mark.thorough
def test_receivers_of_one_session_share_units_also_of_another_sidecar(one_partition: list[Server]) -> None:
    """UNIT-3, of SEL-2: whichever the application receives from, a unit comes in order."""
    _, other, keeping = owner_and_other(one_partition)
    with over_amqp(other) as connection:
        producer = connection.create_session().create_producer(Queue("orders"))
        for number in range(20):
            producer.send(str(number), unit_of_order="joe")
        session = connection.create_session(AcknowledgeMode.CLIENT)
        consumers = [session.create_consumer(Queue("orders")) for _ in range(2)]
        for number in range(20):
            message = consumers[number % 2].receive(TIMEOUT_S)
            assert message is not None
            assert message.body == str(number)
            if number % 6 == 5:
                session.acknowledge()
        session.acknowledge()
    keeping.close()


@pytest.mark.thorough
def test_the_api_at_every_sidecar_keeps_units_in_order_whatever_fails(servers: list[Server]) -> None:
    """UNIT-1, REDELIVER-5, of SEL-2: each fails now and then, in portions of many units; the delay is its own word."""
    queue, units, each = Queue("orders"), 6, 15
    done: dict[str, int] = dict.fromkeys(map(str, range(units)), -1)
    with over_amqp(servers[0]) as first, over_amqp(servers[1]) as second:
        producer = first.create_session().create_producer(queue)
        for number in range(each):
            for unit in done:
                producer.send(f"{unit} {number}", unit_of_order=unit)
        sessions = [made.create_session(AcknowledgeMode.CLIENT) for made in (first, second)]
        consumers = [session.create_consumer(queue) for session in sessions]
        left, turn = units * each, 0
        failed: set[str] = set()
        while left:
            turn += 1
            session, consumer = sessions[turn % 2], consumers[turn % 2]
            had: list[str] = []
            while len(had) < 7 and (message := consumer.receive(0.05)) is not None:
                had.append(str(message.body))
            fails = turn % 3 == 0 and failed.isdisjoint(had)
            seen = dict(done)
            for text in had:
                unit, at = text.split()
                assert int(at) == seen[unit] + 1, (text, done)
                seen[unit] += 1
            if fails:
                failed |= set(had)
                session.recover()
            else:
                session.acknowledge()
                done, left = seen, left - len(had)


@pytest.mark.parametrize("fails", [False, True])
def test_a_transacted_session_of_the_api_has_messages_of_every_sidecar(servers: list[Server], fails: bool) -> None:
    """SEL-2, ACK-7, UNIT-3: what it sends is there once, as what it received is gone; by halves of it rolled back."""
    queue, results, units, each = Queue("orders"), Queue("results"), "abcdef", 6
    with over_amqp(servers[0]) as first, over_amqp(servers[1]) as second:
        producer = first.create_session().create_producer(queue)
        sessions = [made.create_session(AcknowledgeMode.TRANSACTED) for made in (first, second)]
        consumers = [session.create_consumer(queue) for session in sessions]
        producers = [session.create_producer(results) for session in sessions]
        for number in range(each):
            for unit in units:
                producer.send(f"{unit}{number}", unit_of_order=unit)
        done = dict.fromkeys(units, 0)
        left, turn, failed = len(units) * each, 0, set[str]()
        while left:
            turn += 1
            had: list[str] = []
            while len(had) < 5 and (message := consumers[turn % 2].receive(0.1)) is not None:
                had.append(str(message.body))
                producers[turn % 2].send(str(message.body), unit_of_order=str(message.body)[0])
            seen = dict(done)
            for text in had:
                assert int(text[1]) == seen[text[0]], (had, done)
                seen[text[0]] += 1
            if fails and turn % 3 == 0 and failed.isdisjoint(had):
                failed |= set(had)
                sessions[turn % 2].rollback()
            else:
                sessions[turn % 2].commit()
                done, left = seen, left - len(had)
        consumer = first.create_session().create_consumer(results)
        found = [consumer.receive(TIMEOUT_S) for _ in range(len(units) * each)]
        assert sorted(str(message and message.body) for message in found) == [
            f"{unit}{number}" for unit in units for number in range(each)
        ]
        assert consumer.receive_nowait() is None
