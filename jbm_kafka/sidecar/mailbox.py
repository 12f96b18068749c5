"""What others ask of an owner thread: commands that it carries out when it comes to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jbm_kafka.ports.wake_up import WakeUp


class Mailbox:
    """Any thread posts; one thread, the owner, carries out."""

    def __init__(self) -> None:
        self._commands: deque[Callable[[], None]] = deque()
        self.signal = WakeUp()
        """Set after every change that may be work for an owner that waits for this; the owner clears it."""
        self.also_wake: Callable[[], None] | None = None
        """Called then, for an owner that waits elsewhere."""

    def __len__(self) -> int:
        return len(self._commands)

    def post(self, command: Callable[[], None]) -> None:
        """Have a command carried out soon."""
        self._commands.append(command)
        self.wake()

    def wake(self) -> None:
        """Something changed that is not a command."""
        self.signal.set()
        if self.also_wake is not None:
            self.also_wake()

    def carry_out(self) -> bool:
        """Carry out what is there now, in the order posted; what that posts comes next time. The owner only.

        True: there was something.
        """
        count = len(self._commands)
        for _ in range(count):
            if self._commands:  # one that ends the owner carries out the others itself
                self._commands.popleft()()
        return count > 0
