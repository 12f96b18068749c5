"""The measurement of the console at size, small, so that `make console-size` runs when somebody wants it."""

from __future__ import annotations

import pytest

from jbm_kafka.console import app
from jbm_kafka.console.app import VIEWS
from jbm_kafka.console.frame.view import API
from jbm_kafka.console.serving import ConsoleAddress, ConsoleServer
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.house import console_size


def test_every_view_is_looked_at_by_every_browser(world: MemoryWorld, capsys: pytest.CaptureFixture[str]) -> None:
    console_size.fill(world.url, 60, 6)
    with ConsoleServer(app(world.url), ConsoleAddress(port=0)) as server:
        console_size.measured(server.port, 3)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:24].strip() for line in lines[2:]] == list(console_size.PAGES)
    assert [line for line in lines if "refused" in line and "[200]" not in line] == []


def test_no_view_of_queues_is_left_out() -> None:
    """But for those of one action and of a letter that is edited, which are pages of a moment."""
    paths = {path.partition("?")[0].removeprefix(API).replace("/big", "/{name}").replace("/DLQ", "/{name}")
             for path in console_size.PAGES.values()}  # fmt: skip
    views = {view.path for view in VIEWS if not view.path.startswith("/topics/")}
    assert views - paths == {"/runs/{id}", "/queues/{name}/edit"}
