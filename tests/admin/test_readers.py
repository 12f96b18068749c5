"""Registered readers, as an operator sees and ends them."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from jbm_kafka.admin import Admin, RegisteredReader
from jbm_kafka.cli.main import main
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.registry.readers import renew_reader
from jbm_kafka.registry.registry import Registry


def test_a_reader_is_listed_until_it_is_ended(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    namespace, name = f"n{uuid4().hex[:8]}", "archive-of-orders"
    client = ConfluentKafka(bootstrap)
    admin = client.admin()
    registry = Registry(client, admin, f"{namespace}.jbm.registry")
    early = RegisteredReader("spark", name, "orders", "t1", {0: 5}, at_ms=1, lease_until_ms=2)
    late = RegisteredReader("spark", name, "orders", "t1", {0: 9, 1: 0}, at_ms=3, lease_until_ms=4_000_000_000_000)
    try:
        renew_reader(registry.log, early)
        with Admin(bootstrap, namespace=namespace) as operator:
            assert operator.readers() == [early]
            renew_reader(registry.log, late)
            assert operator.readers() == [late]
    finally:
        registry.close()
        admin.close()
    at = ["--bootstrap", bootstrap, "--namespace", namespace]
    assert main(["readers", "list", *at]) == 0
    told = capsys.readouterr().out
    assert "orders" in told
    assert "0:9 1:0" in told
    assert "2096-10-02" in told
    assert main(["readers", "end", name, "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == name
    assert main(["readers", "end", name, *at]) == 1
    assert f"no reader of kind spark is registered as {name!r}" in capsys.readouterr().err
    with Admin(bootstrap, namespace=namespace) as operator:
        assert operator.readers() == []
        with pytest.raises(InvalidDestinationError, match="there are: none"):
            operator.end_reader(name)
