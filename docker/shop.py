"""The worker of docker/compose.yaml, to be replaced by yours."""

from jbm_kafka import Message, Worker

worker = Worker()


@worker.handler("orders")
def ship(message: Message) -> None:
    print("ships", message.body, flush=True)
