"""jbm_kafka for asyncio: the same names, awaited.

    from jbm_kafka import Queue
    from jbm_kafka.aio import ConnectionFactory

    async with ConnectionFactory("localhost:9092").create_context() as jms:
        producer = await jms.create_producer()
        await producer.send(Queue("orders"), "2 books", unit_of_order="joe")
        async for message in await jms.create_consumer(Queue("orders")):
            print(message.body)

Destinations, messages, modes, settings and errors are those of `jbm_kafka`.
"""

from jbm_kafka.aio.aio_connection import AioConnection as Connection
from jbm_kafka.aio.aio_connection import AioConnectionFactory as ConnectionFactory
from jbm_kafka.aio.aio_consumer import AioMessageConsumer as MessageConsumer
from jbm_kafka.aio.aio_consumer import AioQueueBrowser as QueueBrowser
from jbm_kafka.aio.aio_producer import AioContextProducer as ContextProducer
from jbm_kafka.aio.aio_producer import AioMessageProducer as MessageProducer
from jbm_kafka.aio.aio_producer import AioSender as Sender
from jbm_kafka.aio.aio_session import AioContext as Context
from jbm_kafka.aio.aio_session import AioSession as Session

__all__ = [
    "Connection",
    "ConnectionFactory",
    "Context",
    "ContextProducer",
    "MessageConsumer",
    "MessageProducer",
    "QueueBrowser",
    "Sender",
    "Session",
]
