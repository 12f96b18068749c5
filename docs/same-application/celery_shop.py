from typing import Any

from celery import Celery, Task
from celery.schedules import crontab
from fastapi import FastAPI
from pydantic import BaseModel, ValidationError

celery = Celery("shop", broker="amqp://localhost")
celery.conf.update(task_acks_late=True, task_reject_on_worker_lost=True)
shipped: list[str] = []
viewed: list[str] = []
reports: list[int] = []


class Order(BaseModel):
    customer: str
    book: str


class WithDeadLetters(Task):
    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        dead_letter.apply_async((self.name, args, kwargs, repr(exc), self.request.retries), queue="orders.dead")


@celery.task
def dead_letter(name: str, args: Any, kwargs: Any, error: str, retries: int) -> None:
    """Nobody consumes its queue: look into it with RabbitMQ's tools."""


@celery.task(
    base=WithDeadLetters,
    pydantic=True,
    autoretry_for=(Exception,),
    dont_autoretry_for=(ValidationError,),
    retry_backoff=1,
    retry_jitter=False,
    max_retries=4,
)
def ship(order: Order) -> None:
    if order.book == "Ulysses":
        raise ConnectionError("the warehouse does not answer")
    shipped.append(order.book)


@celery.task
def store(book: str) -> None:
    viewed.append(book)


@celery.task
def report() -> None:
    reports.append(len(shipped))


celery.conf.beat_schedule = {"nightly": {"task": report.name, "schedule": crontab(hour="3", minute="0")}}
app = FastAPI()


@app.post("/orders", status_code=202)
def accept(order: Order) -> None:
    ship.delay(order.model_dump())


@app.post("/views/{book}", status_code=202)
def view(book: str) -> None:
    store.delay(book)
