"""Why an attempt failed, in one line."""

import pytest

from jbm_kafka.core.failure_text import FAILURE_MAX, failure_text


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (None, None),
        (ValueError("no such customer"), "ValueError: no such customer"),
        (KeyError("id"), "KeyError: 'id'"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines\t of it"), "ValueError: two lines of it"),
        (Broken(), "Broken"),
        (ValueError("half \ud800"), "ValueError: half ?"),
        (ValueError("x" * 1000), "ValueError: " + "x" * (FAILURE_MAX - 13) + "…"),
    ],
)
def test_type_and_text_on_one_line_that_every_header_can_carry(error: BaseException | None, text: str | None) -> None:
    assert failure_text(error) == text
