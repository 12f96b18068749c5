"""`dead-letters list` and `dead-letters retry`: what was given up, and another try for it, on a real broker."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from tests.cli.conftest import Run
from tests.cli.test_delete import Terminal


def _rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def dead(queue: str, kafka: Run) -> str:
    """The dead-letter queue of the test's queue, of two partitions."""
    address = f"{queue}-dead"
    assert kafka("create", address, "--partitions", "2").code == 0
    return address


def give_up(bootstrap: str, queue: str, dead: str, count: int, *, attempts: int = 1, but: Sequence[str] = ()) -> None:
    """Receive `count` times and refuse each, so that messages die after `attempts`; `but` these are settled."""
    settings = {queue: AddressSettings(max_delivery_attempts=attempts, dead_letter_address=dead)}
    with (
        ConnectionFactory(bootstrap, address_settings=settings).create_connection() as connection,
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


def send(bootstrap: str, queue: str, count: int) -> None:
    """So many of each of two units, in turn: ann0, joe0, ann1, ..."""
    with ConnectionFactory(bootstrap).create_context(AcknowledgeMode.AUTO) as jms:
        for number in range(count):
            for unit in ("ann", "joe"):
                jms.create_producer().send(Queue(queue), f"{unit}{number}", unit_of_order=unit)


def received(kafka: Run, queue: str) -> list[Any]:
    return _rows(kafka("receive", queue, "--count", "0", "--timeout", "1", "--json").out)


def of_unit(rows: Iterable[Any], unit: str) -> list[str]:
    return [row["body"] for row in rows if row["unit_of_order"] == unit]


def test_dead_letters_are_listed_by_where_they_came_from(kafka: Run, queue: str, dead: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "poison", "--unit", "joe")
    give_up(bootstrap, queue, dead, 2, attempts=2)
    assert kafka("dead-letters", "list", "--from", dead, "--count", "1").err == ""
    said = kafka("dead-letters", "list", "--from", dead, "--origin", queue, "--json")
    (row,) = _rows(said.out)
    assert (row["body"], row["unit_of_order"]) == ("poison", "joe")
    assert row["properties"]["_JBM_ORIG_DESTINATION"] == f"queue:{queue}"
    told = row["dead_letter"]
    assert (told["reason"], told["attempts"]) == ("max-delivery-attempts", 2)
    assert told["origin"]["destination"] == f"queue:{queue}"
    table = kafka("dead-letters", "list", "--from", dead).out
    assert "max-delivery-attempts" in table
    for selector, bodies in (("_JBM_DELIVERY_COUNT = 2", ["poison"]), ("_JBM_DELIVERY_COUNT > 2", [])):
        rows = _rows(kafka("dead-letters", "list", "--from", dead, "--selector", selector, "--json").out)
        assert [row["body"] for row in rows] == bodies
    none = kafka("dead-letters", "list", "--from", dead, "--selector", "_JBM_DELIVERY_COUNT > 2")
    others = "there are others, shown without these options"
    assert none.out == f"no dead letters in queue:{dead} that the selector chooses; {others}\n"
    none = kafka("dead-letters", "list", "--from", dead, "--origin", dead)
    assert none.out == f"no dead letters in queue:{dead} from queue:{dead}; {others}\n"
    none = kafka("dead-letters", "list", "--from", dead, "--origin", f"{queue}s")
    assert none.code == 0, "it was silent about a name that was misspelt"
    told = f"there is no queue '{queue}s', did you mean '{queue}'?"
    assert none.out == f"no dead letters in queue:{dead} from queue:{queue}s; {told}; {others}\n"
    none = kafka("dead-letters", "list", "--from", dead, "--origin", f"topic:{queue}")
    assert f" from topic:{queue}; '{queue}' is a queue: --origin queue:{queue}; " in none.out
    none = kafka("dead-letters", "retry", "--from", dead, "--origin", "zzz")
    assert (none.code, "; there is no queue 'zzz'; " in none.err) == (1, True)


def test_what_died_is_sent_again_as_it_was_and_counted_from_zero(
    kafka: Run, queue: str, dead: str, bootstrap: str
) -> None:
    """Of REDELIVER-9: body, id, unit, properties and time as before; nothing tells of the dead-letter queue."""
    kafka("send", queue, "--text", "zw\u00f6lf", "--unit", "joe", "--property", "qty:int=3", "--priority", "7")
    (before,) = _rows(kafka("browse", queue, "--json").out)
    give_up(bootstrap, queue, dead, 2, attempts=2)
    said = kafka("dead-letters", "retry", "--from", dead)
    assert (said.code, said.out, said.err) == (0, f"1 sent from queue:{dead}\n", "")
    (after,) = received(kafka, queue)
    same = ("message_id", "body", "unit_of_order", "timestamp", "priority", "properties")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert (after["delivery_count"], after["redelivered"]) == (1, False)
    assert kafka("dead-letters", "list", "--from", dead).out.startswith(f"no dead letters in queue:{dead}; ")
    again = kafka("dead-letters", "retry", "--from", dead)
    assert again.code == 0
    assert again.out.startswith(f"no dead letters in queue:{dead}; ")


def test_a_unit_that_died_is_sent_again_in_its_order(kafka: Run, queue: str, dead: str, bootstrap: str) -> None:
    """REDELIVER-9: of each unit in the order of the dead-letter queue."""
    send(bootstrap, queue, 5)
    give_up(bootstrap, queue, dead, 10)
    said = kafka("dead-letters", "retry", "--from", dead, "--json")
    report = json.loads(said.out)
    assert (report["sent"], report["kept"], report["warnings"]) == (10, [], [])
    rows = received(kafka, queue)
    assert of_unit(rows, "joe") == [f"joe{number}" for number in range(5)]
    assert of_unit(rows, "ann") == [f"ann{number}" for number in range(5)]


def test_what_is_not_asked_for_is_left_as_it_was(kafka: Run, queue: str, dead: str, bootstrap: str) -> None:
    """Of REDELIVER-9: it was in front of what was asked for; it is neither counted nor marked nor reordered."""
    send(bootstrap, queue, 3)
    give_up(bootstrap, queue, dead, 6)
    letters = {row["body"]: row for row in _rows(kafka("dead-letters", "list", "--from", dead, "--json").out)}
    said = kafka("dead-letters", "retry", "--from", dead, "--id", letters["joe1"]["message_id"])
    assert (said.code, said.out) == (0, f"1 sent from queue:{dead}\n")
    first, second = said.err.splitlines()
    assert first == (
        f"warning: unit 'joe': earlier letters stay in {dead} while later ones are sent, so their order is given up; "
        f"send all of a unit's letters to keep it"
    )
    assert second.startswith(f"warning: unit 'joe' of queue:{queue} went on: ")
    assert of_unit(received(kafka, queue), "joe") == ["joe1"]
    rows = received(kafka, dead)
    assert of_unit(rows, "joe") == ["joe0", "joe2"]
    assert of_unit(rows, "ann") == ["ann0", "ann1", "ann2"]
    assert {(row["delivery_count"], row["redelivered"]) for row in rows} == {(1, False)}


def test_a_dry_run_sends_nothing_and_tells_that_a_unit_went_on(
    kafka: Run, queue: str, dead: str, bootstrap: str
) -> None:
    for text in ("poison", "fine"):
        kafka("send", queue, "--text", text, "--unit", "joe")
    give_up(bootstrap, queue, dead, 2, but=["fine"])
    said = kafka("dead-letters", "retry", "--from", dead, "--dry-run")
    assert said.code == 0
    assert f"queue:{queue}  joe" in said.out
    assert said.out.endswith(f"1 would be sent from queue:{dead}\n")
    assert said.err.startswith(f"warning: unit 'joe' of queue:{queue} went on: ")
    assert received(kafka, queue) == []
    assert json.loads(kafka("dead-letters", "retry", "--from", dead, "--dry-run", "--json").out)["sent"] == 0
    none = kafka("dead-letters", "retry", "--from", dead, "--selector", "_JBM_DELIVERY_COUNT > 5")
    assert none.out.startswith(f"no dead letters in queue:{dead} that the selector chooses; there are others")
    assert [row["body"] for row in received(kafka, dead)] == ["poison"]


def test_a_letter_that_tells_no_origin_is_kept_with_the_reason(
    kafka: Run, queue: str, dead: str, bootstrap: str
) -> None:
    """It was written there by hand; it was lost, or the retry of all others failed."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(dead, b"by hand", partition=0)
    producer.flush(20)
    kafka("send", queue, "--text", "poison")
    give_up(bootstrap, queue, dead, 1)
    said = kafka("dead-letters", "retry", "--from", dead)
    assert (said.code, said.out) == (1, f"1 sent from queue:{dead}, 1 kept\n")
    assert said.err == (
        f"kept in {dead}: ID:kafka:{dead}:0:0: it does not tell where it came from: somebody wrote it to {dead} as it "
        f"is. Receive it from there, or send it on yourself\n"
    )
    (row,) = received(kafka, dead)
    assert (row["body_base64"], row["delivery_count"], row["redelivered"]) == ("YnkgaGFuZA==", 1, False)


def test_many_dead_letters_do_not_fill_the_terminal(kafka: Run, queue: str, dead: str, bootstrap: str) -> None:
    """--count was no option of `list`, only of `retry`."""
    kafka("send", queue, "--text", "poison", "--unit", "joe", "--count", "2")
    give_up(bootstrap, queue, dead, 2)
    for options in ((), ("--json",)):
        said = kafka("dead-letters", "list", "--from", dead, "--count", "1", *options)
        assert said.out.count("poison") == 1
        assert said.err == "1 more is not shown; --count N shows so many, --json without it all\n"


def test_messages_of_a_work_queue_are_not_listed_as_dead_letters(
    kafka: Run, queue: str, dead: str, bootstrap: str
) -> None:
    """With the wrong --from live messages stood there, as letters that nobody knew a reason of."""
    for text in "12":
        kafka("send", queue, "--text", text, "--unit", "joe")
    are = "messages are no dead letters and are left out"
    left_out = f"queue:{queue}: 2 {are}; jbm-kafka browse {queue} shows all\n"
    said = kafka("dead-letters", "list", "--from", queue, "--unit", "joe")
    assert (said.code, said.err) == (0, left_out)
    assert said.out.startswith(f"no dead letters in queue:{queue} of unit joe; ")
    assert "there are others" not in said.out
    said = kafka("dead-letters", "list", "--from", queue, "--json")
    assert (said.code, said.out, said.err) == (0, "", left_out)
    give_up(bootstrap, queue, dead, 1)
    kafka("send", dead, "--text", "by hand")
    said = kafka("dead-letters", "list", "--from", dead, "--json")
    assert [row["body"] for row in _rows(said.out)] == ["1"]
    assert said.err.startswith(f"queue:{dead}: 1 message is no dead letter and is left out; ")


def test_who_looks_into_an_empty_dead_letter_queue_is_told_of_others(
    kafka: Run, queue: str, dead: str, bootstrap: str
) -> None:
    """Letters go where an address says; `dead-letters list` said that there were none, and nothing of --from."""
    kafka("send", queue, "--text", "poison")
    give_up(bootstrap, queue, dead, 1)
    for command in ("list", "retry"):
        said = kafka("dead-letters", command, "--from", queue)  # which is empty now
        assert said.code == 0
        assert said.out.startswith(f"no dead letters in queue:{queue}; there are some in ")
        assert "name one with --from " in said.out
    with Admin(bootstrap) as admin:
        assert Queue(dead) in admin.queues_with_dead_letters(queues_max=1000)
        assert Queue(queue) not in admin.queues_with_dead_letters(queues_max=1000)
        assert kafka("receive", dead).out == "poison\n"
        assert Queue(dead) not in admin.queues_with_dead_letters(queues_max=1000)


def test_half_of_a_queues_letters_lay_in_another_queue_and_nobody_was_told(
    kafka: Run, queue: str, dead: str, kafka_name: str, bootstrap: str
) -> None:
    """One worker's address was misspelt; other queues were named only where the first one had no letter at all."""
    misspelt = f"{kafka_name}.misspelt"
    for text, address in (("1", dead), ("2", misspelt)):
        kafka("send", queue, "--text", text)
        give_up(bootstrap, queue, address, 1)
    for options in ((), ("--json",)):
        said = kafka("dead-letters", "list", "--from", dead, "--origin", queue, *options)
        assert said.code == 0
        assert said.err == (
            f"queue:{dead}: not all from queue:{queue} are here; there are some in {misspelt}: name one with --from "
            f"{misspelt}\n"
        )
    assert kafka("dead-letters", "list", "--from", dead).err == "", "who names no origin asks for this queue"
    said = kafka("dead-letters", "list", "--from", dead, "--origin", queue, "--reason", "expired")
    assert f"; there are some in {misspelt}: name one with" in said.out


@pytest.mark.parametrize("command", ["list", "retry"])
@pytest.mark.parametrize(
    ("reason", "hint"),
    [("nonsense", ""), ("expire", "; did you mean 'expired'?"), ("EXPIRED", "; did you mean 'expired'?")],
)
def test_a_reason_for_which_nothing_leaves_is_refused_with_those_there_are(
    run: Run, command: str, reason: str, hint: str
) -> None:
    """It found no letters, as if there were none."""
    said = run("dead-letters", command, "--reason", reason, "--bootstrap", "127.0.0.1:1")  # nobody is asked
    assert said.code == 2
    assert said.err == (
        f"jbm-kafka dead-letters {command}: Invalid value for '--reason': {reason!r}: messages leave for "
        "'max-delivery-attempts' or 'undecodable' or 'expired' or 'operator'" + hint + "\n"
    )


def test_who_looks_for_dead_letters_in_a_topic_is_told_where_to_receive_them(kafka: Run, kafka_name: str) -> None:
    """A topic has one of each for every subscription: sent again from there a letter would come back several times."""
    topic = f"{kafka_name}-letters"
    assert kafka("create", topic, "--topic").code == 0
    remedy = "receive them there, as with create_durable_consumer(topic, name), and send on what is to be tried again"
    for command in ("list", "retry"):
        said = kafka("dead-letters", command, "--from", f"topic:{topic}")
        assert (said.code, said.out) == (2, "")
        assert remedy in " ".join(said.err.split())
        said = kafka("dead-letters", command, "--from", topic)
        assert (said.code, said.out) == (1, "")
        assert remedy in said.err
        assert said.err.count("\n") == 1


def test_a_dead_letter_address_that_is_a_topic_is_recorded_as_text(kafka: Run, kafka_name: str) -> None:
    said = kafka("settings", "set", kafka_name, "dead_letter_address=topic:news", "expiry_address=queue:late")
    assert (said.code, said.out) == (0, f"{kafka_name}: dead_letter_address=topic:news, expiry_address=late\n")
    said = kafka("settings", "set", kafka_name, "dead_letter_address=topic://news")
    assert said.code == 2
    assert "dead_letter_address is 'topic://news': write 'topic:news'" in " ".join(said.err.split())
    assert kafka("settings", "unset", kafka_name).code == 0


def test_a_letter_that_is_named_and_not_there_is_a_failure(kafka: Run, queue: str) -> None:
    """Nothing was sent, and a script could not see it."""
    of = ("--from", queue)
    for options, told in (
        (("--id", "ID:none"), "with id ID:none"),
        (("--unit", "eve"), "of unit eve"),
        (("--origin", "nosuch"), "from queue:nosuch"),
    ):
        said = kafka("dead-letters", "retry", *of, *options)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith(f"jbm-kafka: no dead letters in queue:{queue} {told}")
    said = kafka("dead-letters", "retry", *of, "--id", "x", "--json")
    assert (said.code, json.loads(said.out)["letters"]) == (1, [])
    assert said.err.endswith("; ids begin with ID:\n")
    assert kafka("dead-letters", "retry", *of).code == 0, "it names none"


def test_what_an_operator_gave_up_is_warned_of_before_it_goes_back(
    kafka: Run, queue: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters that were given up on purpose were sent back without a word."""
    kafka("send", queue, "--text", "kills its workers")
    assert kafka("give-up", queue, "--all", "--dead-letter-address", dead).code == 0
    warning = "warning: 1 of them was given up by an operator (ID:"
    assert kafka("dead-letters", "retry", "--from", dead, "--dry-run").err.startswith(warning)
    asked = ("dead-letters", "retry", "--from", dead)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    said = kafka(*asked)
    assert said.err.startswith(warning)
    assert (said.code, said.err.endswith("jbm-kafka: nothing was sent\n")) == (1, True)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    said = kafka(*asked)
    assert said.out == f"1 sent from queue:{dead}\n"
    assert said.err.count("warning: ") == 1
