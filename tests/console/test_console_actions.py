"""What operators do: it is shown, asked for, run on the server, and recorded with who did it."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from urllib.parse import quote_plus

import pytest
from pydantic import BaseModel

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic, Worker
from jbm_kafka.admin import Admin
from jbm_kafka.amqp.access import User
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.codec.operator_actions import OperatorAction, decode_operator_action, is_operator_action
from jbm_kafka.console.frame.action import Action, ActionHands, ActionPreview
from jbm_kafka.console.frame.console_settings import ConsoleSettings, ProgramToken
from jbm_kafka.console.frame.runs import KEPT, ActionRuns
from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking
from tests.console.looking import Looking
from tests.console.test_overview import send
from tests.support.waiting import wait_until


def operator_actions(world: MemoryWorld) -> Sequence[OperatorAction]:
    """All that jbm.events has of them."""
    found = []
    with Admin(world.url) as admin:
        core = admin._core
        count = core.admin.describe(["jbm.events"])["jbm.events"].partitions
        reader = core.kafka.tail_reader()
        for partition in range(count):
            end = core.admin.end_positions("jbm.events", [partition], stable=True)[partition]
            reader.assign("jbm.events", {partition: 0})
            records: list[OperatorAction] = []
            read = 0
            while read < end:  # nobody wrote in a transaction, so each offset is a record
                for record in reader.poll(1_000, 1.0):
                    read += 1
                    if is_operator_action(record.key()):
                        records.append(decode_operator_action(record.value() or b""))
            found += records
        reader.close()
    return sorted(found, key=lambda each: each.at_ms)


def test_an_action_shows_what_it_would_do_and_does_nothing(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        page = looking.page("/actions/pause?name=orders&what=sending")
        assert "Senders to orders get an error" in page
        assert "handed over" not in page
        assert looking.json("/actions/pause", name="orders", what="receiving")["is_possible"]
        assert not admin.paused("orders")


def test_a_confirmed_action_is_done_and_its_run_tells_how(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        run = looking.act("pause", name="orders", what="sending")
        assert (run["state"], run["by"], run["outcome"]) == ("done", "local", "orders: sending paused")
        halt = admin.paused("orders").production
        assert halt is not None
        assert halt.by == "local"
        assert "Done." in looking.page(f"/runs/{run['id']}")
        assert "orders: sending paused" in looking.page("/runs")
        assert looking.act("resume", name="orders")["state"] == "done"
        assert not admin.paused("orders")


def test_who_did_it_stands_in_the_log_and_in_the_events(
    world: MemoryWorld, looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jbm_kafka.console")
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        run = looking.act("pause", name="orders", what="sending")
        wait_until(lambda: len(operator_actions(world)) == 2, about="both events", timeout_s=20)
        told = operator_actions(world)
    assert [(each.id, each.action, each.by, each.destination, each.outcome) for each in told] == [
        (run["id"], "pause", "local", "orders", "begun"),
        (run["id"], "pause", "local", "orders", "done"),
    ]
    assert told[1].wanted == '{"name": "orders", "what": "sending"}'
    lines = [each.getMessage() for each in caplog.records]
    assert any("pause orders by local: done: orders: sending paused" in line for line in lines)


def test_what_destroys_wants_the_name_typed(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin, world.factory().create_context() as jms:
        send(jms, "orders", "a")
        assert "with 1 messages that nobody received" in looking.page("/actions/delete?name=orders")
        for typed in ("", "order", "ORDERS"):
            answer = looking.send("/actions/delete", name="orders", typed=typed)
            assert answer.status_code == 400
            assert "nothing was done: type orders" in answer.text
        assert admin.exists("orders")
        assert looking.act("delete", name="orders", typed="orders")["state"] == "done"
        assert not admin.exists("orders")


def test_units_on_hold_are_released(world: MemoryWorld, looking: Looking) -> None:
    settings = {"orders": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold")}
    factory = world.factory(address_settings=settings)
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        send(jms, "orders", "a", "b", unit="ann")
        consumer = jms.create_consumer(Queue("orders"))
        message = consumer.receive(timeout=10)
        assert message is not None
        message.nack()
        world.wait_idle()
        assert "each of 1 units becomes a dead letter" in looking.page("/actions/release?name=orders")
        assert looking.act("release", name="orders", unit="ann")["outcome"] == "orders: 1 units released"
        assert consumer.receive_body(str, timeout=10) == "b"
        assert "Nothing of that is on hold" in looking.page("/actions/release?name=orders")


def test_a_queue_and_a_topic_are_made_and_a_subscription_ended(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin, world.factory().create_context() as jms:
        assert looking.act("create", name="orders", kind="queue", partitions="3")["state"] == "done"
        assert admin.partitions("orders") == 3
        assert looking.act("create", name="prices", kind="topic", partitions="2")["state"] == "done"
        jms.create_shared_durable_consumer(Topic("prices"), "audit").close()
        world.wait_idle()
        wait_until(
            lambda: all(not each.members for each in admin.subscriptions("prices")), about="it left", timeout_s=20
        )
        run = looking.act("unsubscribe", name="prices", subscription="audit", typed="prices")
        assert run["state"] == "done", run
        assert admin.subscriptions("prices") == []


def test_what_the_cluster_refuses_is_a_failed_run(world: MemoryWorld, looking: Looking) -> None:
    run = looking.act("pause", name="nobody")
    assert run["state"] == "failed"
    assert "nobody" in run["outcome"]
    assert "It failed." in looking.page(f"/runs/{run['id']}")


def test_a_wrong_field_is_one_line_in_the_form(world: MemoryWorld, looking: Looking) -> None:
    answer = looking.client.get("/actions/create?name=orders&partitions=0")
    assert answer.status_code == 400
    assert "partitions: " in answer.text
    assert "partitions" in looking.json("/actions/create", 400, name="orders", partitions=0)["error"]


def test_a_read_only_console_shows_all_and_does_nothing(world: MemoryWorld, look_with: MakeLooking) -> None:
    looking = look_with(ConsoleSettings(read_only=True))
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        looking.look_anew()
        page = looking.page("/queues/orders")
        assert "Pause…" not in page
        assert "read-only" in page
        assert "read-only" in looking.page("/actions/pause?name=orders", 403)
        assert looking.send("/actions/pause", name="orders").status_code == 403
        assert not admin.paused("orders")


def test_a_program_acts_by_json(world: MemoryWorld, look_with: MakeLooking) -> None:
    token = ProgramToken(hashlib.sha256(b"secret").digest(), look=["#"], operate=["orders"])
    looking = look_with(ConsoleSettings(tokens={"ci": token}), address="10.1.2.3")
    looking.client.headers["Authorization"] = "Bearer secret"
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        answer = looking.client.post("/api/v1/actions/pause", json={"name": "orders", "what": "sending"})
        assert answer.status_code == 202
        run = looking.ended(f"/runs/{answer.json()['id']}")
        assert (run["state"], run["by"]) == ("done", "token ci")
        refused = looking.client.post("/api/v1/actions/delete", json={"name": "orders", "typed": "order"})
        assert (refused.status_code, "typed" in refused.json()["error"]) == (400, True)
        for body in (b"no json", b"[]", b"[" * 100_000, rb'{"name": "\ud800"}', rb'{"name": "orders", "\udfff": 1}'):
            assert looking.client.post("/api/v1/actions/pause", content=body).status_code == 400, body[:40]
        assert admin.exists("orders")


def users(**rights: Mapping[str, Sequence[str]]) -> dict[str, User]:
    """Each with a password that is his name."""
    return {
        name: User(Verifier.of_password(name), dict(of))  # type: ignore[arg-type]
        for name, of in rights.items()
    }


class Wished(BaseModel):
    name: str


def test_a_run_tells_how_far_it_is_and_goes_on_without_anybody(world: MemoryWorld) -> None:
    go_on, changes = threading.Event(), []

    def run(hands: ActionHands, wanted: Wished) -> str:
        hands.tell("half")
        assert go_on.wait(30)
        raise IllegalStateError("in use")

    action = Action("slow", "Do", Wished, lambda admin, wanted: ActionPreview(words=["It does."]), run)
    with Admin(world.url) as admin:
        runs = ActionRuns(admin, lambda: changes.append(1))
        begun = runs.begin(action, Wished(name="orders"), "ann")
        wait_until(lambda: (found := runs.of(begun.id)) and found.lines == ["half"], about="a line", timeout_s=20)
        assert not changes
        go_on.set()
        wait_until(lambda: (found := runs.of(begun.id)) and found.is_over, about="its end", timeout_s=20)
        ended = runs.of(begun.id)
        assert ended is not None
        assert (ended.state, ended.outcome) == ("failed", "in use")
        assert changes
        for _ in range(KEPT):
            last = runs.begin(action, Wished(name="orders"), "ann")
        assert runs.of(begun.id) is None, "only the latest are remembered"
        wait_until(lambda: (found := runs.of(last.id)) and found.is_over, about="the last", timeout_s=60)
        runs.close()


def test_an_action_that_took_longer_than_two_hundred_others_was_forgotten_while_it_ran(world: MemoryWorld) -> None:
    """It could not be stopped any more, ended as a bug, and kept the console from ending."""
    stopped = threading.Event()

    def run(hands: ActionHands, wanted: Wished) -> str:
        if wanted.name == "long":
            wait_until(hands.is_stopped, about="a stop", timeout_s=60)
        if wanted.name == "waits":
            assert stopped.wait(60)
        return "it did"

    action = Action("slow", "Do", Wished, lambda admin, wanted: ActionPreview(words=["It does."]), run, can_stop=True)
    with Admin(world.url) as admin:
        runs = ActionRuns(admin, lambda: None)
        long = runs.begin(action, Wished(name="long"), "ann")
        for _ in range(KEPT):
            last = runs.begin(action, Wished(name="orders"), "ann").id
            wait_until(lambda: (found := runs.of(last)) and found.is_over, about="an end", timeout_s=60)  # noqa: B023
        assert len(runs.lately()) == KEPT
        runs.stop(long.id, "joe")
        wait_until(lambda: (found := runs.of(long.id)) and found.is_over, about="its end", timeout_s=60)
        ended = runs.of(long.id)
        assert ended is not None
        assert (ended.state, ended.outcome) == ("done", "it did Stopped by joe.")
        for _ in range(KEPT):
            runs.begin(action, Wished(name="waits"), "ann")
        with pytest.raises(ResourceAllocationError, match="nothing was done, do it later"):
            runs.begin(action, Wished(name="waits"), "ann")
        stopped.set()
        runs.close()


def test_settings_are_recorded_and_taken_back(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders")
        which = {"name": "orders", "setting": "max_delivery_attempts"}
        assert "becomes 3" in looking.page("/actions/settings?name=orders&setting=max_delivery_attempts&value=3")
        assert looking.act("settings", **which, value="3")["state"] == "done"
        assert admin.address_settings("orders")["orders"].max_delivery_attempts == 3
        assert looking.act("settings", name="orders", setting="dead_letter_address", value="none")["state"] == "done"
        assert looking.act("settings", **which)["state"] == "done"
        assert admin.address_settings("orders")["orders"].given() == {"dead_letter_address": None}
        wrong = looking.client.get("/actions/settings?name=orders&setting=max_delivery_atempts&value=3")
        assert wrong.status_code == 400
        assert "max_delivery_attempts" in wrong.text


def test_a_pattern_is_of_those_who_may_operate_all(world: MemoryWorld, look_with: MakeLooking) -> None:
    """Else `orders.*` would let somebody set what holds for `orders.eu.internal`."""
    token = ProgramToken(hashlib.sha256(b"secret").digest(), operate=["orders.*"])
    looking = look_with(ConsoleSettings(tokens={"ci": token}))
    looking.client.headers["Authorization"] = "Bearer secret"

    def status(name: str, setting: str = "partitions", value: str = "3") -> int:
        wanted = {"name": name, "setting": setting, "value": value}
        return int(looking.client.post("/api/v1/actions/settings", json=wanted).status_code)

    assert status("orders.eu") == 202
    assert [status(name) for name in ("orders.#", "orders.*", "#")] == [403, 403, 403]
    assert status("orders.eu", "dead_letter_address", "orders.letters") == 202
    assert status("orders.eu", "dead_letter_address", "secrets") == 403


def test_a_subscription_of_another_topic_is_not_ended_by_the_right_of_this_one(
    world: MemoryWorld, looking: Looking
) -> None:
    with Admin(world.url) as admin:
        for name in ("prices", "secrets"):
            admin.create_topic(name)
        admin.create_subscription("secrets", "audit", shared=True)
        run = looking.act("unsubscribe", name="prices", subscription="audit", typed="prices")
        assert (run["state"], "has no subscription" in run["outcome"]) == ("failed", True)
        assert len(admin.subscriptions("secrets")) == 1


def test_partitions_are_added(world: MemoryWorld, looking: Looking) -> None:
    with Admin(world.url) as admin:
        admin.create_queue("orders", partitions=2)
        assert "gets 4" in looking.page("/actions/admit-partitions?name=orders&partitions=4")
        run = looking.act("admit-partitions", name="orders", partitions="4", typed="orders")
        assert run["state"] == "done", run
        assert admin.partitions("orders") == 4


@pytest.mark.parametrize("path", ["resolve?xid=1.a.b", "end-reader?reader=nobody", "unsubscribe?name=a&subscription=b"])
def test_what_is_not_there_cannot_be_done(world: MemoryWorld, looking: Looking, path: str) -> None:
    with Admin(world.url) as admin:
        admin.create_topic("a")
        assert not looking.json(f"/actions/{path}")["is_possible"]


def test_a_worker_is_drained_by_who_may_operate_everything(world: MemoryWorld, looking: Looking) -> None:
    worker, codes = Worker(world.factory()), list[int]()
    worker.handler("orders")(print)
    with ExitStack() as stack:
        running = threading.Thread(target=lambda: codes.append(worker.run()))
        running.start()
        stack.callback(running.join, 30.0)
        stack.callback(worker.ask_to_end)
        wait_until(lambda: looking.console.admin.doctor().members, about="a worker that receives", timeout_s=30.0)
        (process,) = looking.console.admin.doctor().members
        looking.console.changed()
        assert f"/actions/drain?process={quote_plus(process)}" in looking.page("/checkup")
        preview = looking.json("/actions/drain", process="elsewhere/1")
        assert preview["warnings"] == ["No process of that name receives now."]
        assert looking.json("/actions/drain", process=process)["warnings"] == []
        assert looking.json("/actions/drain", 400, process="it")["error"].startswith("process is 'it'")
        run = looking.act("drain", process=process)
        assert (run["state"], run["action"], run["about"]) == ("done", "drain", "")
        running.join(30.0)
        assert codes == [0]
