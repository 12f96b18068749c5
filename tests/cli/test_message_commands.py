"""`jbm-kafka move`, `remove`, `expire` and `give-up`."""

import json

import pytest

from tests.cli.conftest import Run


def test_messages_are_moved_removed_and_given_up(kafka: Run, queue: str) -> None:
    """Of UNIT-14."""
    other = f"{queue}.other"
    assert kafka("create", other, "--partitions", "2").code == 0
    for number in range(3):
        kafka("send", queue, "--text", f"joe {number}", "--unit", "joe", "--property", f"number:int={number}")
    kafka("send", queue, "--text", "ann", "--unit", "ann")
    split = kafka("move", queue, "--to", other, "--selector", "number = 1")
    assert (split.code, split.err.count("\n")) == (1, 1)
    assert split.err.endswith("choose whole units, or give up their order with --split-units\n")
    dry = kafka("move", queue, "--to", other, "--unit", "joe", "--dry-run")
    assert dry.out.splitlines()[-1] == f"queue:{queue}: 3 messages would be moved to {other}"
    assert f"warning: not paused: sending to {queue}" in dry.err
    said = json.loads(kafka("move", queue, "--to", other, "--unit", "joe", "--json").out)
    assert ([each["unit"] for each in said["messages"]], said["address"], said["kept"]) == (["joe"] * 3, other, [])
    said = kafka("give-up", other, "--selector", "number = 0")
    assert said.out.splitlines()[-1] == f"queue:{other}: 1 message given up to DLQ"
    letters = kafka("dead-letters", "list", "--origin", other, "--json").out
    assert json.loads(letters)["dead_letter"]["reason"] == "operator"
    said = kafka("remove", other, "--all", "--count", "1", "--yes")
    assert said.out.splitlines()[-1] == f"queue:{other}: 1 message removed; 1 more left for another time"
    assert kafka("receive", other).out == "joe 2\n"
    said = kafka("expire", queue, "--all")
    assert said.out.splitlines()[-1] == f"queue:{queue}: 1 message expired to ExpiryQueue"
    said = kafka("expire", queue, "--all")
    assert (said.code, said.out) == (0, f"queue:{queue}: 0 messages expired\n")


@pytest.mark.parametrize("command", [("move", "--to", "other"), ("remove", "--yes"), ("expire",), ("give-up",)])
def test_which_are_meant_must_be_said(run: Run, command: tuple[str, ...]) -> None:
    say_which = "say which: --unit U, --id ID or --selector S, or else --all"
    both = "--all means all messages, and --unit, --id or --selector only some: give one or the other"
    for options, error in (((), say_which), (("--all", "--unit", "joe"), both)):
        said = run(command[0], "orders", *command[1:], *options)
        assert said.code == 2
        assert said.err.endswith(f"Error: {error}\n")


def test_nothing_is_removed_where_nobody_can_be_asked(run: Run) -> None:
    said = run("remove", "orders", "--all")
    assert said.code == 2
    assert "give --yes" in said.err
