"""The demo as a user runs it: a process of its own, on the broker of this test run or on one that it starts itself."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker
from tests.support.topics import delete_topics_beginning_with

Start = Callable[..., "subprocess.Popen[str]"]


def _start(started: ExitStack, *options: str, **environment: str) -> "subprocess.Popen[str]":
    demo = started.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "jbm_kafka.cli.main", "demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "150", **environment},
        )
    )
    started.callback(demo.kill)
    return demo


@pytest.fixture
def start_demo(bootstrap: str, tmp_path: Path) -> Iterator[Start]:
    """Starts `jbm-kafka demo` on the tests' broker with the given options; it dies with the test."""
    with ExitStack() as started:
        # What a killed demo cannot remove goes with the test.
        yield lambda *options: _start(started, "--bootstrap", bootstrap, *options, TMPDIR=str(tmp_path))
    delete_topics_beginning_with(bootstrap, "bookstore.")


@pytest.fixture
def own_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBroker]:
    """The broker, not running yet, of the user as whom `start_demo_alone` starts a demo."""
    monkeypatch.setenv("JBM_HOME", str(tmp_path))
    monkeypatch.delenv("JBM_BOOTSTRAP", raising=False)
    broker = LocalBroker()
    yield broker
    broker.kill()


@pytest.fixture
def start_demo_alone(own_broker: LocalBroker) -> Iterator[Start]:
    """Starts `jbm-kafka demo` without a broker; it starts `own_broker`."""
    with ExitStack() as started:
        yield lambda *options: _start(started, *options)
