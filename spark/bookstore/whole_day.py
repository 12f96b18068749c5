"""A day from the first order to its audit, in one Spark session; workers in processes of their own."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bookstore.faulty_client import acknowledge_twice, give_up_twice
from bookstore.order_source import WITHOUT_ADDRESS, orders, send_orders
from bookstore.sales_figures import queue_figures, turnover_of
from bookstore.sales_page import Day
from bookstore.store_queues import BIG_CENTS, Order, Store, prices, set_up
from bookstore.streams import start
from jbm_kafka.admin import Admin
from jbm_kafka.cli.cluster_settings import Cluster, environment_of
from jbm_kafka.cli.connect import factory_of
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs import archive
from jbm_spark.jobs.audit import AuditResult, run
from jbm_spark.jobs.job import VIOLATIONS

DONE_MAX_S = 300.0
PLANTED = {"duplicated", "dead letter twice"}


def play(
    spark: SparkSession, cluster: Cluster, store: Store, folder: Path, *, count: int, per_second: float,
    tell: Callable[[str], object],
) -> Day:  # fmt: skip
    """The day of so many orders; `folder` is new and gets checkpoints, archives and the workers' log.

    Raises:
        SparkJobError: the day did not end, or is not what it must be.
        JMSError: the brokers do not answer.
    """
    where: dict[str, Any] = {"bootstrap": cluster.bootstrap, "namespace": cluster.namespace, "kafka": cluster.kafka}
    day, queues = orders(count), (store.orders, store.big_orders)
    big = [order for order in day if _cents(order) >= BIG_CENTS]
    with admin_of(cluster) as admin:
        tell("queues, workers and streams are started")
        set_up(admin, store)
        with _workers(cluster, store, folder):
            with ThreadPoolExecutor(1) as clerk, _streams(spark, store, folder / "checkpoints", where) as queries:
                tell(f"{count} orders come in, {per_second:g} a second; {len(big)} of them are big")
                clerk.submit(send_orders, factory_of(cluster), store.orders, day, per_second).result()
                tell("the streams count the last orders")
                for query in queries:
                    query.processAllAvailable()
            tell("the workers ship what is left")
            _wait_until(lambda: not any(admin.counts(queue).held for queue in queues))
    tell("both queues are archived")
    archived = [archive.run(spark, queue, folder / "archive" / queue.name, **where).messages for queue in queues]
    tell(f"archived: {archived[0]} orders, {archived[1]} big orders")
    _check("archived messages", archived, [len(day), len(big)])
    tell("both queues are audited")
    audits = [run(spark, queue, **where) for queue in queues]
    _tell_audits(audits, tell)
    _check("faults of the day", _faults(audits), set())
    tell("turnover and times are read from the topics")
    figures = [queue_figures(spark, queue, store, where) for queue in queues]
    lost = sum(order.customer == WITHOUT_ADDRESS for order in big)
    _check("acknowledged messages", [each.acknowledged for each in figures], [len(day), len(big) - lost])
    told = turnover_of(spark, store, where)
    _check("turnover by hour, in cents", _sums((each.hour, each.cents) for each in told),
           _sums((f"{order.ordered_at:%Y-%m-%d %H:00}", _cents(order)) for order in day))  # fmt: skip
    acknowledge_twice(cluster, store)
    give_up_twice(cluster, store)
    tell("two records are written again, as by a client that lost Kafka's answer; an audit finds them")
    with_faults = run(spark, store.big_orders, **where)
    _tell_audits([with_faults], tell)
    _check("planted faults", _faults([with_faults]), PLANTED)
    return Day(told, figures, audits, with_faults)


def admin_of(cluster: Cluster) -> Admin:
    """An administrator of it."""
    return Admin(cluster.bootstrap, kafka=cluster.kafka, namespace=cluster.namespace)


@contextmanager
def _streams(
    spark: SparkSession, store: Store, checkpoints: Path, where: Mapping[str, Any]
) -> Iterator[list[StreamingQuery]]:
    """Both queries, until the end of the block."""
    queries = start(spark, store, checkpoints, where)
    try:
        yield queries
    finally:
        for query in queries:
            query.stop()


@contextmanager
def _workers(cluster: Cluster, store: Store, folder: Path) -> Iterator[None]:
    """Two processes, until the end of the block; they end in order."""
    command = [sys.executable, "-m", "jbm_kafka", "run", "bookstore.fulfilment:worker", "--processes", "2"]
    environment = {**environment_of(cluster, os.environ), "BOOKSTORE": store.prefix}
    log = folder / "workers.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], env=environment, stdout=sink, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            code = process.wait()
    if code != 0:
        raise SparkJobError(f"the workers ended with exit code {code}; {log} says why")


def _wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DONE_MAX_S
    while not is_done():
        if time.monotonic() > deadline:
            raise SparkJobError(f"orders are left after {DONE_MAX_S:g} s; `jbm-kafka explain QUEUE` says why")
        time.sleep(0.5)


def _cents(order: Order) -> int:
    return order.copies * prices()[order.title_id]


def _sums(each: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    sums: Counter[str] = Counter()
    for hour, cents in each:
        sums[hour] += cents
    return sums


def _tell_audits(audits: Sequence[AuditResult], tell: Callable[[str], object]) -> None:
    for each in audits:
        tell(f"jbm-spark audit (exit code {VIOLATIONS if each.has_violations else 0}): {each.text().splitlines()[0]}")


def _faults(audits: Sequence[AuditResult]) -> set[str]:
    return {fault for each in audits for fault, count in each.faults.items() if count}


def _check(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise SparkJobError(f"{what}: {found}, and not {wanted}: a fault of the pipeline, or beneath it")
