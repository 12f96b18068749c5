"""The metrics of all queues, whoever receives from them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from jbm_kafka import Queue
from jbm_kafka.admin.following.following import Following
from jbm_kafka.core.channel.backlog import Backlog, Backlogs, QueryLag
from jbm_kafka.core.channel.held_in_order import HeldKind
from jbm_kafka.metrics.backlog_collector import SPECS, BacklogCollector
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.metrics.test_collector import scraped
from tests.support.waiting import wait_until

NOW_MS = 100_000
COUNTED = Backlog(
    destination="orders", held=3, is_counted=True, counts={HeldKind.DELAYED: 3},
    oldest_at_ms={HeldKind.DELAYED: 40_000},
    oldest_held_at_ms=40_000, uncommitted=1, log_records=7, parked=2, receivers=0, is_receiving_paused=True,
    is_sending_paused=False,
)  # fmt: skip
TOO_MANY = Backlog(
    destination="prices", subscription="c/audit", held=90_000, is_counted=False, counts={}, oldest_at_ms={},
    oldest_held_at_ms=None, uncommitted=0, log_records=90_000, parked=0, receivers=2, is_receiving_paused=False,
    is_sending_paused=False,
)  # fmt: skip
LATEST = Backlogs(
    looked_at_ms=99_000, backlogs=(COUNTED, TOO_MANY), prepared=1, oldest_prepared_at_ms=1_000, unreadable=("g",),
    queries=(QueryLag(query="invoices", destination="orders", records=5, oldest_at_ms=90_000),),
)  # fmt: skip


def of(latest: Backlogs | None) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    registry.register(BacklogCollector(lambda: latest, lambda: NOW_MS))
    return scraped(registry)


def test_a_scrape_tells_what_was_found() -> None:
    found = of(LATEST)
    orders = (("destination", "orders"), ("subscription", ""))
    delayed = (orders[0], ("kind", "delayed"), orders[1])
    assert found["jbm_backlog_messages", delayed] == 3
    assert found["jbm_backlog_messages", (orders[0], ("kind", "blocked"), orders[1])] == 0, "a series does not vanish"
    assert found["jbm_backlog_oldest_seconds", delayed] == found["jbm_backlog_oldest_held_seconds", orders] == 60
    assert (found["jbm_backlog_parked", orders], found["jbm_backlog_receiving_paused", orders]) == (2, 1)
    assert found["jbm_prepared_branch_oldest_seconds", ()] == 99
    invoices = (orders[0], ("query", "invoices"))
    behind = [found[f"jbm_spark_query_behind_{unit}", invoices] for unit in ("records", "seconds")]
    assert behind == [5, 10]
    of_many = {name for name, labels in found if ("destination", "prices") in labels}
    assert "jbm_backlog_messages" not in of_many, "nothing is known of kinds"
    assert found["jbm_backlog_held", (("destination", "prices"), ("subscription", "c/audit"))] == 90_000
    assert {name for name, _ in found} == {spec.name for spec in SPECS}
    assert of(None) == {}


def test_a_thread_follows_and_says_why_it_is_not_ready() -> None:
    """It tells the latest at once, whatever the cluster does."""
    with MemoryWorld() as world:
        with world.factory().create_context() as jms:
            jms.create_producer().send(Queue("orders"), "x")
        with Following(world.url, None, "", 30.0) as following:
            wait_until(lambda: following.latest() is not None, about="a look", timeout_s=60.0)
            latest = following.latest()
            assert latest is not None
            assert [(each.destination, each.held) for each in latest.backlogs] == [("orders", 1)]
            assert following.health(None).is_ready
        assert not following.health(None).is_alive
