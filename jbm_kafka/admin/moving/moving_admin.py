"""Exports and imports of one cluster, as callers ask for them."""

from __future__ import annotations

import os
from pathlib import Path

from jbm_kafka.admin.cluster.admin_arguments import queue_of
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.moving.adopting import Adoption, From, adopt
from jbm_kafka.admin.moving.exporting import ExportReport, export
from jbm_kafka.admin.moving.importing import ImportReport, import_file
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.wrong_values import wrong_type

PathLike = str | os.PathLike[str]


class MovingAdmin:
    """Writes held messages into files, and reads them back. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def export(self, destination: Queue | Topic | str, file: PathLike) -> ExportReport:
        """Write what a queue, or a topic's durable subscriptions, hold."""
        path = _path(file)
        with self._core.asking(f"export {destination}"):
            return export(self._core, self._core.catalog.named(destination), path)

    def import_(self, file: PathLike, to: Queue | Topic | str | None) -> ImportReport:
        """Put there what a file has."""
        path = _path(file)
        with self._core.asking(f"import {path}"):
            return import_file(self._core, path, to)

    def adopt(self, destination: Queue | Topic | str, begin: From) -> Adoption:
        """Take a topic that others copied."""
        found = destination if isinstance(destination, Topic) else queue_of(destination, "destination")
        with self._core.asking(f"adopt {found}"):
            return adopt(self._core, found, begin)


def _path(file: object) -> Path:
    if not isinstance(file, str | os.PathLike):
        raise wrong_type("file", file, "it is a path, as in 'orders.avro'")
    return Path(file)
