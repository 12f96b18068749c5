"""A program that forks while its connection is open, as gunicorn does with preload; run by test_one_process.py."""

import gc
import os
import signal
import sys

from jbm_kafka import ConnectionFactory, Context, Queue
from tests.jms.support import SOON_S

QUEUE = Queue(sys.argv[2])


def work(context: Context) -> None:
    """A message goes there and comes back."""
    context.create_producer().send(QUEUE, "a")
    with context.create_consumer(QUEUE) as consumer:
        message = consumer.receive(SOON_S)
        assert message is not None
        assert message.body == "a"


def fork() -> bool:
    """True in the child, which ends with what `sys.exit()` says; the parent prints that, and goes on."""
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        return False
    signal.alarm(int(SOON_S))
    return True


factory = ConnectionFactory(sys.argv[1])
with factory.create_context() as context, context.create_consumer(QUEUE):
    work(context)
    if fork():
        sys.exit(0)
    if fork():
        sys.exit(7)
    work(context)
context = factory.create_context()
work(context)
if fork():
    del context
    gc.collect()
    sys.exit(0)
work(context)
context.close()
