"""`jbm-kafka run`: runs a worker's handlers until it is asked to end."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Seconds, Whole
from jbm_kafka.cli.connect import as_destination, factory_of
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.jms.arguments import CONCURRENCY_MAX
from jbm_kafka.worker.loading import load
from jbm_kafka.worker.message_worker import DRAIN_S, Worker
from jbm_kafka.worker.process_group import ProcessGroup

WATCHED_MAX = 10_000


@click.command()
@click.argument("target", metavar="MODULE:NAME")
@click.option("--queue", metavar="DEST", callback=as_destination,
              help="NAME is a function: call it with each message of this queue or topic:NAME.")  # fmt: skip
@click.option("--concurrency", metavar="N", type=Whole(1, CONCURRENCY_MAX),
              help="With --queue: so many messages at once in each process. [1]")  # fmt: skip
@click.option("--processes", metavar="P", type=Whole(1, 1_000), default=1, show_default=True,
              help="So many processes; one that dies is started again.")  # fmt: skip
@click.option("--drain-s", metavar="S", type=Seconds(0, 86_400),
              help=f"How long stopping waits for handlers that run. [the worker's, or {DRAIN_S:g}]")  # fmt: skip
@click.option("--metrics-port", metavar="N", type=Whole(1, 65_535),
              help="Serve /metrics, /healthz and /readyz there; with --processes at N, N+1 and so on.")  # fmt: skip
@click.option("--reload", "reloads", is_flag=True, help="Start anew when a .py file below this folder changes.")
@click.option("--number", hidden=True, type=Whole(0), help="Which of the processes this is.")
@cluster_options
def run(
    target: str, queue: Queue | Topic | None, concurrency: int | None, processes: int, drain_s: float | None,
    metrics_port: int | None, reloads: bool, number: int | None, cluster: Cluster,
) -> None:  # fmt: skip
    """Run the handlers of a Worker, or a function on each message of a queue, until SIGTERM or Ctrl-C.

    The Worker's own cluster holds unless one is named here or in JBM_BOOTSTRAP. Exit code 1 tells that handlers were
    left at the end; their messages come again.
    """
    if queue is None and concurrency is not None:
        raise click.UsageError("--concurrency goes with --queue: a Worker's handlers have their own")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if number is None and (processes > 1 or reloads):
        worker = _worker(target, queue, concurrency, drain_s, cluster)
        worker.check_may_be_many(processes)
        group = ProcessGroup(
            [sys.executable, "-m", "jbm_kafka", *sys.argv[1:], "--number"],
            processes,
            worker.drain_s,
            has_changed=_changes(Path.cwd()) if reloads else lambda: False,
        )
        raise click.exceptions.Exit(group.run())
    worker = _worker(target, queue, concurrency, drain_s, cluster)
    if number is not None:
        worker.be_one_of(number)
        threading.Thread(target=_end_with_input, args=(worker,), name="jbm-parent", daemon=True).start()
    with nullcontext() if metrics_port is None else _metrics_server(worker, metrics_port + (number or 0)):
        code = worker.run()
    raise click.exceptions.Exit(code)


def _metrics_server(worker: Worker, port: int) -> AbstractContextManager[object]:
    try:
        from jbm_kafka.metrics.server import MetricsServer
    except ImportError:
        raise click.UsageError("--metrics-port needs prometheus-client: pip install jbm-kafka[metrics]") from None
    return MetricsServer(port, lambda: worker.connection)


def _worker(
    target: str, queue: Queue | Topic | None, concurrency: int | None, drain_s: float | None, cluster: Cluster
) -> Worker:
    found = load(target)
    if isinstance(found, Worker):
        if queue is not None:
            raise click.UsageError(f"--queue goes with a function, and {target} is a Worker; leave it out")
        worker = found
        if cluster.is_named:
            worker.go_to(factory_of(cluster))
    else:
        if queue is None:
            raise click.UsageError(f"{target} is a function: give --queue DEST with it")
        worker = Worker(factory_of(cluster))
        worker.handler(queue, concurrency=concurrency or 1)(found)
    if drain_s is not None:
        worker.drain_s = drain_s
    return worker


def _end_with_input(worker: Worker) -> None:
    """The process that started this one has ended, maybe killed."""
    while os.read(0, 1024):
        continue
    worker.ask_to_end()


def _changes(folder: Path) -> Callable[[], bool]:
    """Tells whether the code below the folder is another one than at the last call."""
    seen = dict(_stamps(folder))

    def have_come() -> bool:
        nonlocal seen
        now = dict(_stamps(folder))
        is_other, seen = now != seen, now
        return is_other

    return have_come


def _stamps(folder: Path) -> Iterator[tuple[str, int]]:
    count = 0
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in files:
            if name.endswith(".py"):
                file = os.path.join(path, name)  # noqa: PTH118 - many, often
                count += 1
                if count > WATCHED_MAX:
                    return
                try:
                    yield file, os.stat(file).st_mtime_ns  # noqa: PTH116
                except OSError:
                    continue
