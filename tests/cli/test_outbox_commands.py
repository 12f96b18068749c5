"""`jbm-kafka outbox`: the table, a relay, and what could not be sent."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from jbm_kafka import Queue
from jbm_kafka.admin import Admin
from jbm_kafka.outbox import Outbox
from tests.cli.conftest import Run
from tests.metrics.test_server import get
from tests.support.waiting import wait_until


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = create_engine(database)
    yield engine
    engine.dispose()


def add(engine: Engine, *queues: str) -> None:
    with engine.begin() as connection:
        for queue in queues:
            Outbox().add(connection, queue, "x", unit_of_order="joe")


@pytest.mark.parametrize("mode", [[], ["--exactly-once"]])
def test_a_relay_sends_and_the_rest_is_listed_retried_and_dropped(
    run: Run, url: str, database: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, mode: list[str]
) -> None:
    """OUTBOX-5"""
    monkeypatch.setenv("JBM_OUTBOX_DATABASE", database)
    assert run("outbox", "create").out == "jbm_outbox is there\n"
    with Admin(url) as admin:
        admin.create_queue(Queue("orders"))
        add(engine, "orders", "gone", "gone", "lost", "lost")

        def relay() -> int:
            def end_when_nothing_is_left() -> None:
                with engine.connect() as connection:
                    held = {"queue:gone", "queue:lost"}
                    wait_until(
                        lambda: (
                            all(row.destination in held for row in Outbox().rows(connection, state="waiting"))
                            and len(Outbox().rows(connection)) == Outbox().counts(connection).failed > 0
                        ),
                        about="a relay that has done what it can",
                        timeout_s=30,
                    )
                os.kill(os.getpid(), signal.SIGTERM)

            ending = threading.Thread(target=end_when_nothing_is_left)
            ending.start()
            said = run("outbox", "relay", "--bootstrap", url, "--poll-ms", "5", *mode)
            ending.join()
            assert said.code == 0
            return int(said.err.splitlines()[-1].removesuffix(" sent"))

        assert relay() == 1
        listed = run("outbox", "list").out
        assert listed.splitlines()[0] == "2 waiting, 2 failed, 1 sent and kept"
        assert "queue:gone" in listed
        rows = json.loads(run("outbox", "list", "--json").out)
        assert [(row["destination"], row["unit"], row["attempts"]) for row in rows] == [
            ("queue:gone", "joe", 1),
            ("queue:lost", "joe", 1),
        ]
        gone, lost = (str(row["id"]) for row in rows)
        assert run("outbox", "drop", lost).out == "1 dropped\n"
        admin.create_queue(Queue("gone"))
        assert run("outbox", "retry", gone, "--json").out == '{"retried": 1}\n'
        assert relay() == 2
    assert run("outbox", "drop", "--all").out == "1 dropped\n"
    assert run("outbox", "list", "--state", "waiting").out == "0 waiting, 0 failed, 3 sent and kept\n"


def test_what_is_not_there_is_a_line_and_changes_nothing(run: Run, url: str, database: str, engine: Engine) -> None:
    at = ("--database", database)
    for command in (["list"], ["retry", "--all"], ["relay", "--bootstrap", url]):
        said = run("outbox", *command, *at)
        remedy = "`jbm-kafka outbox create` makes the table"
        assert (said.code, said.err) == (1, f"jbm-kafka: the database says: no such table: jbm_outbox; {remedy}\n")
    run("outbox", "create", *at)
    said = run("outbox", "drop", "7", *at)
    assert (said.code, said.err) == (1, "jbm-kafka: 1 of 1 ids are of no failed message; nothing was changed\n")
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("retry", *at), "give the ids of the list, or --all"),
        (("drop", "1", "--all", *at), "give the ids of the list, or --all"),
        (("list",), "--database"),
        (("list", "--database", "shop.db"), "--database is no URL"),
        (("list", "--database", "oracle+none://x/y"), "--database: "),
        (("list", "--table", "a b", *at), "name is 'a b'"),
    ]
    for arguments, told in wrong:
        said = run("outbox", *arguments)
        assert said.code in (1, 2)
        assert told in said.err
        assert said.err.count("\n") == 1


def test_without_the_extra_it_tells_what_to_install(run: Run, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    said = run("outbox", "list", "--database", database)
    assert (said.code, said.err) == (1, "jbm-kafka: this needs SQLAlchemy: pip install 'jbm-kafka[outbox]'\n")


def test_its_metrics_and_health_are_served(
    run: Run, url: str, database: str, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """OUTBOX-6"""
    run("outbox", "create", "--database", database)
    add(engine, "gone")
    answers: list[tuple[int, str]] = []
    port = 0

    def ask() -> None:
        nonlocal port
        try:
            wait_until(lambda: get(port, "/readyz")[0] == 200, about="ready", timeout_s=30)
            wait_until(lambda: 'jbm_outbox_failed{table="jbm_outbox"} 1.0' in get(port, "/metrics")[1], about="failed",
                       timeout_s=30)  # fmt: skip
            answers.append(get(port, "/healthz"))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asking = threading.Thread(target=ask)
    asking.start()
    code = run("outbox", "relay", "--database", database, "--bootstrap", url, "--metrics-port", str(port)).code
    asking.join()
    assert (code, answers) == (0, [(200, "ok\n")])
