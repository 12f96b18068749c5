"""`jbm-kafka run`: runs a worker's handlers until it is asked to end."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.cluster_options import Configured, configuration_options
from jbm_kafka.cli.command_options import Seconds, Whole
from jbm_kafka.cli.connect import as_destination
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.core.wrong_values import did_you_mean
from jbm_kafka.jms.base.arguments import CONCURRENCY_MAX
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.worker.loading import load
from jbm_kafka.worker.message_worker import DRAIN_S, Worker
from jbm_kafka.worker.process_group import DRAINED, ProcessGroup

if TYPE_CHECKING:
    from jbm_kafka.configuration.models import WorkerTable

log = logging.getLogger(__name__)

WATCHED_MAX = 10_000
_ARGUMENTS = {"bootstrap": "url"}
"""How a connection factory names what the configuration has otherwise."""


@click.command()
@click.argument("target", metavar="[MODULE:NAME | NAME]", required=False)
@click.option("--queue", metavar="DEST", callback=as_destination,
              help="NAME is a function: call it with each message of this queue or topic:NAME.")  # fmt: skip
@click.option("--concurrency", metavar="N", type=Whole(1, CONCURRENCY_MAX),
              help="With --queue: so many messages at once in each process. [1]")  # fmt: skip
@click.option("--processes", metavar="P", type=Whole(1, 1_000),
              help="So many processes; one that dies is started again. [1]")  # fmt: skip
@click.option("--drain-s", metavar="S", type=Seconds(0, 86_400),
              help=f"How long stopping waits for handlers that run. [the worker's, or {DRAIN_S:g}]")  # fmt: skip
@click.option("--metrics-port", metavar="N", type=Whole(1, 65_535),
              help="Serve /metrics, /healthz and /readyz there; with --processes at N, N+1 and so on.")  # fmt: skip
@click.option("--kill-hung", is_flag=True,
              help="End the process when a call goes on beyond its timeout_s; its message comes again.")  # fmt: skip
@click.option("--reload", "reloads", is_flag=True, help="Start anew when a .py file below this folder changes.")
@click.option("--number", hidden=True, type=Whole(0), help="Which of the processes this is.")
@configuration_options
def run(
    target: str | None, queue: Queue | Topic | None, concurrency: int | None, processes: int | None,
    drain_s: float | None, metrics_port: int | None, kill_hung: bool, reloads: bool, number: int | None,
    configured: Configured,
) -> None:  # fmt: skip
    """Run the handlers of a Worker, or a function on each message of a queue, until SIGTERM or Ctrl-C.

    A NAME alone is one of [workers] of the configuration, which may say what these options do not; without any it is
    the only one there. Exit code 1 tells that handlers were left at the end; their messages come again.
    """
    entry = _entry(target, configured)
    if entry is not None:
        target = entry.target
        queue = queue or (None if entry.queue is None else destination_at(entry.queue))
        concurrency, processes = concurrency or entry.concurrency, processes or entry.processes
        drain_s = entry.drain_s if drain_s is None else drain_s
        metrics_port = metrics_port or entry.metrics_port
    assert target is not None
    if queue is None and concurrency is not None:
        raise click.UsageError("--concurrency goes with --queue: a Worker's handlers have their own")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    worker = _worker(target, queue, concurrency, drain_s, configured)
    count = processes or 1
    if number is None and (count > 1 or reloads):
        worker.check_may_be_many(count)
        group = ProcessGroup(
            [sys.executable, "-m", "jbm_kafka", *sys.argv[1:], "--number"],
            count,
            worker.drain_s,
            has_changed=_changes(Path.cwd()) if reloads else lambda: False,
        )
        raise click.exceptions.Exit(group.run())
    if number is not None:
        worker.be_one_of(number)
        threading.Thread(target=_end_with_input, args=(worker,), name="jbm-parent", daemon=True).start()
    worker.kill_hung = worker.kill_hung or kill_hung
    with nullcontext() if metrics_port is None else _metrics_server(worker, metrics_port + (number or 0)):
        code = worker.run()
    if number is not None and worker.was_drained and not code:
        code = DRAINED
    raise click.exceptions.Exit(code)


def _entry(target: str | None, configured: Configured) -> WorkerTable | None:
    """The worker of the configuration that is meant: by its name, by its target, or as the only one."""
    known = configured.loaded.tables.workers
    if target is None:
        if len(known) != 1:
            there = f"[workers] has {', '.join(known)}" if known else "the configuration has no [workers]"
            raise click.UsageError(f"name what to run, MODULE:NAME or a worker of the configuration: {there}")
        return next(iter(known.values()))
    if ":" not in target and target not in known:
        there = f"known are {', '.join(known)}" if known else "it has no [workers]"
        rule = f"write MODULE:NAME, or the name of a worker of the configuration; {there}"
        raise click.UsageError(f"{target!r}: {rule}{did_you_mean(target, known)}")
    return known.get(target) or next((each for each in known.values() if each.target == target), None)


def _metrics_server(worker: Worker, port: int) -> AbstractContextManager[object]:
    try:
        from jbm_kafka.metrics.server import MetricsServer
    except ImportError:
        raise click.UsageError("--metrics-port needs prometheus-client: pip install jbm-kafka[metrics]") from None
    return MetricsServer.of_connection(port, lambda: worker.connection)


def _worker(
    target: str, queue: Queue | Topic | None, concurrency: int | None, drain_s: float | None, configured: Configured
) -> Worker:
    found = load(target)
    told = configured.loaded.cluster()
    if not (told.bootstrap and told.bootstrap.value.startswith(("amqp", "memory"))):
        configured.cluster()  # what is wrong there is wrong usage, as for every command
    options = {_ARGUMENTS.get(name, name): value for name, value in configured.arguments.items()}
    if isinstance(found, Worker):
        if queue is not None:
            raise click.UsageError(f"--queue goes with a function, and {target} is a Worker; leave it out")
        worker = found
        if worker.is_configured:
            worker.configure(configured.path, options)
        elif told.bootstrap is not None:
            if not options:
                log.warning(
                    "%s wins over the address that %s gives its Worker, and with `python` it would not: write Worker() "
                    "without an address, and both go by the configuration",
                    told.bootstrap.origin,
                    target,
                )
            worker.go_to(ConnectionFactory.from_config(configured.path, **options))
    else:
        if queue is None:
            raise click.UsageError(f"{target} is a function: give --queue DEST with it")
        worker = Worker.from_config(configured.path, **options)
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
