"""`jbm-kafka release`: what is on hold is shown, and let go on."""

import json

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from tests.cli.conftest import Run
from tests.jms.support import receive

HOLD = {"#": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold", dead_letter_address=None)}


def test_a_unit_on_hold_is_shown_and_released(kafka: Run, queue: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "x", "--unit", "joe")
    with ConnectionFactory(bootstrap, address_settings=HOLD).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        receive(session.create_consumer(Queue(queue))).nack()
    said = kafka("release", queue, "--all", "--dry-run")
    assert said.out.splitlines()[-1] == (
        f"queue:{queue}: 1 message would be released, to leave for the dead-letter address"
    )
    assert json.loads(kafka("release", queue, "--unit", "jane", "--json").out)["messages"] == []
    said = kafka("release", queue, "--unit", "joe", "--again")
    assert (said.code, said.out.splitlines()[-1]) == (0, f"queue:{queue}: 1 message released, to be tried again")
    assert kafka("receive", queue).out == "x\n"
    said = kafka("release", queue, "--all")
    assert (said.code, said.out) == (0, f"queue:{queue}: nothing of that is on hold\n")


def test_which_are_meant_must_be_said(run: Run) -> None:
    for options in ((), ("--all", "--unit", "joe")):
        said = run("release", "orders", *options)
        assert said.code == 2
        assert said.err.endswith("Error: say which: --unit U, --id ID, or --all\n")
