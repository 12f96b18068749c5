"""How long the records of a commit, and its answer, may take: settings of a factory."""

from __future__ import annotations

from typing import Any

import pytest

from jbm_kafka import ConnectionFactory
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.kafka.profiles import transactional_settings
from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS, SidecarConfig


@pytest.mark.parametrize(("record_ms", "transaction_ms"), [(RECORD_TIMEOUT_MS, 10_000), (20_000, 27_000)])
def test_a_record_that_may_take_longer_leaves_as_much_time_to_abort(record_ms: int, transaction_ms: int) -> None:
    config = SidecarConfig(record_timeout_ms=record_ms)
    settings = transactional_settings("id", config.whole_transaction_ms, config.record_timeout_ms, 1 << 20)
    assert settings["transaction.timeout.ms"] == transaction_ms
    assert settings["message.timeout.ms"] == settings["topic.metadata.propagation.max.ms"] == record_ms


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("record_timeout_ms", RECORD_TIMEOUT_MS, 120_000), ("commit_timeout_ms", 5_000, 600_000)],
)
def test_a_limit_of_commits_has_bounds_and_reaches_the_sidecar(name: str, least: int, most: int) -> None:
    for value in (least, most):
        given: dict[str, Any] = {name: value}
        assert getattr(ConnectionFactory("memory://limits", **given)._installation.config, name) == value
    for value in (least - 1, most + 1):
        given = {name: value}
        with pytest.raises(InvalidSettingError, match=name):
            ConnectionFactory("memory://limits", **given)
