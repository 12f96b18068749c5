"""`jbm-kafka pause` and `resume`, and what `show` and `list` say meanwhile."""

import json
import signal
import subprocess
import sys

import pytest

from jbm_kafka.admin import Admin
from jbm_kafka.codec.pause_record import Halt, Pause, decode_pause, encode_pause
from tests.cli.conftest import Run
from tests.support.waiting import wait_until


def test_a_pause_is_made_shown_and_ended(kafka: Run, queue: str) -> None:
    said = kafka("pause", queue, "--by", "ann")
    assert said.code == 0
    assert said.out.startswith(f"{queue}: sending paused by ann since ")
    assert ", receiving paused by ann since " in said.out
    refused = kafka("send", queue, "--text", "x")
    assert refused.code == 1
    assert "sending is paused by ann since" in refused.err
    assert refused.err.endswith(f"jbm-kafka resume {queue}\n")
    assert f"it goes on with: jbm-kafka resume {queue}\n" in kafka("show", queue).out
    assert f"{queue}: sending paused by ann since" in kafka("list").out
    refused = kafka("receive", queue, "--timeout", "0")
    assert refused.code == 1
    assert ": no message came within 0 s: receiving is paused by ann since " in refused.err
    assert refused.err.endswith(f"; jbm-kafka resume {queue} lets it go on\n")
    left = json.loads(kafka("resume", queue, "--only", "production", "--json").out)
    assert (left["production"], left["consumption"]["by"]) == (None, "ann")
    assert kafka("send", queue, "--text", "x").code == 0
    assert json.loads(kafka("show", queue, "--json").out)["paused"]["consumption"] == left["consumption"]
    told = kafka("resume", queue).out
    assert told.startswith(f"{queue}: not paused any more; before, receiving paused by ann since "), "of whose it was"
    assert kafka("receive", queue).out == "x\n"


@pytest.mark.parametrize(("only", "told"), [("sending", "production"), ("receiving", "consumption")])
def test_what_is_paused_has_the_words_that_are_shown(kafka: Run, queue: str, only: str, told: str) -> None:
    """`--only` took other words than `pause` itself printed; they still work."""
    said = kafka("pause", queue, "--only", only, "--by", "ann")
    assert said.out.startswith(f"{queue}: {only} paused by ann since ")
    assert ", " not in said.out
    ended = kafka("resume", queue, "--only", told).out
    assert ended.startswith(f"{queue}: not paused any more; before, {only} paused by ann since ")


def test_what_was_not_paused_is_not_said_to_go_on(kafka: Run, queue: str) -> None:
    """A misspelt name, or the other half: it was 0, with the words of a real resume."""
    said = kafka("resume", queue)
    assert (said.code, said.out, said.err) == (1, "", f"jbm-kafka: {queue}: it was not paused\n")
    kafka("pause", queue, "--only", "receiving", "--by", "ann")
    said = kafka("resume", queue, "--only", "sending", "--json")
    assert (said.code, json.loads(said.out)["consumption"]["by"]) == (1, "ann")
    assert said.err.startswith(f"jbm-kafka: {queue}: sending was not paused; receiving paused by ann since ")
    assert kafka("resume", queue).code == 0


def test_an_interrupted_pause_is_told_as_one_that_holds(kafka: Run, queue: str, bootstrap: str) -> None:
    """It said "interrupted" alone, and nobody could send any more."""
    command = [sys.executable, "-m", "jbm_kafka.cli.main", "pause", queue, "--bootstrap", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as pausing:
        with Admin(bootstrap) as admin:
            wait_until(lambda: admin.paused(queue) != Pause(), about="it is recorded", timeout_s=60)
        pausing.send_signal(signal.SIGINT)
        out, said = pausing.communicate()
    told = f"paused already, and processes hear it within 3 s; jbm-kafka resume {queue} ends that\n"
    # `may be`: the signal came before the command itself knew that it is recorded.
    states = [f"jbm-kafka: interrupted: {queue} {state} {told}" for state in ("is", "may be")]
    assert (pausing.returncode, out, said in states) == (1, "", True), said
    assert kafka("resume", queue).code == 0


def test_what_is_recorded_of_a_pause_steers_no_terminal() -> None:
    """An older version took any text, and every receiver that waits shows it."""
    recorded = encode_pause(Pause(consumption=Halt("night\n\x1b[31m", 1)))
    assert recorded is not None
    assert decode_pause(recorded).consumption == Halt("night\ufffd\ufffd[31m", 1)
