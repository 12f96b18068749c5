"""The waits of one connection's calls for its provider, and how long its closing takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.listening_threads import ListeningThreads
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import Provider


class CloseDeadline:
    """Any thread; one of them closes."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._patience: Patience | None = None
        """Once the connection closes."""
        self._closing_thread = 0
        self._awaited: set[Completion] = set()
        self._has_given_up = False
        self.listening = ListeningThreads()
        """Closing waits for them, too."""

    def wait_for(self, completion: Completion, timeout_s: float, *, about: str) -> None:
        """Return when it is completed.

        Raises:
            JMSError: what it failed with, or that no answer came in time.
        """
        self._awaited.add(completion)
        try:
            if self._has_given_up:  # while this call was on its way here: nobody else would tell it
                completion.complete(_silent())
            if self._closing_thread == threading.get_ident():
                self.wait_closing(completion.wait_done, timeout_s)
            completion.wait(timeout_s, about=about)
        finally:
            self._awaited.discard(completion)

    @property
    def is_closing(self) -> bool:
        """The connection closes, or has closed."""
        return self._patience is not None

    def begin_close(self) -> None:
        """From now on this thread waits for Kafka as `Patience` says."""
        self._patience = self._provider.begin_close()
        self._closing_thread = threading.get_ident()

    def wait_closing(self, wait_for: Callable[[float], bool], timeout_s: float) -> bool:
        """One step of closing: True when `wait_for`, given some seconds, said so in time.

        When Kafka is silent for too long, all waits for it fail; waits for an application's own code have their time
        after that, whatever Kafka does.
        """
        if self._patience is None or self._closing_thread != threading.get_ident():
            return wait_for(timeout_s)
        if self._patience.wait(wait_for, timeout_s):
            return True
        if not self._patience.is_over:
            return False
        self._give_up()
        return wait_for(timeout_s)

    def _give_up(self) -> None:
        self._has_given_up = True
        self._provider.give_up_sends()
        for completion in list(self._awaited):
            completion.complete(_silent())


def _silent() -> JMSError:
    return JMSError("Kafka did not answer while the connection was closed")
