"""A worker with one schedule that ends itself by SIGKILL.

`python -m tests.support.schedule_process BOOTSTRAP QUEUE WHERE N`

WHERE is `before`: it dies when the N-th run's message and record are written and not committed; `after`: when they are
committed, and nobody was told; or `never`.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jbm_kafka import AddressSettings, Worker
from jbm_kafka.kafka.transactional_producer import ConfluentTransactionalProducer
from jbm_kafka.ports import Outgoing

EVERY_S = 1
NAME = "tick"


def die_at(queue: str, where: str, count: int) -> None:
    """Have the process end there."""
    commit: Callable[..., Any] = ConfluentTransactionalProducer.commit
    produce: Callable[..., Any] = ConfluentTransactionalProducer.produce
    runs: set[int] = set()
    """Producers that have written the message of a run."""
    seen = 0

    def produced(producer: ConfluentTransactionalProducer, record: Outgoing, *more: Any) -> Any:
        if record.topic == queue:
            runs.add(id(producer))
        return produce(producer, record, *more)

    def committed(producer: ConfluentTransactionalProducer, timeout_s: float) -> Any:
        nonlocal seen
        is_run = id(producer) in runs
        runs.discard(id(producer))
        seen += is_run
        is_last = is_run and seen == count
        if is_last and where == "before":
            producer._producer.flush(5)  # the broker has both, and no word of an end
            os.kill(os.getpid(), signal.SIGKILL)
        result = commit(producer, timeout_s)
        if is_last and where == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    if where != "never":
        ConfluentTransactionalProducer.produce = produced  # type: ignore[assignment,method-assign]
        ConfluentTransactionalProducer.commit = committed  # type: ignore[assignment,method-assign]


def main(bootstrap: str, queue: str, where: str, count: str) -> None:
    """Run until SIGTERM, or the end that was asked for."""
    die_at(queue, where, int(count))
    with tempfile.TemporaryDirectory() as folder:
        rules = {queue: AddressSettings(truncate="never", partitions=1)}
        worker = Worker(bootstrap, state_dir=folder, session_timeout_ms=6_000, address_settings=rules)

        @worker.cron(f"*/{EVERY_S} * * * * *", queue=queue, name=NAME, missed="all")
        def tick(due: datetime) -> None:
            """What it gets is in the log."""

        @worker.lifespan
        def tell() -> Any:
            print("starts", flush=True)
            yield

        worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
