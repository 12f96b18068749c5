"""`jbm-kafka release`: what is on hold is shown, and let go on."""

import json
import shlex

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from tests.cli.conftest import Run
from tests.jms.support import receive

HOLD = {"#": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold", dead_letter_address=None)}


def test_a_unit_on_hold_is_shown_and_released(cli: Run, queue: str, url: str) -> None:
    cli("send", queue, "--text", "x", "--unit", "joe")
    with ConnectionFactory(url, address_settings=HOLD).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        receive(session.create_consumer(Queue(queue))).nack()
    said = cli("release", queue, "--all", "--dry-run")
    assert said.out.splitlines()[-1] == (
        f"queue:{queue}: 1 message would be released, to leave for the dead-letter address"
    )
    for said in (cli("release", queue, "--unit", "jane"), cli("release", queue, "--unit", "jane", "--dry-run")):
        assert (said.code, said.out) == (1, "")
        assert said.err == f"jbm-kafka: queue:{queue}: no message of unit 'jane' is on hold\n"
    said = cli("release", queue, "--id", "x", "--json")
    assert (said.code, json.loads(said.out)["messages"]) == (1, [])
    assert said.err == f"jbm-kafka: queue:{queue}: no message with id 'x' is on hold\n"
    said = cli("release", queue, "--unit", "joe", "--again")
    assert (said.code, said.out.splitlines()[-1]) == (0, f"queue:{queue}: 1 message released, to be tried again")
    assert cli("receive", queue).out == "x\n"
    said = cli("release", queue, "--all")
    assert (said.code, said.out) == (0, f"queue:{queue}: nothing of that is on hold\n")


def test_the_release_that_explain_and_show_print_can_be_typed(cli: Run, queue: str, url: str) -> None:
    """They printed `jbm-kafka release` alone, which is refused."""
    for unit in ("joe's books", "-x"):
        cli("send", queue, "--text", "x", f"--unit={unit}")
    with ConnectionFactory(url, address_settings=HOLD).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(Queue(queue))
        for _ in range(2):
            receive(consumer).nack()
    shown = cli("show", queue).out
    assert f"2 are on hold, each with its unit (on_dead_letter='hold'); jbm-kafka release {queue} --all" in shown
    assert f"{queue}: 2 on hold; jbm-kafka explain {queue} tells why\n" in cli("list").out
    printed = [line for line in cli("explain", queue).out.splitlines() if " release " in line]
    assert len(printed) == 2
    for line in printed:
        command, *rest = shlex.split(line.partition(" gives it up")[0])
        assert (command, cli(*rest).code) == ("jbm-kafka", 0), line
    assert cli("release", queue, "--all").out == f"queue:{queue}: nothing of that is on hold\n"
