"""Rows of files that are no message, in words that name the fault. Without Spark."""

import re

import pytest

from jbm_spark.jobs.load.file_rows import rows_of_block
from jbm_spark.jobs.load.row_message import RowFault, message_of

LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ('{"body_text": "a", "properties": {"x": NaN}}', r"not a JSON object \(NaN is Python's, and no number of JSON"),
        ('{"body_text": "a", "priority": -Infinity}', r"\(-Infinity is Python's, and no number of JSON"),
        (f'{{"body_text": "a", "priority": {LONG}}}', r"\(a number has more than 4,300 digits\): write one a line"),
    ],
)
def test_a_number_that_json_has_not_is_named(row: str, told: str) -> None:
    """Of LOAD-1: it was "it is not a JSON object", of rows that looked like one."""
    [found] = rows_of_block("json", row.encode(), (), 1)
    assert re.search(told, found.fault or "")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"properties": '{"x": NaN}'}, r'as in {"qty": 5} \(NaN is Python'),
        ({"properties": f'{{"x": {LONG}}}'}, r"\(a number has more than 4,300 digits\)"),
        ({"body_kind": "object", "body_text": "[NaN]"}, r"body_text is not JSON: NaN is Python's"),
        ({"body_kind": "object", "body_text": LONG}, r"body_text is not JSON: a number has more than 4,300 digits"),
    ],
)
def test_a_number_in_a_text_that_is_json_is_named(values: dict[str, object], told: str) -> None:
    """Of LOAD-1: NaN was sent, and receivers in other languages cannot read it."""
    with pytest.raises(RowFault, match=told) as raised:
        message_of({"body_text": "a", **values}, 1_000_000)
    assert len(str(raised.value)) < 300
