"""The workers: `jbm-kafka run bookstore.fulfilment:worker --processes 2`."""

import json

from bookstore.order_source import WITHOUT_ADDRESS
from bookstore.store_queues import store_of_environment
from jbm_kafka import Message, Worker

worker = Worker()  # where jbm-kafka.toml, JBM_BOOTSTRAP or --bootstrap says
store = store_of_environment()


@worker.handler(store.orders, concurrency=4)
def confirm(message: Message) -> None:
    """Where a shop would send a mail."""
    json.loads(str(message.body))


@worker.handler(store.big_orders, concurrency=4)
def ship(message: Message) -> None:
    """Ship the order. One that raises comes again, and its customer's next orders wait; after three attempts it is
    given up."""
    order = json.loads(str(message.body))
    if order["customer"] == WITHOUT_ADDRESS:
        raise LookupError(f"{order['customer']} has no address")
    if order["number"] % 5 == 0 and message.delivery_count == 1:
        raise ConnectionError("the carrier does not answer")
