"""No line of the log names a unit of order: a unit may be a customer, and logs are read by many (docs/logging.md)."""

import ast

import pytest

from jbm_kafka.codec.unit_place_records import moving_key, path_key
from jbm_kafka.codec.unit_place_records import without_unit as key_without_unit
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.checkpoints.unwritable import without_leader, without_unit
from tests.house.sources import ROOT

LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log", "tell_error"}
UNITS = {"unit", "units", "unit_of_order", "unit_name", "group_key", "gate_key"}
KEYS = {"key", "keys"}
KEYS_WITHOUT_UNIT = {
    "jbm_kafka/kafka/counted_lines.py": "the key of a burst: a kind of line",
    "jbm_kafka/sidecar/log_lines/connection_lines.py": "the key of a burst: a group",
    "jbm_kafka/sidecar/log_lines/partition_lines.py": "the key of a burst: a group",
    "jbm_kafka/store/changelog_reader.py": "a changelog's keys have group, kind and offset",
    "jbm_kafka/store/recovery.py": "a changelog's keys have group, kind and offset",
}


def logged_names(text: str) -> list[tuple[int, str]]:
    """Line and name of all that a call of a logger is given; what a `without_unit` is given does not count."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in LEVELS:
            continue
        waiting: list[ast.AST] = [*node.args, *node.keywords]
        while waiting:
            part = waiting.pop()
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "without_unit":
                continue
            if isinstance(part, ast.Name):
                found.append((part.lineno, part.id))
            if isinstance(part, ast.Attribute):
                found.append((part.lineno, part.attr))
            waiting += ast.iter_child_nodes(part)
    return found


def test_no_line_of_the_log_is_given_a_unit_or_a_records_key() -> None:
    """The warning of a client that hashes otherwise named the customer; so did that of a path that cannot be read."""
    faults = [
        f"{path}:{line}: {name}"
        for file in sorted((ROOT / "jbm_kafka").rglob("*.py"))
        for path in [str(file.relative_to(ROOT))]
        for line, name in logged_names(file.read_text())
        if name in UNITS or (name in KEYS and path not in KEYS_WITHOUT_UNIT)
    ]
    assert faults == [], "name the place and the id of the message instead"


def test_what_a_line_of_the_log_is_given_is_found() -> None:
    text = "log.warning('%s', shown(unit.decode()))\nlog.info('%s', without_unit(key))\nlog.log(1, 'x %s', a.key)"
    assert sorted(logged_names(text)) == [(1, "decode"), (1, "shown"), (1, "unit"), (3, "a"), (3, "key")]


def test_the_key_of_a_path_is_told_without_its_unit() -> None:
    assert key_without_unit(path_key("orders", b"joe|x")) == b"path|orders|"
    assert key_without_unit(moving_key("orders")) == moving_key("orders")


@pytest.mark.parametrize("unit", [b"joe", b"\xff", b"u" * 1_000])
def test_why_a_copy_cannot_leave_is_told_without_its_unit(unit: bytes) -> None:
    """`orders[3] offset 17 cannot leave for DLQ: …` went on with what a sender is told, the unit among it."""
    error = without_leader("a transfer", [Outgoing("DLQ", 3, unit, b"body")])
    assert "unit " in str(error)
    told = without_unit(error)
    assert "and its unit is in it and goes nowhere else" in told
    assert without_unit(JMSError("no unit", unit=None)) == "no unit"
