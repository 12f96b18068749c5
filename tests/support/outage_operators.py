"""What administrators ask for while Kafka does not answer: more calls as of outage_calls.py, one for each of `Admin`.

Who only looks gets the right answer, if need be when he asks again. Who changes something finds it changed, once.
"""

import os
import platform
from collections.abc import Callable

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin, BodiesRemoved, Truncation
from jbm_kafka.admin.messages.operations import MessagesReport
from jbm_kafka.admin.moving.export_file import check_export
from jbm_kafka.errors import IllegalStateError, InvalidDestinationError, JMSError
from tests.support.outage_calls import LOOK_S, SOON_S, Bench, Call, received
from tests.support.waiting import wait_until

TEXTS = ["a", "b", "c"]


def _look(look: Callable[[Admin], object], wanted: object, prepare: Callable[[Bench], object]) -> Callable[..., Call]:
    def call(bench: Bench) -> Call:
        prepare(bench)

        def judge(returned: object) -> None:
            assert returned == wanted, returned

        return Call(lambda: look(bench.admin), judge, is_repeatable=True)

    return call


def _looks() -> list[Callable[[Bench], Call]]:
    """Those that change nothing, by the name of the call."""

    def letter(bench: Bench) -> None:
        queue = bench.filled("looked-letters", "a")
        with bench.session(AcknowledgeMode.INDIVIDUAL) as session:
            received(session.create_consumer(queue)).nack()
        wait_until(lambda: bench.in_log("looked-letters.dlq")["a"], about="a dead letter", timeout_s=SOON_S)

    def nothing(bench: Bench) -> None:
        """It is there in any case."""

    found: dict[str, Callable[[Bench], Call]] = {
        "exists": _look(lambda admin: admin.exists("nobodys"), False, nothing),
        "dead_letter_queue": _look(lambda admin: admin.dead_letter_queue(), Queue("DLQ"), nothing),
        "destinations": _look(
            lambda admin: Queue("listed-queue") in admin.destinations(),
            True,
            lambda bench: bench.filled("listed-queue", "a"),
        ),
        "paused": _look(
            lambda admin: admin.paused("paused-before").consumption is not None,
            True,
            lambda bench: (
                bench.filled("paused-before"),
                bench.admin.pause("paused-before", "consumption", wait_s=0.0),
            ),
        ),
        "address_settings": _look(
            lambda admin: admin.address_settings("asked")["asked"].max_delivery_attempts,
            3,
            lambda bench: bench.admin.set_address_settings("asked", AddressSettings(max_delivery_attempts=3)),
        ),
        "unit_paths": _look(
            lambda admin: admin.unit_paths("pathless"), {}, lambda bench: bench.filled("pathless", "a")
        ),
        "browse_by_admin": _look(
            lambda admin: [message.body for message in admin.browse("looked-into", include="all")],
            TEXTS,
            lambda bench: bench.filled("looked-into", *TEXTS),
        ),
        "page": _look(
            lambda admin: [each.preview for each in admin.page("paged-before", ask_receivers=False).messages],
            TEXTS,
            lambda bench: bench.filled("paged-before", *TEXTS),
        ),
        "message_at": _look(
            lambda admin: admin.message_at("read-at", *admin.page("read-at").messages[0].place).message.body,  # type: ignore[union-attr]
            "a",
            lambda bench: bench.filled("read-at", "a"),
        ),
        "message_life": _look(
            lambda admin: [
                hop.state for hop in admin.message_life("lived", place=admin.page("lived").messages[0].place).hops
            ],
            ["waits"],
            lambda bench: bench.filled("lived", "a"),
        ),
        "doctor": _look(
            lambda admin: admin.doctor().brokers,  # others make and delete meanwhile, and it may find that
            1,
            lambda bench: bench.filled("looked-after", "a"),
        ),
        "dead_letters": _look(
            lambda admin: [message.body for _, message in admin.dead_letters("looked-letters.dlq")], ["a"], letter
        ),
        "queues_with_dead_letters": _look(
            lambda admin: Queue("looked-letters.dlq") in admin.queues_with_dead_letters(queues_max=1_000), True, nothing
        ),
        "send_edited_letter": _look(
            lambda admin: [
                admin.send_edited_letter(letter.place, "looked-letters.dlq", body="b", dry_run=True).destination
                for letter, _ in admin.dead_letters("looked-letters.dlq")
            ],
            [Queue("looked-letters")],
            nothing,
        ),
    }
    for name, call in found.items():
        call.__name__ = name
    return list(found.values())


def explain(bench: Bench) -> Call:
    """UNIT-17: also who has it in hand."""
    queue = bench.filled("explained", "a", "b")
    session = bench.session(AcknowledgeMode.CLIENT)
    received(session.create_consumer(queue, prefetch=1))

    def judge(returned: object) -> None:
        assert isinstance(returned, list), returned
        assert returned, "nothing keeps it"
        session.close()

    def make() -> object:
        return [reason.rule for message in bench.admin.explain(queue, unit="u").messages for reason in message.reasons]

    return Call(make, judge, is_repeatable=True)


def _taken_out(
    bench: Bench, name: str, target: Queue | None, take_out: Callable[[Queue], MessagesReport], *, is_owned: bool
) -> Call:
    """UNIT-14: each is in one place, once. Done by whoever receives, if it `is_owned`; else by the administrator."""
    queue = bench.filled(name, *TEXTS)
    if is_owned:
        owner = bench.session().create_consumer(queue, prefetch=1)
        wait_until(lambda: bench.counts(queue).members, about=f"a receiver of {queue}", timeout_s=SOON_S)
        assert owner.prefetch == 1

    def held() -> int:
        return bench.counts(queue).held

    def judge(returned: object) -> None:
        copies = None if target is None else bench.in_log(target.name)
        if isinstance(returned, MessagesReport) and not returned.kept:
            assert held() == 0, returned
        if copies is not None:
            assert set(copies.values()) <= {1}, copies
            assert held() + copies.total() == len(TEXTS), (held(), copies)
        elif isinstance(returned, Exception):
            assert held() in (0, len(TEXTS)), returned

    return Call(lambda: take_out(queue), judge, is_repeatable=True)


def move(bench: Bench) -> Call:
    target = bench.filled("moved-to")
    return _taken_out(
        bench, "moved", target, lambda queue: bench.admin.move(queue, target, everything=True), is_owned=False
    )


def move_by_the_owner(bench: Bench) -> Call:
    target = bench.filled("moved-by-owner-to")
    return _taken_out(
        bench, "moved-by-owner", target, lambda queue: bench.admin.move(queue, target, everything=True), is_owned=True
    )


def remove(bench: Bench) -> Call:
    return _taken_out(bench, "removed", None, lambda queue: bench.admin.remove(queue, everything=True), is_owned=False)


def expire(bench: Bench) -> Call:
    target = bench.filled("expired-to")

    def take_out(queue: Queue) -> MessagesReport:
        return bench.admin.expire(queue, everything=True, expiry_address=target.name)

    return _taken_out(bench, "expired", target, take_out, is_owned=False)


def give_up(bench: Bench) -> Call:
    target = bench.filled("given-up-to")

    def take_out(queue: Queue) -> MessagesReport:
        return bench.admin.send_to_dead_letter(queue, everything=True, dead_letter_address=target.name)

    return _taken_out(bench, "given-up", target, take_out, is_owned=False)


def send_now(bench: Bench) -> Call:
    """Of SEND-10: all are there, once; what was told to be let go waits for nothing."""
    queue = bench.filled("sent-now")
    with bench.session() as session:
        session.create_producer(queue).send("later", delivery_delay_ms=86_400_000)

    def judge(returned: object) -> None:
        assert bench.counts(queue).held == 1
        if isinstance(returned, MessagesReport) and returned.messages:
            assert bench.left(queue) == ["later"]

    return Call(lambda: bench.admin.send_now(queue, everything=True), judge, is_repeatable=True)


def drain(bench: Bench) -> Call:
    """It runs no worker, and says so; while Kafka is away nobody answers."""
    session = bench.session()
    session.create_consumer(bench.filled("drained"))

    def judge(returned: object) -> None:
        assert isinstance(returned, JMSError), returned
        session.close()

    me = f"{platform.node()}/{os.getpid()}"
    return Call(lambda: bench.admin.drain(me), judge, is_repeatable=True)


def release(bench: Bench) -> Call:
    """UNIT-16: its unit goes on; it comes first, and once."""
    queue = bench.filled("held", "a", "b")
    session = bench.session(AcknowledgeMode.INDIVIDUAL)
    consumer = session.create_consumer(queue)
    received(consumer).nack()
    wait_until(
        lambda: bench.admin.release(queue, everything=True, dry_run=True).messages,
        about="a unit on hold",
        timeout_s=SOON_S,
    )

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        done: list[object] = []
        while (message := consumer.receive(SOON_S if len(done) < 2 else LOOK_S)) is not None:
            message.acknowledge()
            done.append(message.body)
        assert done == ["a", "b"], done
        session.close()

    return Call(lambda: bench.admin.release(queue, everything=True, again=True), judge, is_repeatable=True)


def admit_partitions(bench: Bench) -> Call:
    """UNIT-11: the units that wait stay in their partition."""
    queue = bench.filled("admitted", *TEXTS)

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.counts(queue).partitions[-1].partition == 2
        bench.filled("admitted", "d")
        assert bench.left(queue) == [*TEXTS, "d"]

    return Call(lambda: bench.admin.admit_partitions(queue, partitions=3, wait_s=0.0), judge, is_repeatable=True)


def end_paths(bench: Bench) -> Call:
    queue = bench.filled("ended-paths", "a")
    bench.admin.admit_partitions(queue, partitions=3, wait_s=0.0)
    assert bench.left(queue) == ["a"]

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.admin.unit_paths(queue) == {}

    return Call(lambda: bench.admin.end_paths(queue, wait_s=0.0), judge, is_repeatable=True)


def resume(bench: Bench) -> Call:
    queue = bench.filled("resumed", "a")
    bench.admin.pause(queue)

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.left(queue) == ["a"]

    return Call(lambda: bench.admin.resume(queue), judge, is_repeatable=True)


def unset_settings(bench: Bench) -> Call:
    bench.admin.set_address_settings("unset", AddressSettings(max_delivery_attempts=3))

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.admin.address_settings("unset") == {}

    return Call(lambda: bench.admin.unset_address_settings("unset"), judge, is_repeatable=True)


def create_a_topic(bench: Bench) -> Call:
    def judge(returned: object) -> None:
        assert isinstance(returned, bool), returned
        assert bench.admin.subscriptions("created-topic") == []

    return Call(lambda: bench.admin.create_topic("created-topic"), judge, is_repeatable=True)


def end_a_subscription(bench: Bench) -> Call:
    """Gone in the end; a second call may find that the first has done it."""
    topic = Topic("ended-by-admin")
    bench.session(connection=bench.named).create_durable_consumer(topic, "ended-by-admin").close()

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception) or "ended-by-admin" in str(returned), returned
        assert bench.admin.subscriptions(topic) == []

    def make() -> object:
        return bench.admin.unsubscribe("ended-by-admin", client_id="client")

    return Call(make, judge, is_repeatable=True)


def create_a_subscription(bench: Bench) -> Call:
    topic = Topic("subscribed-by-admin")
    bench.session().create_producer(topic).send("x")

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert [found.name for found in bench.admin.subscriptions(topic)] == ["made-by-admin"]

    def make() -> object:
        return bench.admin.create_subscription(topic, "made-by-admin", shared=True)

    return Call(make, judge, is_repeatable=True)


def release_a_subscription(bench: Bench) -> Call:
    topic = Topic("released-by-admin")
    bench.session(connection=bench.named).create_durable_consumer(topic, "released-by-admin").close()

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert [found.owner for found in bench.admin.subscriptions(topic)] == [""]

    def make() -> object:
        return bench.admin.release_subscription("released-by-admin", client_id="client")

    return Call(make, judge, is_repeatable=True)


def end_a_reader(bench: Bench) -> Call:
    """None is registered: that it does not know the name is the answer; so is an empty list."""

    def make() -> object:
        assert bench.admin.readers() == []
        return bench.admin.end_reader("nobody")

    def judge(returned: object) -> None:
        assert isinstance(returned, InvalidDestinationError), returned

    return Call(make, judge, is_repeatable=True)


def change_a_schedule(bench: Bench) -> Call:
    """None is recorded: that it does not know the name is the answer; so is an empty list."""

    def make() -> object:
        assert bench.admin.schedules() == []
        for call in (bench.admin.pause_schedule, bench.admin.resume_schedule, bench.admin.run_schedule):
            try:
                return call("nobodys", "nobody")
            except InvalidDestinationError:
                continue
        return bench.admin.remove_schedule("nobodys", "nobody")

    def judge(returned: object) -> None:
        assert isinstance(returned, InvalidDestinationError), returned

    return Call(make, judge, is_repeatable=True)


def resolve_a_branch(bench: Bench) -> Call:
    """None is prepared: that it does not know the name is the answer; so is an empty list."""

    def make() -> object:
        assert bench.admin.prepared() == []
        return bench.admin.resolve("1:nothing:", "rollback")

    def judge(returned: object) -> None:
        assert isinstance(returned, IllegalStateError), returned

    return Call(make, judge, is_repeatable=True)


def truncate(bench: Bench) -> Call:
    """It deletes what is settled, again and again."""
    bench.filled("truncated", "a")

    def make() -> object:
        return bench.admin.truncate("truncated")

    def judge(returned: object) -> None:
        assert isinstance(returned, Truncation), returned

    return Call(make, judge, is_repeatable=True)


def large_bodies(bench: Bench) -> Call:
    """All topics of the cluster are read; nothing is removed that is younger than a day."""

    def make() -> object:
        return bench.admin.large_bodies(with_names=True), bench.admin.remove_large_bodies(unnamed=True)

    def judge(returned: object) -> None:
        assert returned == ([], BodiesRemoved((), 0, dry_run=False)), returned

    return Call(make, judge, is_repeatable=True)


def export_messages(bench: Bench) -> Call:
    """Of LOG-13: a file that is there is whole."""
    queue = bench.filled("exported", *TEXTS)
    file = bench.new_file("exported.avro")

    def make() -> object:
        file.unlink(missing_ok=True)
        return bench.admin.export_messages(queue, file).messages

    def judge(returned: object) -> None:
        assert returned == len(TEXTS), returned
        assert check_export(file).messages == len(TEXTS)

    return Call(make, judge, is_repeatable=True)


def import_messages(bench: Bench) -> Call:
    """Of LOG-13: each once."""
    file = bench.new_file("imported.avro")
    bench.admin.export_messages(bench.filled("imported-from", *TEXTS), file)

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.in_log("imported-to") == dict.fromkeys(TEXTS, 1)
        assert bench.left(Queue("imported-to")) == TEXTS

    return Call(lambda: bench.admin.import_messages(file, to="imported-to"), judge, is_repeatable=True)


def adopt(bench: Bench) -> Call:
    """Of LOG-14."""
    queue = bench.filled("adopted", *TEXTS)

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.left(queue) == []

    return Call(lambda: bench.admin.adopt(queue, begin="end"), judge, is_repeatable=True)


OPERATOR_CALLS: tuple[Callable[[Bench], Call], ...] = (
    *_looks(),
    *(explain, move, move_by_the_owner, remove, expire, give_up, send_now, drain, release),
    *(admit_partitions, end_paths, resume, unset_settings, create_a_topic, end_a_subscription),
    *(create_a_subscription, release_a_subscription),
    *(end_a_reader, change_a_schedule, resolve_a_branch, truncate, large_bodies),
    *(export_messages, import_messages, adopt),
)
