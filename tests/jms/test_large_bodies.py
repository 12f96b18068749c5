"""Bodies that are too large for Kafka, kept in a folder, in a file system of fsspec's, or in a store of the user's."""

import asyncio
import copy
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    ConnectionFactory,
    Context,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
    Topic,
    Worker,
    aio,
)
from jbm_kafka.client.bodies.folder_store import UNFINISHED
from jbm_kafka.client.bodies.large_bodies import open_store
from jbm_kafka.errors import InvalidSettingError, LargeBodyError, MessageFormatError
from tests.support.counted_store import CountedStore

ORDERS, OTHERS, DLQ = Queue("orders"), Queue("others"), Queue("DLQ")
TEXT = "a large text, " * 100
LIMIT = 1_000
SETTINGS = {"#": AddressSettings(max_delivery_attempts=2, dead_letter_address="DLQ", partitions=1)}


@pytest.fixture
def store() -> CountedStore:
    return CountedStore()


def _world(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W", "-", request.node.name)


def _factory(request: pytest.FixtureRequest, large_bodies: Any, **more: Any) -> ConnectionFactory:
    more = {"large_body_bytes": LIMIT, **more} if large_bodies is not None else more
    world = f"memory://{_world(request)}"
    return ConnectionFactory(world, large_bodies=large_bodies, address_settings=SETTINGS, **more)


@pytest.fixture
def jms(store: CountedStore, request: pytest.FixtureRequest) -> Iterator[Context]:
    with _factory(request, store).create_context(AcknowledgeMode.INDIVIDUAL) as made:
        yield made


def _received(jms: Context, queue: Queue = ORDERS) -> Message:
    with jms.create_consumer(queue) as consumer:
        message = consumer.receive(timeout=10)
    assert message is not None, "nothing came"
    return message


def _headers(message: Message) -> dict[str, bytes | None]:
    assert message.kafka is not None
    return dict(message.kafka.headers)


@pytest.fixture(params=["file", "fsspec"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        (tmp_path / "bodies").mkdir()
        yield f"file:{tmp_path}/bodies"
        return
    folder = f"memory://{tmp_path.name}"
    yield folder
    files = fsspec.filesystem("memory")
    if files.exists(f"/{tmp_path.name}"):
        files.rm(f"/{tmp_path.name}", recursive=True)


def test_a_large_body_goes_to_the_store_and_comes_back(url: str, request: pytest.FixtureRequest) -> None:
    """BODY-1: above the limit; the record has a reference and no value. What is at the limit stays in its record."""
    world = f"memory://{_world(request)}"
    factory = ConnectionFactory(world, large_bodies=url, large_body_bytes=LIMIT)
    with factory.create_context() as jms:
        producer = jms.create_producer()
        producer.send(ORDERS, TEXT, properties={"size": "large"}, priority=7, unit_of_order="joe")
        producer.send(ORDERS, "x" * LIMIT)
        large, small = _received(jms), _received(jms)
        assert (large.body, large.properties["size"], large.priority, large.unit_of_order) == (TEXT, "large", 7, "joe")
        assert small.body == "x" * LIMIT
        assert [each._record and each._record.value() for each in (large, small)] == [None, b"x" * LIMIT]
        (kept,) = open_store(url).list()
        assert kept.size_bytes == len(TEXT)
        assert _headers(large)["jbm.large-body"] == kept.name.encode()
        assert (_headers(large)["jbm.large-body-digest"] or b"").startswith(b"sha256:")
        assert not {name for name in _headers(small) if name.startswith("jbm.")}
        assert not {name for name in large.properties if "Large" in name}
    open_store(url).remove(kept.name)
    open_store(url).remove(kept.name)
    assert list(open_store(url).list()) == []


@pytest.mark.parametrize(
    "message",
    [
        TextMessage(TEXT),
        MapMessage({"text": TEXT, "number": 7}),
        StreamMessage([TEXT, 7]),
        ObjectMessage({"text": TEXT}),
        TEXT.encode(),
    ],
    ids=["text", "map", "stream", "object", "bytes"],
)
@pytest.mark.parametrize("is_browsed", [False, True])
def test_each_kind_of_body(jms: Context, store: CountedStore, message: Any, is_browsed: bool) -> None:
    """BODY-2: received or browsed, and as a copy too."""
    sent = jms.create_producer().send(ORDERS, message)
    got = next(iter(jms.create_browser(ORDERS))) if is_browsed else _received(jms)
    assert len(store.bodies) == 1
    assert type(got) is type(sent)
    assert copy.deepcopy(got).body == sent.body
    assert pickle.loads(pickle.dumps(got)).body == sent.body
    assert got.body == sent.body


def test_receivers_of_each_kind_get_the_body(jms: Context, store: CountedStore) -> None:
    """BODY-2: a body alone, a listener, a request and its reply."""
    producer = jms.create_producer()
    producer.send(ORDERS, TEXT)
    with jms.create_consumer(ORDERS) as consumer:
        assert consumer.receive_body(str, timeout=10) == TEXT
    heard: list[object] = []
    done = threading.Event()

    def listen(message: Message) -> None:
        heard.append(message.body)
        message.acknowledge()
        done.set()

    producer.send(OTHERS, TEXT)
    with jms.create_consumer(OTHERS) as consumer:
        consumer.set_listener(listen)
        assert done.wait(10)
    assert heard == [TEXT]


def test_a_reply_may_be_large(store: CountedStore, request: pytest.FixtureRequest) -> None:
    """BODY-2: and so may the request."""
    with _factory(request, store).create_connection() as connection:
        connection.start()
        answering = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS)
        thread = threading.Thread(target=lambda: answering.run(lambda message: message.body.upper()), daemon=True)
        thread.start()
        reply = connection.create_session().request(ORDERS, TEXT, timeout=10)
        assert reply.body == TEXT.upper()
        answering.close()
        thread.join(10)
    assert len(store.bodies) == 2


def test_an_event_loop_never_waits_for_the_store(store: CountedStore, request: pytest.FixtureRequest) -> None:
    """BODY-2: bodies are kept and fetched beside it."""

    async def play() -> list[object]:
        factory = aio.ConnectionFactory(
            f"memory://{_world(request)}", large_bodies=store, large_body_bytes=LIMIT, address_settings=SETTINGS
        )
        async with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
            producer = await jms.create_producer()
            for _ in range(2):
                await producer.send(ORDERS, TEXT)
            consumer = await jms.create_consumer(ORDERS)
            first = await consumer.receive(timeout=10)
            assert first is not None
            return [first.body, await consumer.receive_body(str, timeout=10)]

    assert asyncio.run(play()) == [TEXT, TEXT]
    assert len(store.used_on) == 4
    assert threading.get_ident() not in store.used_on


def test_a_browser_fetches_what_is_looked_at(jms: Context, store: CountedStore) -> None:
    """BODY-5: choosing by properties, headers and priority fetches nothing."""
    producer = jms.create_producer()
    for n in range(4):
        producer.send(ORDERS, f"{n}{TEXT}", properties={"n": n}, unit_of_order=str(n))
    found = list(jms.create_browser(ORDERS, selector="n >= 2"))
    assert [(each.properties["n"], each.priority) for each in found] == [(2, 4), (3, 4)]
    assert store.gets == []
    assert found[1].body == f"3{TEXT}"
    assert found[1].body == f"3{TEXT}"
    assert len(store.gets) == 1


def test_what_is_sent_on_keeps_its_reference(jms: Context, store: CountedStore) -> None:
    """BODY-4: received and sent on it is not kept twice; with another body it is another one."""
    jms.create_producer().send(ORDERS, TEXT)
    got = _received(jms)
    reference = _headers(got)["jbm.large-body"]
    jms.create_producer().send(OTHERS, got)
    again = _received(jms, OTHERS)
    assert again.body == TEXT
    assert _headers(again)["jbm.large-body"] == reference
    again.clear_body()
    again.body = "small"
    jms.create_producer().send(ORDERS, again)
    small = _received(jms)
    assert small.body == "small"
    assert "jbm.large-body" not in _headers(small)
    assert len(store.bodies) == 1


def test_sends_of_a_group_give_their_bodies_back(jms: Context, store: CountedStore) -> None:
    """BODY-4: what is not confirmed, from `unacknowledged_sends`."""
    producer = jms.create_producer()
    producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
    producer.send(ORDERS, TEXT)
    assert _received(jms).body == TEXT


@pytest.mark.parametrize("damage", ["gone", "changed", "shorter", "unreachable"])
def test_a_message_without_its_body_is_a_failed_attempt_and_then_a_dead_letter(
    jms: Context, store: CountedStore, damage: str
) -> None:
    """BODY-3: one clear error each time, counted as any failure; the letter tells it and keeps the reference."""
    jms.create_producer().send(ORDERS, TEXT, unit_of_order="joe")
    jms.create_producer().send(ORDERS, "after it", unit_of_order="joe")
    ((name, body),) = store.bodies.items()
    if damage == "gone":
        store.bodies.clear()
    elif damage != "unreachable":
        store.bodies[name] = b"X" + body[1:] if damage == "changed" else body[1:]
    store.is_down = damage == "unreachable"
    told = {"gone": "is not in", "unreachable": "no route to the store"}.get(damage, "is not the one that was sent")
    with jms.create_consumer(ORDERS) as consumer:
        for _ in range(2):
            with pytest.raises(LargeBodyError, match=told) as raised:
                consumer.receive(timeout=10)
            assert raised.value.body_name == name
        after = consumer.receive(timeout=10)
        assert after is not None
        assert after.body == "after it"
    (letter,) = jms.create_browser(DLQ)
    assert told in str(letter.properties["_JBM_LAST_ERROR"])
    assert letter.properties["_JBM_DELIVERY_COUNT"] == 2
    assert _headers(letter)["jbm.large-body"] == name.encode()
    with pytest.raises(LargeBodyError, match=told):
        _ = letter.body
    store.bodies[name], store.is_down = body, False
    assert letter.body == TEXT


def test_without_the_store_nothing_is_taken_for_an_empty_body(
    store: CountedStore, request: pytest.FixtureRequest
) -> None:
    """BODY-3: a receiver that was given none says so."""
    with (
        _factory(request, store).create_context() as sender,
        _factory(request, None).create_context(AcknowledgeMode.INDIVIDUAL) as jms,
    ):
        sender.create_producer().send(ORDERS, TEXT)
        (seen,) = jms.create_browser(ORDERS)
        with pytest.raises(LargeBodyError, match="large_bodies="):
            _ = seen.body
        with jms.create_consumer(ORDERS) as consumer, pytest.raises(LargeBodyError, match="large_bodies="):
            consumer.receive(timeout=10)


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK, AcknowledgeMode.TRANSACTED])
def test_in_every_mode_the_attempt_is_counted_and_nothing_is_acknowledged(
    store: CountedStore, request: pytest.FixtureRequest, mode: AcknowledgeMode
) -> None:
    """BODY-3: asking again does not acknowledge what was not received."""
    with _factory(request, store).create_context(mode) as jms:
        jms.create_producer().send(ORDERS, TEXT)
        if mode is AcknowledgeMode.TRANSACTED:
            jms.commit()
        store.is_down = True
        with jms.create_consumer(ORDERS) as consumer:
            with pytest.raises(LargeBodyError):
                consumer.receive(timeout=10)
            store.is_down = False
            message = consumer.receive(timeout=10)
            assert message is not None
            assert (message.body, message.delivery_count) == (TEXT, 2)


def test_a_listener_gets_the_next_message_after_one_without_its_body(jms: Context, store: CountedStore) -> None:
    """BODY-3: the exception listener hears each failure, and the message is a dead letter in the end."""
    heard: list[object] = []
    errors: list[Exception] = []
    done = threading.Event()

    def listen(message: Message) -> None:
        heard.append(message.body)
        message.acknowledge()
        done.set()

    jms.exception_listener = errors.append
    jms.create_producer().send(ORDERS, TEXT, unit_of_order="joe")
    jms.create_producer().send(ORDERS, "after it", unit_of_order="joe")
    store.bodies.clear()
    with jms.create_consumer(ORDERS) as consumer:
        consumer.set_listener(listen)
        assert done.wait(20)
    assert heard == ["after it"]
    assert [type(each) for each in errors] == [LargeBodyError, LargeBodyError]


def test_a_handler_pool_goes_on_after_a_message_without_its_body(jms: Context, store: CountedStore) -> None:
    """BODY-3: `consumer.run` does not end by it."""
    heard: list[object] = []
    jms.create_producer().send(ORDERS, TEXT, unit_of_order="joe")
    jms.create_producer().send(ORDERS, "after it", unit_of_order="joe")
    store.bodies.clear()
    with jms.create_consumer(ORDERS) as consumer:

        def handle(message: Message) -> None:
            heard.append(message.body)
            threading.Thread(target=consumer.close).start()

        consumer.run(handle)
    assert heard == ["after it"]


def test_workers_and_subscribers_get_large_bodies(store: CountedStore, request: pytest.FixtureRequest) -> None:
    """BODY-2: handlers of threads, of a loop and of transactions; and what has a subscription of its own."""
    factory, prices = _factory(request, store), Topic("prices")
    worker, heard = Worker(factory), Queue("heard")

    @worker.handler("plain")
    def plain(body: str) -> None:
        with factory.create_sender() as sender:
            sender.send(heard, f"plain {body}")

    @worker.handler("awaited")
    async def awaited(body: str) -> None:
        await asyncio.to_thread(plain, body)

    @worker.handler("both", transacted=True)
    def both(body: str, message: Message, session: Session) -> None:
        session.create_producer(heard).send(f"both {body}")

    worker.start()
    with factory.create_context() as jms:
        subscriber = jms.create_consumer(prices)
        for each in (Queue("plain"), Queue("awaited"), Queue("both"), prices):
            jms.create_producer().send(each, TEXT)
        assert subscriber.receive_body(str, timeout=10) == TEXT
        with jms.create_consumer(heard) as consumer:
            bodies = sorted(str(consumer.receive_body(str, timeout=10)) for _ in range(3))
    worker.stop()
    assert bodies == [f"both {TEXT}", f"plain {TEXT}", f"plain {TEXT}"]


def test_a_send_whose_body_is_not_kept_sends_nothing(jms: Context, store: CountedStore) -> None:
    """BODY-6: one error, which names the store's."""
    store.is_down = True
    with pytest.raises(LargeBodyError, match=r"no route to the store.*nothing was sent"):
        jms.create_producer().send(ORDERS, TEXT)
    assert list(jms.create_browser(ORDERS)) == []


@pytest.mark.parametrize("is_committed", [False, True])
def test_in_a_transaction_the_body_is_kept_before_the_commit(
    store: CountedStore, request: pytest.FixtureRequest, is_committed: bool
) -> None:
    """BODY-6: rolled back, a body is left that no record names."""
    with _factory(request, store).create_context(AcknowledgeMode.TRANSACTED) as jms:
        jms.create_producer().send(ORDERS, TEXT)
        assert len(store.bodies) == 1
        jms.commit() if is_committed else jms.rollback()
        assert [each.body for each in jms.create_browser(ORDERS)] == ([TEXT] if is_committed else [])
    assert len(store.bodies) == 1


def test_nothing_is_removed_when_a_message_is_settled(jms: Context, store: CountedStore) -> None:
    """BODY-7: archives and copies may need it."""
    jms.create_producer().send(ORDERS, TEXT)
    _received(jms).acknowledge()
    assert list(store.bodies.values()) == [TEXT.encode()]


KILLED = """
import os, signal, sys
from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.client.bodies import folder_store
if sys.argv[2] == "written":
    keep = folder_store.FolderStore.put
    def put(self, name, body):
        keep(self, name, body)
        os.kill(os.getpid(), signal.SIGKILL)
    folder_store.FolderStore.put = put
else:
    os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
with ConnectionFactory("memory://killed", large_bodies=sys.argv[1], large_body_bytes=10).create_context() as jms:
    jms.create_producer().send(Queue("orders"), "more than ten")
"""


@pytest.mark.parametrize("when", ["written", "half"])
def test_a_process_killed_between_body_and_send_leaves_a_body_that_nobody_names(tmp_path: Path, when: str) -> None:
    """BODY-6: whole, or as an unfinished file that no reader ever sees."""
    url = f"file:{tmp_path}/bodies"
    (tmp_path / "bodies").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", KILLED, url, when], env=environment, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    (left,) = open_store(url).list()
    assert left.name.endswith(UNFINISHED) == (when == "half")
    if when == "half":
        assert open_store(url).get(left.name.removesuffix(UNFINISHED)) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("bodies", "s3://"),
        ("file:bodies", "whole path"),
        ("file://host/bodies", "whole path"),
        ("nothing://bodies", "fsspec"),
        (7, "put, get"),
        (CountedStore, "put, get"),
    ],
)
def test_a_store_that_cannot_be_is_refused(given: Any, told: str) -> None:
    """BODY-1: by name and value, with what could stand there."""
    with pytest.raises(InvalidSettingError, match=f"large_bodies is.*{told}"):
        ConnectionFactory("memory://refused", large_bodies=given)


def test_a_limit_without_a_store_and_a_store_of_an_amqp_client_are_refused(tmp_path: Path) -> None:
    """BODY-1: the sidecar has the store of AMQP clients."""
    with pytest.raises(InvalidSettingError, match="large_body_bytes"):
        ConnectionFactory("memory://refused", large_body_bytes=10)
    with pytest.raises(InvalidSettingError, match="large_body_bytes"):
        ConnectionFactory("memory://refused", large_bodies=f"file:{tmp_path}", large_body_bytes=-1)
    with pytest.raises(InvalidSettingError, match="sidecar"):
        ConnectionFactory("amqp://localhost", large_bodies=f"file:{tmp_path}")


def test_a_folder_that_is_not_there_is_no_body_that_is_gone(tmp_path: Path) -> None:
    """BODY-3: a drive that is not mounted is told as such."""
    with pytest.raises(FileNotFoundError, match="the folder"):
        open_store(f"file:{tmp_path}/away").get("2026-01-01/1767225600000-" + 32 * "0")


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    """Of BODY-6: made on one machine, others looked for the body in vain."""
    away = tmp_path / "away"
    with ConnectionFactory(
        "memory://away", large_bodies=f"file:{away}", large_body_bytes=LIMIT
    ).create_context() as jms:
        with pytest.raises(LargeBodyError, match="is not there: mount it, or make it"):
            jms.create_producer().send(ORDERS, TEXT)
        jms.create_producer().send(ORDERS, "small")
    with pytest.raises(FileNotFoundError, match="is not there"):
        list(open_store(f"file:{away}").list())
    assert not away.exists()


def test_a_factory_goes_to_another_process_with_its_store(tmp_path: Path) -> None:
    """BODY-1: as its other settings."""
    (tmp_path / "bodies").mkdir()
    made = ConnectionFactory("memory://pickled", large_bodies=f"file:{tmp_path}/bodies", large_body_bytes=LIMIT)
    with pickle.loads(pickle.dumps(made)).create_context() as jms:
        jms.create_producer().send(ORDERS, TEXT)
    assert [each.size_bytes for each in open_store(f"file:{tmp_path}/bodies").list()] == [len(TEXT)]


def test_a_name_that_leads_out_of_the_store_is_refused(tmp_path: Path, store: CountedStore) -> None:
    """BODY-3: whoever may write records cannot have receivers read other files."""
    from jbm_kafka.client.bodies.large_bodies import LargeBodies

    headers = [("jbm.large-body", b"../../etc/passwd"), ("jbm.large-body-digest", b"sha256:" + 64 * b"0")]
    with pytest.raises(LargeBodyError, match=r"jbm\.large-body is"):
        LargeBodies(store).fetch(headers)
    assert store.gets == []


def test_an_application_cannot_name_a_body_itself(jms: Context) -> None:
    """BODY-1: the headers are jbm-kafka's own."""
    with pytest.raises(MessageFormatError, match=r"jbm\.large-body"):
        jms.create_producer().send(ORDERS, "small", headers={"jbm.large-body": b"2026-01-01/1"})


def test_a_body_that_was_taken_away_stays_away(jms: Context, store: CountedStore) -> None:
    """BODY-4: a message that is sent on without a body does not get its old one back."""
    jms.create_producer().send(ORDERS, TEXT)
    got = _received(jms)
    got.clear_body()
    jms.create_producer().send(OTHERS, got)
    again = _received(jms, OTHERS)
    assert (type(again), again.body) == (TextMessage, None)
