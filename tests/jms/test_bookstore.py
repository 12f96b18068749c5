"""The bookstore of WebLogic's Unit-of-Order: customers order, then some cancel, and two workers share the queue.

A cancellation that is worked on before its order finds nothing to cancel, and the order is shipped all the same. Goal:
without a unit of order that can be seen, with it it never happens, whatever a worker is slow at or fails in.
"""

import random
import threading
from collections.abc import Callable

import pytest

from jbm_kafka import NO_UNIT, AcknowledgeMode, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import NOTHING_S, SOON_S, receive
from tests.support.waiting import wait_until

Connect = Callable[..., Connection]
CUSTOMERS = 25


class Shop:
    """What the workers share; its own lock stands for a database's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[str] = set()
        self._finished: set[tuple[str, str]] = set()
        self.shipped_though_cancelled: list[str] = []
        """Customers whose cancellation came before their order."""

    def work_on(self, text: str) -> None:
        """An order is open until it is cancelled; one whose cancellation is over already will be shipped."""
        kind, customer = text.split()
        with self._lock:
            if kind == "order":
                self._open.add(customer)
                if ("cancel", customer) in self._finished:
                    self.shipped_though_cancelled.append(customer)
            else:
                self._open.discard(customer)
            self._finished.add((kind, customer))

    @property
    def finished(self) -> int:
        """Messages worked on, each counted once."""
        with self._lock:
            return len(self._finished)


def order_and_cancel(session: Session, queue: Queue, *, customers: int, has_units: bool) -> None:
    """Each customer cancels at once."""
    producer = session.create_producer(queue)
    for number in range(customers):
        for kind in ("order", "cancel"):
            producer.send(f"{kind} c{number}", unit_of_order=f"c{number}" if has_units else NO_UNIT)


def test_without_a_unit_the_second_worker_cancels_before_the_first_has_ordered(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """The wrong outcome, step by step; UNIT-2 is what is missing."""
    one, two = (connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2))
    first, second = (each.create_consumer(orders, prefetch=1) for each in (one, two))
    order_and_cancel(session, orders, customers=1, has_units=False)
    shop = Shop()
    order = receive(first)
    shop.work_on(str(receive(second).body))
    two.commit()
    shop.work_on(str(order.body))
    one.commit()
    assert shop.shipped_though_cancelled == ["c0"]


@pytest.mark.parametrize("is_rolled_back", [False, True], ids=["slow", "failing"])
def test_with_a_unit_the_cancellation_waits_for_its_order(
    connection: Connection, session: Session, orders: Queue, is_rolled_back: bool
) -> None:
    """UNIT-2, UNIT-5: the same steps; also where the first worker fails, and the second gets the order."""
    one, two = (connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2))
    first, second = (each.create_consumer(orders, prefetch=1) for each in (one, two))
    order_and_cancel(session, orders, customers=1, has_units=True)
    shop = Shop()
    order = receive(first)
    assert second.receive(NOTHING_S) is None
    if is_rolled_back:
        first.close()
        one.rollback()
    else:
        shop.work_on(str(order.body))
        one.commit()
        first.close()
    while shop.finished < 2:
        shop.work_on(str(receive(second).body))
        two.commit()
    assert shop.shipped_though_cancelled == []


def work(session: Session, queue: Queue, shop: Shop, is_over: threading.Event, seed: str) -> None:
    """One worker: takes a while for each, and is refused by the bank now and then."""
    chance, never = random.Random(seed), threading.Event()
    with session.create_consumer(queue, prefetch=2) as consumer:
        while not is_over.is_set():
            message = consumer.receive(0.1)
            if message is None:
                continue
            never.wait(chance.uniform(0, 0.01))
            if message.delivery_count == 1 and chance.random() < 0.2:
                session.rollback()
                continue
            shop.work_on(str(message.body))
            session.commit()


@pytest.mark.parametrize("seed", range(3))
def test_with_units_two_workers_never_ship_what_was_cancelled(
    connection: Connection, session: Session, orders: Queue, seed: int
) -> None:
    """UNIT-1, UNIT-2: by chance, on two threads, with rollbacks."""
    shop, is_over = Shop(), threading.Event()
    sessions = [connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2)]
    workers = [
        threading.Thread(target=work, args=(each, orders, shop, is_over, f"{seed}/{number}"))
        for number, each in enumerate(sessions)
    ]
    for worker in workers:
        worker.start()
    try:
        order_and_cancel(session, orders, customers=CUSTOMERS, has_units=True)
        wait_until(lambda: shop.finished == 2 * CUSTOMERS, about="all orders and cancellations", timeout_s=3 * SOON_S)
    finally:
        is_over.set()
        for worker in workers:
            worker.join(SOON_S)
    assert shop.shipped_though_cancelled == []
