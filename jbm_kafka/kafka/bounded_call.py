"""A call into librdkafka that may not come back: given up at a time limit, and left to a thread of its own."""

import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException


def bounded(call: Callable[[], object], timeout_s: float) -> None:
    """Return, or raise, what `call` does; KafkaException "timed out" when it does neither in time.

    Then its thread stays in the call, with everything that the call holds: it must not be used any more.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    # A daemon: the end of the process waits for nothing that never ends.
    thread = threading.Thread(target=run, name="jbm-bounded-call", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"the client did not return within {timeout_s:.3g} s"))
    if raised:
        raise raised[0]
