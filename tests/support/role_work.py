"""What programs of each role do on a cluster, shortly, as a user who may have too few rights."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    Connection,
    ConnectionFactory,
    Destination,
    Message,
    MessageConsumer,
    Queue,
    Topic,
    Worker,
    XAConnectionFactory,
)
from jbm_kafka.admin import Admin, Rule
from jbm_kafka.bridge import Bridge, BridgeEnd
from jbm_kafka.bridge.recorded_ids import recorded_ids
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import CommittedOffset, Outgoing
from jbm_kafka.ports.access_rules import AccessRule, Operation
from jbm_kafka.registry.access_rights import NamespaceTopics, Role
from jbm_kafka.registry.topic_configs import CHANGELOG_CONFIG, DEFAULT_MAX_MESSAGE_BYTES
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

PATIENCE_S = 60.0
STEP_S = 0.2


class Told(Exception):
    """Somebody named the right that is missing: there is nothing to wait for any more."""


class Watch(logging.Handler):
    """Hears what is said while one right is missing; while none is, any refusal."""

    def __init__(self, missing: AccessRule | None) -> None:
        super().__init__(logging.INFO)
        self.missing = missing
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the log."""
        self.lines.append(record.getMessage())

    def hear(self, error: BaseException) -> None:
        """What a caller or a listener was given."""
        self.lines.append(str(error))

    @property
    def told(self) -> list[str]:
        """The lines that name it: the resource, and the operation or Kafka's name for the refusal."""
        return [line for line in list(self.lines) if self._names(line)]

    def _names(self, line: str) -> bool:
        if self.missing is None:
            return "AUTHORIZATION_FAILED" in line or "access rule" in line
        (operation,) = self.missing.operations
        is_named = self.missing.name in line or self.missing.kind.value == "cluster" or self.missing.name == "*"
        says = f"{operation.value} on {self.missing.kind.value.replace('-', ' ')}", f"{operation.value}"
        return is_named and ("AUTHORIZATION_FAILED" in line or any(word in line for word in says))

    def check(self) -> None:
        """Raises Told when it was named."""
        if self.missing is not None and self.told:
            raise Told

    def until(self, is_so: Callable[[], object], about: str) -> None:
        """Return when it is so."""

        def looked() -> bool:
            self.check()
            return bool(is_so())

        wait_until(looked, about=f"{about}; said was: {self.lines[-5:]}", timeout_s=PATIENCE_S)

    def receive(self, consumer: MessageConsumer) -> Message:
        """The next message."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            message = consumer.receive(timeout=STEP_S)
            if message is not None:
                return message
            self.check()
        raise AssertionError(f"nothing came; said was: {self.lines[-5:]}")


@dataclass(frozen=True)
class Shop:
    """One installation, and a user of it."""

    role: Role
    namespace: str
    open: str
    """Where everybody may do everything."""
    address: str
    """Where the user comes in."""
    kafka: Mapping[str, str]
    folder: Path
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))

    @property
    def orders(self) -> Queue:
        return Queue(f"{self.role.value}.orders")

    @property
    def prices(self) -> Topic:
        return Topic(f"{self.role.value}.prices")

    @property
    def letters(self) -> list[Queue]:
        return [Queue(f"{self.role.value}.DLQ"), Queue(f"{self.role.value}.expired")]

    @property
    def installation(self) -> NamespaceTopics:
        has_topic = self.role not in (Role.MOVING, Role.TRUNCATION, Role.SCHEDULES)
        destinations = [self.orders, self.prices] if has_topic else [self.orders]
        return NamespaceTopics(self.namespace, destinations, self.letters)

    @property
    def settings(self) -> dict[str, AddressSettings]:
        """Of the queue: one attempt."""
        dead, expired = (each.name for each in self.letters)
        addresses = AddressSettings(dead_letter_address=dead, expiry_address=expired)
        return {"#": addresses, self.orders.name: AddressSettings(max_delivery_attempts=1)}

    @contextmanager
    def connected(self, watch: Watch, *, client_id: str | None = None) -> Iterator[Connection]:
        """A connection of the user, in a sidecar of its own."""
        factory = ConnectionFactory(
            self.address, kafka=self.kafka, namespace=self.namespace, address_settings=self.settings,
            auto_create=False, client_id=client_id, state_dir=str(self.folder / str(next(self.numbers))),
        )  # fmt: skip
        with factory.create_connection() as connection:
            connection.exception_listener = watch.hear
            yield connection

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """An Admin of the user."""
        with Admin(self.address, kafka=self.kafka, namespace=self.namespace) as admin:
            yield admin

    def send(self, *texts: str, to: Destination | None = None, **options: int) -> None:
        """By somebody who may."""
        with self.somebody() as connection:
            producer = connection.create_session().create_producer(to or self.orders)
            for text in texts:
                producer.send(text, **options)  # type: ignore[arg-type]

    @contextmanager
    def somebody(self, *, client_id: str | None = None) -> Iterator[Connection]:
        """Who may do everything."""
        folder = str(self.folder / str(next(self.numbers)))
        factory = ConnectionFactory(
            self.open, namespace=self.namespace, address_settings=self.settings, state_dir=folder, client_id=client_id
        )
        with factory.create_connection() as connection:
            yield connection

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Somebody's, that has written to the queue."""
        producer = ConfluentKafka(self.open).transactional_producer(
            f"somebody-{self.role.value}", transaction_timeout_ms=60_000
        )
        producer.initialise(PATIENCE_S)
        producer.begin()
        producer.produce(Outgoing(self.orders.name, 0, None, b"never"))
        try:
            yield
        finally:
            producer.abort(PATIENCE_S)
            producer.close()

    @contextmanager
    def anyone(self) -> Iterator[Admin]:
        """An Admin that may do everything."""
        with Admin(self.open, namespace=self.namespace) as admin:
            yield admin


def stock(shop: Shop) -> None:
    """Have something of each kind to be looked at: of what is settled, and of what waits."""
    watch = Watch(None)
    with shop.somebody(client_id="me") as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        kept = session.create_durable_consumer(shop.prices, "kept")
        consumers = [kept, *(session.create_consumer(each) for each in shop.letters)]
        for destination, consumer in zip((shop.prices, *shop.letters), consumers, strict=True):
            shop.send("settled", "waits", to=destination)
            watch.receive(consumer).acknowledge()
    prepare(shop, watch, by_somebody=True)
    bring(shop, watch, by_somebody=True)
    with shop.anyone() as admin:  # an operator's own connection knows no factory's settings
        admin.set_address_settings("#", shop.settings["#"])


def produce(shop: Shop, watch: Watch) -> None:
    """Plain sends to a queue and a topic, and one in a transaction."""
    with shop.connected(watch) as connection:
        connection.create_session().create_producer(shop.orders).send("plain")
        connection.create_session().create_producer(shop.prices).send("plain")
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        session.create_producer(shop.orders).send("in a transaction")
        session.commit()


def work(shop: Shop, watch: Watch) -> None:
    """One good message, one poison, one that expires, a durable subscription, and an answer to an operator."""
    with shop.anyone() as admin, closing(ConfluentKafka(shop.open).admin()) as log:

        def ends() -> list[int]:
            return [log.end_positions(each.name, [0], stable=True)[0] for each in shop.letters]

        admin.remove(shop.orders, everything=True)  # what an attempt without some right has left
        before = ends()
        with shop.connected(watch, client_id="me") as connection:
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            prices = session.create_durable_consumer(shop.prices, "audit")
            shop.send("dear", to=shop.prices)
            watch.receive(prices).acknowledge()
            prices.close()
            session.unsubscribe("audit")
            orders = session.create_consumer(shop.orders, selector="JMSPriority >= 0")
            shop.send("late", time_to_live_ms=1)
            shop.send("good", "bad")
            good, bad = watch.receive(orders), watch.receive(orders)
            found = admin.explain(shop.orders)
            if found.silent_members:
                watch.until(lambda: False, "a line that says why an operator gets no answer")
            good.acknowledge()
            bad.nack()
            watch.until(lambda: all(now > then for now, then in zip(ends(), before, strict=True)), "letters")


def look(shop: Shop, watch: Watch) -> None:
    """Everything that only looks."""
    with shop.admin() as admin:
        names = {each.name for each in admin.destinations()}
        assert names == {each.name for each in (shop.orders, shop.prices, *shop.letters)}, names
        for queue in (shop.orders, *shop.letters):
            admin.counts(queue)
            list(admin.browse(queue))
            admin.page(queue)
        admin.counts(shop.prices, subscription="kept", client_id="me")
        admin.subscriptions()
        admin.readers()
        admin.prepared()
        admin.address_settings()
        admin.dead_letters(shop.letters[0])
        admin.export_messages(shop.letters[0], shop.folder / f"{next(shop.numbers)}.avro")
        recorded_ids(admin._core.kafka, admin._core.admin, shop.namespace)


def explained(shop: Shop, watch: Watch) -> None:
    """Why something does not move that a worker has in hand: nobody is blamed for what may not be asked."""
    shop.send("in hand")
    with shop.somebody() as connection, shop.admin() as admin, shop.open_transaction():
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(shop.orders)
        message = watch.receive(consumer)
        found = admin.explain(shop.orders)
        message.acknowledge()
    assert (found.members, found.silent_members) == (1, ())
    watch.lines += [each.text for each in found.reasons if each.rule is Rule.NOT_ASKED]
    watch.lines += [each.text for partition in found.partitions for each in partition.reasons]
    if shop.role is not Role.LOOK and watch.missing is None:
        assert Rule.NOT_ASKED not in [each.rule for each in found.reasons], found


def operate(shop: Shop, watch: Watch) -> None:
    """Pauses, settings, messages given up and removed, letters sent again, a branch that its manager forgot."""
    prepare(shop, watch, by_somebody=True)
    bring(shop, watch, by_somebody=True)
    shop.send("move", "give up", "remove")
    shop.send("dear", to=shop.prices)
    dead, expired = shop.letters

    def retry(admin: Admin, letters: Queue) -> None:
        watch.lines += [each.why for each in admin.retry_dead_letters(letters).kept]

    with shop.admin() as admin:
        for branch in admin.prepared():
            admin.resolve(branch.xid, "rollback")
        admin.pause(shop.orders)
        admin.resume(shop.orders)
        admin.set_address_settings(shop.orders.name, AddressSettings(redelivery_delay_ms=5))
        admin.unset_address_settings(shop.orders.name)
        admin.send_to_dead_letter(shop.orders, everything=True, dead_letter_address=dead.name)
        kept = {"subscription": "kept", "client_id": "me"}
        admin.send_to_dead_letter(shop.prices, **kept, everything=True, dead_letter_address=dead.name)  # type: ignore[arg-type]
        retry(admin, dead)
        admin.expire(shop.orders, everything=True)
        retry(admin, expired)
        admin.remove(shop.orders, everything=True)


def request(shop: Shop, watch: Watch) -> None:
    """A request, and its answer."""
    with shop.connected(watch) as asking, shop.connected(watch) as answering:

        def answer() -> None:
            session = answering.create_session(AcknowledgeMode.AUTO)
            try:
                consumer = session.create_consumer(shop.orders)
                asked = watch.receive(consumer)
                while asked.reply_to is None:  # of another role's work
                    asked = watch.receive(consumer)
                session.create_producer(asked.reply_to).send("pong", correlation_id=asked.message_id)
            except Exception as error:
                watch.hear(error)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            session = asking.create_session()
            patience_s = PATIENCE_S if watch.missing is None else 5
            assert session.request(shop.orders, "ping", timeout=patience_s).body == "pong"
        finally:
            thread.join()


def prepare(shop: Shop, watch: Watch, *, by_somebody: bool = False) -> None:
    """A branch that is prepared and committed; that of somebody who may all stays prepared."""
    shop.send("paid")
    address, kafka = (shop.open, {}) if by_somebody else (shop.address, shop.kafka)
    factory = XAConnectionFactory(
        address, kafka=kafka, namespace=shop.namespace, address_settings=shop.settings, auto_create=False,
        state_dir=str(shop.folder / str(next(shop.numbers))),
    )  # fmt: skip
    with factory.create_xa_connection() as connection:
        session = connection.create_xa_session()
        consumer = session.create_consumer(shop.orders)
        session.tpc_begin(session.xid(1, f"tx-{next(shop.numbers)}-{secrets.token_hex(4)}", "b"))
        watch.receive(consumer)
        session.tpc_prepare()
        if not by_somebody:
            session.tpc_commit()


def keep_a_schedule(shop: Shop, watch: Watch) -> None:
    """A worker sends a run of its schedule when it is due, and handles it."""
    worker, ran = Worker(
        shop.address, kafka=shop.kafka, namespace=shop.namespace, address_settings=shop.settings, auto_create=False,
        state_dir=str(shop.folder / str(next(shop.numbers))),
    ), threading.Event()  # fmt: skip
    worker.cron("* * * * * *", queue=shop.orders, name="tick")(ran.set)
    worker.start()
    try:
        watch.until(ran.is_set, "a run")
    finally:
        worker.stop()


def bring(shop: Shop, watch: Watch, *, by_somebody: bool = False) -> None:
    """A bridge brings a message of a unit from another cluster."""
    address, kafka = (shop.open, None) if by_somebody else (shop.address, shop.kafka)
    with MemoryWorld() as elsewhere, elsewhere.factory().create_context() as there:
        target = BridgeEnd(
            address, shop.orders, kafka=kafka, namespace=shop.namespace, address_settings=shop.settings,
            auto_create=False, state_dir=str(shop.folder / str(next(shop.numbers))),
        )  # fmt: skip
        bridge = Bridge("in", BridgeEnd(elsewhere.factory(), Queue("out")), target)
        there.create_producer().send(Queue("out"), "brought", unit_of_order="joe")

        def has_come() -> bool:
            watch.lines += bridge.health(None).reasons
            return bridge.statistics().arrived == 1

        bridge.start()
        try:
            watch.until(has_come, "what was sent elsewhere")
        finally:
            bridge.stop()


def truncate(shop: Shop, watch: Watch) -> None:
    """What is settled goes, and another program's group has read it, too."""
    with shop.connected(watch) as connection:
        consumer = connection.create_session(AcknowledgeMode.AUTO).create_consumer(shop.orders)
        shop.send("gone")
        watch.receive(consumer)
    with closing(ConfluentKafka(shop.open).admin()) as log:
        end = log.end_positions(shop.orders.name, [0], stable=True)[0]
        log.alter_offsets("others", shop.orders.name, {0: CommittedOffset(end, "")})
    with shop.admin() as admin:
        said = admin.truncate(shop.orders)
        watch.lines.append(said.because)
    if watch.missing is None:
        assert not said.because, said


def put_back(shop: Shop, watch: Watch) -> None:
    """A topic that others made is taken as it is, and gets what was exported from another queue."""
    source, file = Queue("exported"), shop.folder / f"{next(shop.numbers)}.avro"
    with shop.anyone() as admin, closing(ConfluentKafka(shop.open).admin()) as log:
        admin.delete_destination(shop.orders)  # else it was imported into
        log.create_topic(shop.orders.kafka_topic(shop.namespace), partitions=1, config={})
        config = {**CHANGELOG_CONFIG, "max.message.bytes": str(2 * DEFAULT_MAX_MESSAGE_BYTES)}
        log.create_topic(shop.orders.changelog_topic(shop.namespace), partitions=1, config=config)
        admin.create_queue(source, partitions=1)
        shop.send("held", to=source)
        held = admin.export_messages(source, file).messages
    with shop.admin() as admin:
        assert admin.adopt(shop.orders, begin="end").records == 0
        assert admin.import_messages(file, to=shop.orders).messages == held


WORK: Mapping[Role, tuple[Callable[[Shop, Watch], None], ...]] = {
    Role.PRODUCER: (produce,),
    Role.WORKER: (work,),
    Role.SIDECAR: (work, produce, request),
    Role.LOOK: (look, explained),
    Role.OPERATOR: (look, explained, operate),
    Role.REQUESTS: (request,),
    Role.SCHEDULES: (keep_a_schedule,),
    Role.XA: (prepare,),
    Role.BRIDGE: (bring,),
    Role.MOVING: (put_back,),
    Role.TRUNCATION: (truncate,),
}
"""But that of Spark, which has its own tests."""

BESIDE: Mapping[Role, tuple[Role, ...]] = {
    Role.REQUESTS: (Role.PRODUCER, Role.WORKER),
    Role.SCHEDULES: (Role.WORKER,),
    Role.XA: (Role.WORKER,),
    Role.BRIDGE: (Role.PRODUCER,),
    Role.TRUNCATION: (Role.WORKER, Role.LOOK),
}
"""What a role is besides."""


def one_by_one(rules: list[AccessRule]) -> Iterator[AccessRule]:
    """Each operation of each, by itself."""
    for rule in rules:
        for operation in Operation:
            if operation in rule.operations:
                yield AccessRule(rule.kind, rule.name, frozenset({operation}), rule.is_prefix)
