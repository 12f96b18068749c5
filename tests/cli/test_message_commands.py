"""`jbm-kafka move`, `remove`, `expire` and `give-up`."""

import json

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from tests.cli.conftest import Run
from tests.jms.support import receive


def test_messages_are_moved_removed_and_given_up(cli: Run, queue: str) -> None:
    """Of UNIT-14."""
    other = f"{queue}.other"
    assert cli("create", other, "--partitions", "2").code == 0
    for number in range(3):
        cli("send", queue, "--text", f"joe {number}", "--unit", "joe", "--property", f"number:int={number}")
    cli("send", queue, "--text", "ann", "--unit", "ann")
    split = cli("move", queue, "--to", other, "--selector", "number = 1")
    assert (split.code, split.err.count("\n")) == (1, 1)
    assert split.err.endswith("choose whole units, or give up their order with --split-units\n")
    dry = cli("move", queue, "--to", other, "--unit", "joe", "--dry-run")
    assert dry.out.splitlines()[-1] == f"queue:{queue}: 3 messages would be moved to {other}"
    assert f"warning: not paused: sending to {queue}" in dry.err
    said = json.loads(cli("move", queue, "--to", other, "--unit", "joe", "--json").out)
    assert ([each["unit"] for each in said["messages"]], said["address"], said["kept"]) == (["joe"] * 3, other, [])
    said = cli("give-up", other, "--selector", "number = 0")
    assert said.out.splitlines()[-1] == f"queue:{other}: 1 message given up to DLQ"
    letters = cli("dead-letters", "list", "--origin", other, "--json").out
    assert json.loads(letters)["dead_letter"]["reason"] == "operator"
    said = cli("remove", other, "--all", "--count", "1", "--yes")
    assert said.out.splitlines()[-1] == f"queue:{other}: 1 message removed; 1 more left for another time"
    assert cli("receive", other).out == "joe 2\n"
    said = cli("expire", queue, "--all")
    assert said.out.splitlines()[-1] == f"queue:{queue}: 1 message expired to ExpiryQueue"
    said = cli("expire", queue, "--all")
    assert (said.code, said.out) == (0, f"queue:{queue}: 0 messages expired\n")


def test_a_unit_or_an_id_that_is_not_there_is_a_failure(cli: Run, queue: str) -> None:
    """Nothing was done, and a script could not see it."""
    cli("send", queue, "--text", "x", "--unit", "joe")
    sent = json.loads(cli("browse", queue, "--json").out)["message_id"]
    for options, told in (
        (("--id", "x"), "no message with id 'x' is there"),
        (("--id", "ID:none", "--unit", "joe"), "no message of unit 'joe' with id 'ID:none' is there"),
        (("--unit", "eve"), "no message of unit 'eve' is there"),
        (
            ("--id", sent, "--id", "ID:none", "--dry-run"),
            "no message with id 'ID:none' is there; the others were found",
        ),
    ):
        said = cli("give-up", queue, *options)
        assert (said.code, said.err) == (1, f"jbm-kafka: queue:{queue}: {told}\n")
    said = cli("remove", queue, "--unit", "eve", "--yes", "--json")
    assert (said.code, json.loads(said.out)["messages"], said.err.count("\n")) == (1, [], 1)
    assert cli("remove", queue, "--selector", "qty = 1", "--yes").code == 0, "it chooses; it names nothing"


def test_nothing_done_to_what_was_named_is_a_failure(cli: Run, queue: str, url: str) -> None:
    """`give-up` of a unit that a worker had ended with 0, and `move` with 1."""
    cli("send", queue, "--text", "x", "--unit", "joe")
    with ConnectionFactory(url).create_context(AcknowledgeMode.CLIENT) as jms:
        assert jms.create_consumer(Queue(queue)).receive(timeout=20) is not None
        for command in (("give-up",), ("expire",), ("remove", "--yes"), ("remove", "--dry-run")):
            said = cli(command[0], queue, "--unit", "joe", *command[1:])
            assert said.code == 1
            assert "0 messages " in said.out
            assert said.err.endswith(
                ": what was named is in a worker's hand (jbm-kafka explain tells whose); again when it is done\n"
            )
        assert cli("give-up", queue, "--all").code == 0, "nothing is named"


def test_a_command_that_names_no_address_does_not_advise_to_unset_the_registrys(
    cli: Run, queue: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It warned that its factory says DLQ, which nobody had given it; who followed it changed it for all workers."""
    letters, late = f"{queue}.dl", f"{queue}.late"
    for name in (letters, late):
        assert cli("create", name, "--partitions", "1").code == 0
    assert cli("settings", "set", queue, f"dead_letter_address={letters}", f"expiry_address={late}").code == 0
    for unit in ("held", "bad", "old"):
        cli("send", queue, "--text", "x", "--unit", unit)
    hold = AddressSettings(max_delivery_attempts=1, on_dead_letter="hold")
    with ConnectionFactory(url, address_settings={queue: hold}).create_connection() as connection:
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(Queue(queue))
        message = receive(consumer)
        while message.unit_of_order != "held":
            message = receive(consumer)
        message.nack()
    for command, told in (
        (("release", queue, "--all"), "1 message released, to leave for the dead-letter address"),
        (("give-up", queue, "--unit", "bad"), f"1 message given up to {letters}"),
        (("expire", queue, "--all"), f"1 message expired to {late}"),
    ):
        assert cli(*command).out.splitlines()[-1] == f"queue:{queue}: {told}"
    assert "as the registry says" not in caplog.text
    cli("send", queue, "--text", "x", "--unit", "bad")
    cli("give-up", queue, "--unit", "bad", "--dead-letter-address", late)
    assert f"is {letters!r}, as the registry says for {queue!r}, and not {late!r}" in caplog.text
