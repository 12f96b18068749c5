import os
from typing import Any

import dramatiq
from dramatiq.brokers.stub import StubBroker
from fastapi import FastAPI
from pydantic import BaseModel, ValidationError

is_test = "PYTEST_VERSION" in os.environ
if is_test:
    broker = StubBroker()
else:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    broker = RabbitmqBroker(url="amqp://localhost")
dramatiq.set_broker(broker)
shipped: list[str] = []
viewed: list[str] = []
reports: list[int] = []


class Order(BaseModel):
    customer: str
    book: str


@dramatiq.actor(
    queue_name="orders",
    max_retries=4,
    min_backoff=1 if is_test else 1_000,
    max_backoff=8 if is_test else 8_000,
    throws=ValidationError,
)
def ship(given: dict[str, Any]) -> None:
    order = Order.model_validate(given)
    if order.book == "Ulysses":
        raise ConnectionError("the warehouse does not answer")
    shipped.append(order.book)


@dramatiq.actor(queue_name="views")
def store(book: str) -> None:
    viewed.append(book)


@dramatiq.actor(queue_name="reports")
def report() -> None:
    reports.append(len(shipped))


app = FastAPI()


@app.post("/orders", status_code=202)
def accept(order: Order) -> None:
    ship.send(order.model_dump())


@app.post("/views/{book}", status_code=202)
def view(book: str) -> None:
    store.send(book)
