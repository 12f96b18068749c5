"""An AMQP server in mixed use for long: it holds what its clients have, and nothing of those that left."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean

import pytest

from tests.amqp.server_process import running
from tests.amqp.test_killed_servers import tasks
from tests.amqp.visitors import visit_all

VISITORS = 3
GROWTH_MAX = 1.05
WARMING_MAX = 1.10
"""Of a minute, in which the server's caches and Kafka's client still fill."""


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("visits", "growth_max"), [(500, WARMING_MAX), (5_000, GROWTH_MAX)])
def test_memory_does_not_grow_with_clients_that_left(
    visits: int, growth_max: float, bootstrap: str, tmp_path: Path
) -> None:
    """AMQP-10."""
    processes = ProcessPoolExecutor(VISITORS, multiprocessing.get_context("spawn"))
    with running(*tasks(1, bootstrap, tmp_path)) as (server,), processes:
        each = visits // VISITORS
        work = [processes.submit(visit_all, server.url, server.pid, each) for _ in range(VISITORS)]
        samples = sorted(sample for done in work for sample in done.result())
    third = len(samples) // 3
    thirds = [mean(size for _, size in samples[place * third : (place + 1) * third]) for place in range(3)]
    print("seconds", samples[-1][0] - samples[0][0], "MB by thirds", [round(size / 2**20, 1) for size in thirds])
    assert thirds[2] <= growth_max * thirds[1]
