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


def report_of(completions: Completions, body: str, listener: CompletionListener) -> CallbackReport:
    """The report of a send, which has not returned yet."""
    completions.begin()
    return CallbackReport(
        TextMessage(body),
        listener,
        completions.wake,
        SendOrder(),
        lambda trouble, _: JMSError(str(trouble)),
        Queue("q"),
    )


def test_callbacks_come_in_send_order_also_of_a_send_that_is_confirmed_before_it_returns(
    told: list[tuple[object, Exception | None]],
) -> None:
    """SEND-9: and a send that does not return, for it was refused or interrupted, has none and holds up no other."""
    completions = Completions()

    def tell(message: Message, error: Exception | None) -> None:
        told.append((message.body, error))

    first, interrupted, later = (report_of(completions, body, tell) for body in ("first", "interrupted", "later"))
    completions.expect(first)
    interrupted(None)
    later(None)
    completions.expect(later)
    assert not completions.wait_done(0.05)
    assert told == []
    first(None)
    assert completions.wait_done(SOON_S)
    assert told == [("first", None), ("later", None)]
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
        report = report_of(completions, str(number), tell)
        completions.expect(report)
        report(None)
    assert completions.wait_done(SOON_S)
    assert [body for body, _ in told] == ["0", "1", "2", "3", "4"]
    assert caplog.text.count("the send itself is as it was reported") == 5
    completions.stop()
