"""`explain` tells each cause once, with how many it keeps and what can be done, and then what it keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbm_kafka.admin import ExplainedMessage, Reason, Rule
from jbm_kafka.admin.explain.reasons import reason
from jbm_kafka.cli.reason_lines import ReasonLines
from tests.cli.conftest import Run

SILENT = reason(Rule.OWNER_SILENT, member="process 7 at worker-3", say="answer")


def message(offset: int, *reasons: Reason, unit: str | None = None) -> ExplainedMessage:
    return ExplainedMessage(
        partition=0, offset=offset, message_id=f"ID:{offset}", unit=unit, sent_at_ms=1_000, attempts=0, behind=0,
        reasons=reasons,
    )  # fmt: skip


def head(offset: int, who: str = "a message without a unit") -> str:
    return f"{who}: partition 0 offset {offset}, ID:{offset}, sent 1970-01-01 00:00:01 UTC"


def test_nobody_receives_was_told_of_each_message_again(capsys: pytest.CaptureFixture[str]) -> None:
    nobody, lines = reason(Rule.NOBODY_RECEIVES), ReasonLines()
    lines.show([nobody])
    lines.of_messages([message(1, nobody), message(2, nobody)])
    assert capsys.readouterr().out.splitlines() == ["nobody receives", "  start a receiver", head(1), head(2)]


def test_what_keeps_several_alike_is_told_once_with_their_number(capsys: pytest.CaptureFixture[str]) -> None:
    silent, delayed, lines = SILENT, reason(Rule.DELAYED, failure=""), ReasonLines()
    lines.of_messages([message(1, silent), message(2, delayed, unit="joe"), message(3, silent)])
    lines.show([silent])
    assert capsys.readouterr().out.splitlines() == [
        "2 units or messages:",
        f"  {silent.text}",
        f"    {silent.remedy}",
        f"    {head(1)}",
        f"    {head(3)}",
        head(2, "unit joe"),
        f"  {delayed.text}",
        f"    {delayed.remedy}",
    ]


def test_units_that_wait_until_the_same_second_were_told_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty that came back together took forty lines, with the same words in each second."""
    delayed = reason(Rule.DELAYED, failure="")
    ReasonLines().of_messages(message(offset, replace(delayed, until_ms=5_000 + offset)) for offset in (1, 2))
    assert capsys.readouterr().out.splitlines() == [
        "2 units or messages:",
        f"  {delayed.text}, until 1970-01-01 00:00:05 UTC",
        f"    {delayed.remedy}",
        f"    {head(1)}",
        f"    {head(2)}",
    ]


def test_nothing_is_held_was_told_of_a_queue_that_holds_what_is_younger(cli: Run, queue: str) -> None:
    """And what keeps the first of many was told of each of them."""
    for text in "1234":
        cli("send", queue, "--text", text)
    said = cli("explain", queue, "--older-than", "1000")
    assert "nothing is held" not in said.out
    said = cli("explain", queue)
    assert (said.out.count("nobody receives"), said.out.count("start a receiver")) == (1, 1)
