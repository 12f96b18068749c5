"""`dead-letters list` and `dead-letters retry`: what was given up, and another try for it, on a real broker."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import World
from tests.cli.conftest import Run, write
from tests.cli.test_delete import Terminal


def _rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def dead(queue: str, cli: Run) -> str:
    """The dead-letter queue of the test's queue, of two partitions."""
    address = f"{queue}-dead"
    assert cli("create", address, "--partitions", "2").code == 0
    return address


def give_up(url: str, queue: str, dead: str, count: int, *, attempts: int = 1, but: Sequence[str] = ()) -> None:
    """Receive `count` times and refuse each, so that messages die after `attempts`; `but` these are settled."""
    settings = {queue: AddressSettings(max_delivery_attempts=attempts, dead_letter_address=dead)}
    with (
        ConnectionFactory(url, address_settings=settings).create_connection() as connection,
        connection.create_session(AcknowledgeMode.INDIVIDUAL) as session,
    ):
        consumer = session.create_consumer(Queue(queue))
        for _ in range(count):
            message = consumer.receive(timeout=20)
            assert message is not None
            if message.body in but:
                message.acknowledge()
            else:
                message.nack()


def send(url: str, queue: str, count: int) -> None:
    """So many of each of two units, in turn: ann0, joe0, ann1, ..."""
    with ConnectionFactory(url).create_context(AcknowledgeMode.AUTO) as jms:
        for number in range(count):
            for unit in ("ann", "joe"):
                jms.create_producer().send(Queue(queue), f"{unit}{number}", unit_of_order=unit)


def received(cli: Run, queue: str) -> list[Any]:
    return _rows(cli("receive", queue, "--count", "0", "--timeout", "1", "--json").out)


def of_unit(rows: Iterable[Any], unit: str) -> list[str]:
    return [row["body"] for row in rows if row["unit_of_order"] == unit]


def test_dead_letters_are_listed_by_where_they_came_from(cli: Run, queue: str, dead: str, url: str) -> None:
    cli("send", queue, "--text", "poison", "--unit", "joe")
    give_up(url, queue, dead, 2, attempts=2)
    assert cli("dead-letters", "list", "--from", dead, "--count", "1").err == ""
    said = cli("dead-letters", "list", "--from", dead, "--origin", queue, "--json")
    (row,) = _rows(said.out)
    assert (row["body"], row["unit_of_order"]) == ("poison", "joe")
    assert row["properties"]["_JBM_ORIG_DESTINATION"] == f"queue:{queue}"
    told = row["dead_letter"]
    assert (told["reason"], told["attempts"]) == ("max-delivery-attempts", 2)
    assert told["origin"]["destination"] == f"queue:{queue}"
    table = cli("dead-letters", "list", "--from", dead).out
    assert "max-delivery-attempts" in table
    for selector, bodies in (("_JBM_DELIVERY_COUNT = 2", ["poison"]), ("_JBM_DELIVERY_COUNT > 2", [])):
        rows = _rows(cli("dead-letters", "list", "--from", dead, "--selector", selector, "--json").out)
        assert [row["body"] for row in rows] == bodies
    none = cli("dead-letters", "list", "--from", dead, "--origin", dead)
    assert none.out.startswith(f"no dead letters in queue:{dead} from queue:{dead}; ")


def test_what_died_is_sent_again_as_it_was_and_counted_from_zero(cli: Run, queue: str, dead: str, url: str) -> None:
    """Of REDELIVER-9: body, id, unit, properties and time as before; nothing tells of the dead-letter queue."""
    cli("send", queue, "--text", "zw\u00f6lf", "--unit", "joe", "--property", "qty:int=3", "--priority", "7")
    (before,) = _rows(cli("browse", queue, "--json").out)
    give_up(url, queue, dead, 2, attempts=2)
    said = cli("dead-letters", "retry", "--from", dead)
    assert (said.code, said.out, said.err) == (0, f"1 sent from queue:{dead}\n", "")
    (after,) = received(cli, queue)
    same = ("message_id", "body", "unit_of_order", "timestamp", "priority", "properties")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert (after["delivery_count"], after["redelivered"]) == (1, False)
    assert cli("dead-letters", "list", "--from", dead).out.startswith(f"no dead letters in queue:{dead}; ")
    again = cli("dead-letters", "retry", "--from", dead)
    assert again.code == 0
    assert again.out.startswith(f"no dead letters in queue:{dead}; ")


def test_a_unit_that_died_is_sent_again_in_its_order(cli: Run, queue: str, dead: str, url: str) -> None:
    """REDELIVER-9: of each unit in the order of the dead-letter queue."""
    send(url, queue, 5)
    give_up(url, queue, dead, 10)
    said = cli("dead-letters", "retry", "--from", dead, "--json")
    report = json.loads(said.out)
    assert (report["sent"], report["kept"], report["warnings"]) == (10, [], [])
    rows = received(cli, queue)
    assert of_unit(rows, "joe") == [f"joe{number}" for number in range(5)]
    assert of_unit(rows, "ann") == [f"ann{number}" for number in range(5)]


def test_what_is_not_asked_for_is_left_as_it_was(cli: Run, queue: str, dead: str, url: str) -> None:
    """Of REDELIVER-9: it was in front of what was asked for; it is neither counted nor marked nor reordered."""
    send(url, queue, 3)
    give_up(url, queue, dead, 6)
    letters = {row["body"]: row for row in _rows(cli("dead-letters", "list", "--from", dead, "--json").out)}
    said = cli("dead-letters", "retry", "--from", dead, "--id", letters["joe1"]["message_id"])
    assert (said.code, said.out) == (0, f"1 sent from queue:{dead}\n")
    first, second = said.err.splitlines()
    assert first == (
        f"warning: unit 'joe': earlier letters stay in {dead} while later ones are sent, so their order is given up; "
        f"send all of a unit's letters to keep it"
    )
    assert second.startswith(f"warning: unit 'joe' of queue:{queue} went on: ")
    assert of_unit(received(cli, queue), "joe") == ["joe1"]
    rows = received(cli, dead)
    assert of_unit(rows, "joe") == ["joe0", "joe2"]
    assert of_unit(rows, "ann") == ["ann0", "ann1", "ann2"]
    assert {(row["delivery_count"], row["redelivered"]) for row in rows} == {(1, False)}


def test_a_dry_run_sends_nothing_and_tells_that_a_unit_went_on(cli: Run, queue: str, dead: str, url: str) -> None:
    for text in ("poison", "fine"):
        cli("send", queue, "--text", text, "--unit", "joe")
    give_up(url, queue, dead, 2, but=["fine"])
    said = cli("dead-letters", "retry", "--from", dead, "--dry-run")
    assert said.code == 0
    assert f"queue:{queue}  joe" in said.out
    assert said.out.endswith(f"1 would be sent from queue:{dead}\n")
    assert said.err.startswith(f"warning: unit 'joe' of queue:{queue} went on: ")
    assert received(cli, queue) == []
    assert json.loads(cli("dead-letters", "retry", "--from", dead, "--dry-run", "--json").out)["sent"] == 0
    none = cli("dead-letters", "retry", "--from", dead, "--selector", "_JBM_DELIVERY_COUNT > 5")
    assert none.out.startswith(f"no dead letters in queue:{dead} that the selector chooses; ")
    assert [row["body"] for row in received(cli, dead)] == ["poison"]


def test_a_letter_that_tells_no_origin_is_kept_with_the_reason(
    cli: Run, queue: str, dead: str, world: World, url: str
) -> None:
    """It was written there by hand; it was lost, or the retry of all others failed."""
    write(world, Outgoing(dead, 0, None, b"by hand"))
    cli("send", queue, "--text", "poison")
    give_up(url, queue, dead, 1)
    said = cli("dead-letters", "retry", "--from", dead)
    assert (said.code, said.out) == (1, f"1 sent from queue:{dead}, 1 kept\n")
    assert said.err == (
        f"kept in {dead}: ID:kafka:{dead}:0:0: it does not tell where it came from: somebody wrote it to {dead} as it "
        f"is. Receive it from there, or send it on yourself\n"
    )
    (row,) = received(cli, dead)
    assert (row["body_base64"], row["delivery_count"], row["redelivered"]) == ("YnkgaGFuZA==", 1, False)


def test_many_dead_letters_do_not_fill_the_terminal(cli: Run, queue: str, dead: str, url: str) -> None:
    """--count was no option of `list`, only of `retry`."""
    cli("send", queue, "--text", "poison", "--unit", "joe", "--count", "2")
    give_up(url, queue, dead, 2)
    for options in ((), ("--json",)):
        said = cli("dead-letters", "list", "--from", dead, "--count", "1", *options)
        assert said.out.count("poison") == 1
        assert said.err == "1 more is not shown; --count N shows so many, --json without it all\n"


def test_messages_of_a_work_queue_are_not_listed_as_dead_letters(cli: Run, queue: str, dead: str, url: str) -> None:
    """With the wrong --from live messages stood there, as letters that nobody knew a reason of."""
    for text in "12":
        cli("send", queue, "--text", text, "--unit", "joe")
    are = "messages are no dead letters and are left out"
    left_out = f"queue:{queue}: 2 {are}; jbm-kafka browse {queue} shows all\n"
    said = cli("dead-letters", "list", "--from", queue, "--unit", "joe")
    assert (said.code, said.err) == (0, left_out)
    assert said.out.startswith(f"no dead letters in queue:{queue} of unit joe; ")
    said = cli("dead-letters", "list", "--from", queue, "--json")
    assert (said.code, said.out, said.err) == (0, "", left_out)
    give_up(url, queue, dead, 1)
    cli("send", dead, "--text", "by hand")
    said = cli("dead-letters", "list", "--from", dead, "--json")
    assert [row["body"] for row in _rows(said.out)] == ["1"]
    assert said.err.startswith(f"queue:{dead}: 1 message is no dead letter and is left out; ")


def test_the_queues_that_hold_dead_letters_are_found(cli: Run, queue: str, dead: str, url: str) -> None:
    cli("send", queue, "--text", "poison")
    give_up(url, queue, dead, 1)
    with Admin(url) as admin:
        assert admin.queues_with_dead_letters() == [Queue(dead)]
        assert cli("receive", dead).out == "poison\n"
        assert admin.queues_with_dead_letters() == []


def test_who_looks_for_dead_letters_in_a_topic_is_told_where_to_receive_them(cli: Run, kafka_name: str) -> None:
    """A topic has one of each for every subscription: sent again from there a letter would come back several times."""
    topic = f"{kafka_name}-letters"
    assert cli("create", topic, "--topic").code == 0
    remedy = "receive them there, as with create_durable_consumer(topic, name), and send on what is to be tried again"
    for command in ("list", "retry"):
        said = cli("dead-letters", command, "--from", f"topic:{topic}")
        assert (said.code, said.out) == (2, "")
        assert remedy in " ".join(said.err.split())
        said = cli("dead-letters", command, "--from", topic)
        assert (said.code, said.out) == (1, "")
        assert remedy in said.err
        assert said.err.count("\n") == 1


def test_a_letter_that_is_named_and_not_there_is_a_failure(cli: Run, queue: str) -> None:
    """Nothing was sent, and a script could not see it."""
    of = ("--from", queue)
    for options, told in (
        (("--id", "ID:none"), "with id ID:none"),
        (("--unit", "eve"), "of unit eve"),
        (("--origin", "nosuch"), "from queue:nosuch"),
    ):
        said = cli("dead-letters", "retry", *of, *options)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith(f"jbm-kafka: no dead letters in queue:{queue} {told}")
    said = cli("dead-letters", "retry", *of, "--id", "x", "--json")
    assert (said.code, json.loads(said.out)["letters"]) == (1, [])
    assert cli("dead-letters", "retry", *of).code == 0, "it names none"


def test_what_an_operator_gave_up_is_warned_of_before_it_goes_back(
    cli: Run, queue: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters that were given up on purpose were sent back without a word."""
    cli("send", queue, "--text", "kills its workers")
    assert cli("give-up", queue, "--all", "--dead-letter-address", dead).code == 0
    warning = "warning: 1 of them was given up by an operator (ID:"
    assert cli("dead-letters", "retry", "--from", dead, "--dry-run").err.startswith(warning)
    asked = ("dead-letters", "retry", "--from", dead)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    said = cli(*asked)
    assert said.err.startswith(warning)
    assert (said.code, said.err.endswith("jbm-kafka: nothing was sent\n")) == (1, True)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    said = cli(*asked)
    assert said.out == f"1 sent from queue:{dead}\n"
    assert said.err.count("warning: ") == 1
