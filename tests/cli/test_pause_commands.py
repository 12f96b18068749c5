"""`jbm-kafka pause` and `resume`, and what `show` and `list` say meanwhile."""

import json

from tests.cli.conftest import Run


def test_a_pause_is_made_shown_and_ended(kafka: Run, queue: str) -> None:
    said = kafka("pause", queue, "--by", "ann")
    assert said.code == 0
    assert said.out.startswith(f"{queue}: sending paused by ann since ")
    assert ", receiving paused by ann since " in said.out
    refused = kafka("send", queue, "--text", "x")
    assert refused.code == 1
    assert "producing is paused by ann since" in refused.err
    assert refused.err.endswith(f"jbm-kafka resume {queue}\n")
    assert f"it goes on with: jbm-kafka resume {queue}\n" in kafka("show", queue).out
    assert f"{queue}: sending paused by ann since" in kafka("list").out
    left = json.loads(kafka("resume", queue, "--only", "production", "--json").out)
    assert (left["production"], left["consumption"]["by"]) == (None, "ann")
    assert kafka("send", queue, "--text", "x").code == 0
    assert json.loads(kafka("show", queue, "--json").out)["paused"]["consumption"] == left["consumption"]
    assert kafka("resume", queue).out == f"{queue}: not paused\n"
    assert kafka("receive", queue).out == "x\n"
