"""Into Kafka from elsewhere one process works at a time; others stand by until it is gone (BRIDGE-9, decision 132)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.pumps import Pump, StandsBy, TakenOver
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.ports.fenced_sends import FencedOff, FencedSends

SIGN_S = 1.0
"""So often it is looked whether it is time for a sign of life."""
PATIENCE_S = 120.0
"""A step that takes longer hangs: joining a group, the longest wait, gives up before, and a batch is bounded. Another
process may work then."""

_FROM = ", from "


def owner_name(process: str, spec: BridgeSpec) -> str:
    """The process as others that want to run the bridge see it, with the source that it takes from."""
    return f"{process}{_FROM}{spec.source.place}"


class OneAtATime:
    """Implements `Pump`: begins the one that works when no other process runs the bridge.

    A thread of its own shows that this process lives, for a step may take longer than others wait: until a source has
    read what its queue holds, say.
    """

    def __init__(
        self,
        fenced: FencedSends,
        spec: BridgeSpec,
        begin: Callable[[], Pump],
        *,
        sign_s: float = SIGN_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`fenced`: of the bridge's name; `begin` makes the pump that works by it, which takes it over."""
        self._fenced = fenced
        self._target = spec.target.destination
        self._place = spec.source.place
        self._begin = begin
        self._sign_s, self._patience_s = sign_s, patience_s
        self._working: Pump | None = None
        self._step_began_s = time.monotonic()
        self._lost: KafkaClientError | FencedOff | None = None
        """Why a sign could not be given: the name is not ours any more, or must be taken over again."""
        self._ends = threading.Event()
        self._signs: threading.Thread | None = None

    def step(self) -> int | None:
        """Work; or raise StandsBy, and be asked again."""
        self._step_began_s = time.monotonic()
        if self._working is None:
            self._look()
            self._signs = threading.Thread(target=self._show_life, name="jbm-bridge-signs", daemon=True)
            self._signs.start()
            self._working = self._begin()
        self._check_ours()
        try:
            return self._working.step()
        except JMSError:
            self._check_ours()  # else the error is that nothing can be sent any more, and this one is why
            raise

    def _check_ours(self) -> None:
        if isinstance(self._lost, FencedOff):
            raise TakenOver(str(self._lost)) from None
        if self._lost is not None:
            raise as_jms_error(self._lost, str(self._target)) from None

    def _look(self) -> None:
        try:
            holder = self._fenced.holder()
        except KafkaClientError as error:
            raise as_jms_error(error, str(self._target)) from None
        if holder is None:
            return
        who, _, place = holder.partition(_FROM)
        if place in ("", self._place):
            raise StandsBy(f"{who} runs it; this process goes on with it when that one ends")
        raise StandsBy(
            f"{who} runs a bridge of this name from {place}, and this one is from {self._place}: unless these are one "
            f"and the same, give one of the bridges another name. This process goes on when that one ends",
            is_from_elsewhere=True,
        )

    def _show_life(self) -> None:
        while self._lost is None and not self._ends.wait(self._sign_s):
            if time.monotonic() - self._step_began_s < self._patience_s:
                try:
                    self._fenced.sign()
                except (KafkaClientError, FencedOff) as error:
                    self._lost = error

    def close(self) -> None:
        """Let others have the bridge; what has not arrived comes again to them."""
        try:
            if self._working is not None:
                self._working.close()
        finally:
            self._ends.set()
            self._fenced.close()
            if self._signs is not None:
                self._signs.join()
