import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from faststream import AckPolicy, BaseMiddleware
from faststream.kafka.fastapi import KafkaRouter
from faststream.message import StreamMessage
from pydantic import BaseModel

shipped: list[str] = []
viewed: list[list[str]] = []
reports: list[int] = []


class Order(BaseModel):
    customer: str
    book: str


class RetriesAndDeadLetters(BaseMiddleware):
    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: StreamMessage[Any]) -> Any:
        reason = ""
        for pause in (1, 2, 4, 8, 0):
            try:
                return await call_next(msg)
            except RequestValidationError as error:
                reason = str(error)
                break
            except Exception as error:
                reason = repr(error)
                await asyncio.sleep(pause)
        bodies = msg.body if isinstance(msg.body, list) else [msg.body]
        await router.broker.publish_batch(*bodies, topic="dead", headers={"error": reason})


CAREFUL: Any = {"group_id": "shop", "ack_policy": AckPolicy.NACK_ON_ERROR, "auto_offset_reset": "earliest"}
router = KafkaRouter("kafka:9092", middlewares=[RetriesAndDeadLetters])


@router.post("/orders", status_code=202)
async def accept(order: Order) -> None:
    await router.broker.publish(order, "orders", key=order.customer.encode())


@router.post("/views/{book}", status_code=202)
async def view(book: str) -> None:
    await router.broker.publish(book, "views")


@router.subscriber("orders", **CAREFUL)
async def ship(order: Order) -> None:
    if order.book == "Ulysses":
        raise ConnectionError("the warehouse does not answer")
    shipped.append(order.book)


@router.subscriber("views", **CAREFUL, batch=True, max_records=100, batch_timeout_ms=1_000)
async def store(books: list[str]) -> None:
    viewed.append(books)


@router.subscriber("reports", **CAREFUL)
async def report() -> None:
    reports.append(len(shipped))


app = FastAPI()
app.include_router(router)
