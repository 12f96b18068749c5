"""The cluster is away: views say so, and come back by themselves."""

from __future__ import annotations

import logging

import pytest
from starlette.testclient import TestClient

from jbm_kafka.console import app
from jbm_kafka.console.frame.console import LookedAtCluster
from jbm_kafka.devbroker.ports import free_port
from tests.console.looking import Looking
from tests.support.waiting import wait_until


def test_while_nobody_answers_every_view_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    made = app(LookedAtCluster(f"127.0.0.1:{free_port()}", {"socket.connection.setup.timeout.ms": "1000"}))
    looking = Looking(TestClient(made, base_url="http://127.0.0.1", client=("127.0.0.1", 1)), made.state.console)
    assert looking.page("/")
    wait_until(lambda: "127.0.0.1" in looking.console.trouble, about="a step that failed", timeout_s=60)
    page = looking.page("/")
    assert "<strong>Kafka:</strong>" in page
    trouble = looking.page("/topics", 503)
    assert "tried again" in trouble
    assert 'data-live="5"' in trouble
    assert looking.json("/topics", 503)["error"]
    assert "127.0.0.1" in looking.json("/")["trouble"], "a program learns, too, that the figures are old"
    looking.console.close()
