"""How many files a process needs open, and the line where it may open fewer."""

import pytest

from jbm_kafka.core.open_files import files_needed, too_few_files


def test_each_queue_and_each_client_needs_some() -> None:
    assert files_needed(60) > 60 * 7 + files_needed(0)  # measured idle on three brokers: decision 101
    assert files_needed(1, clients=100) == files_needed(1) + 100


@pytest.mark.parametrize(("limit", "is_said"), [(-1, False), (500, False), (499, True)])
def test_a_limit_that_is_too_small_is_said_with_the_remedy(limit: int, is_said: bool) -> None:
    line = too_few_files(limit, 500, "40 queues")
    assert ("ulimit -n 500" in line and "40 queues" in line) if is_said else not line
