"""The archive of the broker's classes, which spares each start half of its work."""

from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker, process
from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.class_archive import ensure_archive
from tests.support.broker import local_broker

pytestmark = pytest.mark.thorough


def _files_of(broker: LocalBroker) -> str:
    """What its process has mapped into memory."""
    return (Path("/proc") / str(broker.status().pid) / "maps").read_text()


def test_a_broker_starts_from_the_archive(tmp_path: Path) -> None:
    """Without it a start takes the processors for twice as long, and a busy machine may not be done within its time."""
    jars = ensure_jars()
    assert ensure_archive(jars)
    with local_broker(tmp_path) as broker:
        assert str(process.archive_of(jars)) in _files_of(broker)


def test_an_archive_that_does_not_fit_is_left_aside_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "classes.jsa"
    other.write_bytes(b"of another Java")
    monkeypatch.setattr(process, "archive_of", lambda jars: other)
    with local_broker(tmp_path / "broker") as broker:
        assert str(other) not in _files_of(broker)
        assert "cds" not in broker.log_file.read_text()
