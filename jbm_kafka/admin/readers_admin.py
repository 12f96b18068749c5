"""Registered readers: which there are, and the end of one."""

from __future__ import annotations

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.registry.readers import end_reader, registered_readers


class ReadersAdmin:
    """Looks up registered readers, and ends them. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def readers(self) -> list[RegisteredReader]:
        """All that are registered."""
        with self._core.asking("list registered readers"):
            return registered_readers(self._core.registry.log)

    def end(self, name: str, kind: str) -> RegisteredReader:
        """End it; what it was."""
        with self._core.asking(f"end the registered reader {shown(name)}"):
            found = {(each.kind, each.name): each for each in registered_readers(self._core.registry.log)}
            reader = found.get((kind, name))
            if reader is None:
                known = ", ".join(sorted(shown(each.name) for each in found.values() if each.kind == kind)) or "none"
                raise InvalidDestinationError(
                    f"no reader of kind {kind} is registered as {shown(name)}; there are: {known}"
                )
            end_reader(self._core.registry.log, kind, name)
            return reader
