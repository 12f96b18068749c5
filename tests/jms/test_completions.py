"""Which callbacks come, in which order, by themselves; without a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.sends.completions import Completions
from jbm_kafka.jms.sends.send_order import SendOrder
from jbm_kafka.jms.sends.send_reports import CallbackReport, CompletionListener
from tests.jms.support import SOON_S


@pytest.fixture
def told() -> list[tuple[object, Exception | None]]:
    return []


def expected(completions: Completions, message: Message, listener: CompletionListener) -> CallbackReport:
    """The report of a send about to be made."""
    report = CallbackReport(
        message, listener, completions.wake, SendOrder(), lambda trouble, _: JMSError(str(trouble)), Queue("q")
    )
    completions.expect(report)
    return report


def test_a_message_sent_again_and_refused_at_once_keeps_the_callback_of_its_first_send(
    told: list[tuple[object, Exception | None]],
) -> None:
    """SEND-9: the refused send alone has none; later ones come."""
    completions = Completions()

    def tell(message: Message, error: Exception | None) -> None:
        told.append((message.body, error))

    twice, later = TextMessage("twice"), TextMessage("later")
    first = expected(completions, twice, tell)
    refused = expected(completions, twice, tell)
    completions.withdraw(refused)
    after = expected(completions, later, tell)
    after(None)
    assert told == []
    first(None)
    assert completions.wait_done(SOON_S)
    assert told == [("twice", None), ("later", None)]
    completions.stop()


def test_a_refused_send_does_not_hold_up_who_waits_for_callbacks(
    told: list[tuple[object, Exception | None]],
) -> None:
    """SEND-9: nor those of later sends, reported before it was withdrawn."""
    completions = Completions()
    refused = expected(completions, TextMessage("refused"), lambda message, error: told.append((message.body, error)))
    after = expected(completions, TextMessage("later"), lambda message, error: told.append((message.body, error)))
    after(None)
    assert told == []
    completions.withdraw(refused)
    assert completions.wait_done(SOON_S)
    assert told == [("later", None)]
    completions.stop()


@pytest.mark.parametrize("leave", [lambda: sys.exit(3), lambda: (_ for _ in ()).throw(KeyboardInterrupt())])
def test_sys_exit_in_a_completion_callback_does_not_end_the_callbacks(
    leave: Callable[[], object], told: list[tuple[object, Exception | None]], caplog: pytest.LogCaptureFixture
) -> None:
    """SEND-9: each of five comes, and whoever waits for them is let go."""
    completions = Completions()

    def tell(message: Message, error: Exception | None) -> None:
        told.append((message.body, error))
        leave()

    for number in range(5):
        expected(completions, TextMessage(str(number)), tell)(None)
    assert completions.wait_done(SOON_S)
    assert [body for body, _ in told] == ["0", "1", "2", "3", "4"]
    assert caplog.text.count("the send itself is as it was reported") == 5
    completions.stop()
