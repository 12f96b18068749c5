"""`jbm-kafka pause` and `resume`, and what `show` and `list` say meanwhile."""

import json

import pytest

from jbm_kafka.codec.pause_record import Halt, Pause, decode_pause, encode_pause
from tests.cli.conftest import Run


def test_a_pause_is_made_shown_and_ended(cli: Run, queue: str) -> None:
    said = cli("pause", queue, "--by", "ann")
    assert said.code == 0
    assert said.out.startswith(f"{queue}: sending paused by ann since ")
    assert ", receiving paused by ann since " in said.out
    refused = cli("send", queue, "--text", "x")
    assert refused.code == 1
    assert "sending is paused by ann since" in refused.err
    assert f"it goes on with: jbm-kafka resume {queue}\n" in cli("show", queue).out
    assert f"{queue}: sending paused by ann since" in cli("list").out
    refused = cli("receive", queue, "--timeout", "0")
    assert refused.code == 1
    assert ": no message came within 0 s: receiving is paused by ann since " in refused.err
    assert refused.err.endswith(f"; jbm-kafka resume {queue} lets it go on\n")
    left = json.loads(cli("resume", queue, "--only", "production", "--json").out)
    assert (left["production"], left["consumption"]["by"]) == (None, "ann")
    assert cli("send", queue, "--text", "x").code == 0
    assert json.loads(cli("show", queue, "--json").out)["paused"]["consumption"] == left["consumption"]
    told = cli("resume", queue).out
    assert told.startswith(f"{queue}: not paused any more; before, receiving paused by ann since "), "of whose it was"
    assert cli("receive", queue).out == "x\n"


@pytest.mark.parametrize(("only", "told"), [("sending", "production"), ("receiving", "consumption")])
def test_what_is_paused_has_the_words_that_are_shown(cli: Run, queue: str, only: str, told: str) -> None:
    """`--only` took other words than `pause` itself printed; they still work."""
    said = cli("pause", queue, "--only", only, "--by", "ann")
    assert said.out.startswith(f"{queue}: {only} paused by ann since ")
    assert ", " not in said.out
    ended = cli("resume", queue, "--only", told).out
    assert ended.startswith(f"{queue}: not paused any more; before, {only} paused by ann since ")


def test_what_was_not_paused_is_not_said_to_go_on(cli: Run, queue: str) -> None:
    """A misspelt name, or the other half: it was 0, with the words of a real resume."""
    said = cli("resume", queue)
    assert (said.code, said.out, said.err) == (1, "", f"jbm-kafka: {queue}: it was not paused\n")
    cli("pause", queue, "--only", "receiving", "--by", "ann")
    said = cli("resume", queue, "--only", "sending", "--json")
    assert (said.code, json.loads(said.out)["consumption"]["by"]) == (1, "ann")
    assert said.err.startswith(f"jbm-kafka: {queue}: sending was not paused; receiving paused by ann since ")
    assert cli("resume", queue).code == 0


def test_what_is_recorded_of_a_pause_steers_no_terminal() -> None:
    """An older version took any text, and every receiver that waits shows it."""
    recorded = encode_pause(Pause(consumption=Halt("night\n\x1b[31m", 1)))
    assert recorded is not None
    assert decode_pause(recorded).consumption == Halt("night\ufffd\ufffd[31m", 1)
