"""`jbm-kafka store`: what waits is shown, forwarded when its sender is gone, and dropped when nobody wants it."""

import json
import logging
import os
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Queue
from tests.cli.conftest import Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store whose sender found nobody, and has gone: one that is too large for any queue, and two that are not."""
    path = tmp_path / "stored"
    with ConnectionFactory("127.0.0.1:1", store_and_forward=path, store_fsync=False).create_sender() as sender:
        sender.send(Queue("orders"), "1", unit_of_order="joe", headers={"padding": os.urandom(2_000_000)})
        sender.send(Queue("orders"), "2", unit_of_order="joe")
        sender.send(Queue("others"), "3")
    return path


def test_it_is_shown_forwarded_and_dropped(run: Run, cli: Run, folder: Path) -> None:
    """SAF-2, SAF-6"""
    said = run("store", "show", str(folder))
    assert said.out.startswith("3 waiting (2000"), said.out
    assert ", 0 dead letters\n" in said.out
    assert [row["unit"] for row in json.loads(run("store", "show", str(folder), "--json").out)] == ["joe", "joe", None]
    assert len(json.loads(run("store", "show", str(folder), "--count", "1", "--json").out)) == 1
    said = cli("store", "forward", str(folder), "--json")
    assert (said.code, json.loads(said.out)) == (1, {"forwarded": 2, "retried": 0, "waiting": 0, "dead_letters": 1})
    bodies = [json.loads(line)["body"] for line in cli("browse", "orders", "--json").out.splitlines()]
    assert bodies == ["2"]
    [row] = json.loads(run("store", "show", str(folder), "--json").out)
    assert (row["number"], row["state"], row["attempts"]) == (1, "dead", 1)
    assert row["reason"]
    assert "0 waiting (0 bytes), 1 dead letters" in run("store", "show", str(folder)).out
    said = cli("store", "forward", str(folder), "--retry")
    assert (said.code, said.out.splitlines()[0]) == (1, "0 forwarded, 0 waiting, 1 dead letters")
    assert run("store", "drop", str(folder), "7", "--yes").out == "0 dropped\n"
    assert run("store", "drop", str(folder), "--all", "--yes").out == "1 dropped\n"
    assert cli("store", "forward", str(folder)).out == "0 forwarded, 0 waiting, 0 dead letters\n"
    # It kept them out of the log for good: whoever had run it in his own process heard nothing of a store any more.
    assert logging.getLogger("jbm_kafka.store_and_forward").isEnabledFor(logging.WARNING)


def test_what_waits_is_dropped_only_when_it_is_said(run: Run, folder: Path) -> None:
    assert run("store", "drop", str(folder), "--all", "--yes").out == "0 dropped\n"
    assert run("store", "drop", str(folder), "--waiting", "2", "--yes").out == "1 dropped\n"
    assert run("store", "show", str(folder)).out.startswith("2 waiting")
    asked = run("store", "drop", str(folder), "--waiting", "--all")
    assert asked.code == 2
    assert run("store", "drop", str(folder)).code == 2


def test_a_folder_that_is_none_or_in_use_is_one_line(run: Run, cli: Run, folder: Path, tmp_path: Path) -> None:
    said = run("store", "show", str(tmp_path))
    assert (said.code, said.err) == (1, f"jbm-kafka: {tmp_path} is no store of sends: it has no store.json\n")
    said = cli("store", "forward", str(folder), "--namespace", "shop")
    assert (said.code, "is a store of namespace ''" in said.err) == (2, True)
    with ConnectionFactory("127.0.0.1:1", store_and_forward=folder).create_connection():
        said = run("store", "drop", str(folder), "--all", "--yes")
        assert (said.code, "is in use by process" in said.err) == (1, True)
        assert f"process {os.getpid()} has it" in run("store", "show", str(folder)).out
