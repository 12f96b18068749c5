"""Whose a checkpoint is: a query's that reads these topics and writes to that one. Kept beside Spark's own files.

Spark would take it for any query. One to another queue would write nothing, for all is written, elsewhere; one from
another queue would note positions of its topics, and then neither query could go on. And it goes by offsets alone: of a
topic that was made anew it would skip the first messages, so Kafka's ids of the topics are noted, too.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from jbm_spark.checkpoint_lock import LOCK_FILE
from jbm_spark.errors import CheckpointError, QueryError

log = logging.getLogger(__name__)

RECORD_FILE = "jbm.json"
_OF_SPARK = frozenset({"metadata", "offsets"})
"""The files that Spark makes first in a checkpoint; one of an earlier version of ours has these and no note."""


def check_folder(folder: Path) -> None:
    """Before anything is written into it: Spark would put its files between those of something else.

    Raises:
        CheckpointError: the folder has files, and is no checkpoint.
    """
    try:
        there = {path.name for path in folder.iterdir()}
    except OSError:  # not made yet; or the lock has a better error
        return
    others = sorted(name for name in there if name != LOCK_FILE and not name.startswith("."))
    if others and RECORD_FILE not in there and not there & _OF_SPARK:
        raise CheckpointError(
            f"checkpoint {folder} is a folder with other files, such as {others[0]}, and no checkpoint: name a new "
            f"folder, such as {folder / 'checkpoint'}"
        )


class Note(Protocol):
    """The file with the note, on whatever file system the checkpoint is."""

    def read(self) -> str | None:
        """None: it is not there."""

    def write(self, text: str) -> None:
        """Returns when it is there, in place of an earlier one."""


class LocalNote:
    """In a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RECORD_FILE

    def read(self) -> str | None:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, text: str) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self._path)


def claim(
    note: Note, folder: object, *, sources: Sequence[str] | None, ids: Mapping[str, str], target: str
) -> Mapping[str, str]:
    """Note whose the folder is, where nothing is noted; the ids that count. `ids`: those that the topics have now.

    Sources that are None are not known. The caller has the folder's lock, where there are locks.

    Raises:
        CheckpointError: it is another query's, or its note cannot be read or written.
        QueryError: a source was made anew.
    """
    query = {"from": None if sources is None else sorted(sources), "to": target}
    try:
        text = note.read()
        if text is None:
            note.write(json.dumps({**query, "ids": dict(ids)}) + "\n")
            return ids
        noted = json.loads(text)
        before, to, known = noted["from"], noted["to"], dict(noted.get("ids", {}))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"checkpoint {folder}: its file {RECORD_FILE} cannot be used ({error}); name another folder"
        ) from None
    is_from_others = None not in (before, query["from"]) and before != query["from"]
    if to != target or is_from_others:
        raise CheckpointError(
            f"checkpoint {folder} is that of a query from {_listed(before)} to {to}, and this one is from "
            f"{_listed(query['from'])} to {target}: give it a folder of its own"
        )
    check_ids(known, ids)
    if new := {topic: each for topic, each in ids.items() if topic not in known}:
        log.warning(
            "checkpoint %s does not tell the topics' ids, as one of an earlier version: from now on it is that of %s; "
            "if one of them was made anew since the last run, messages were skipped",
            folder, ", ".join(f"{topic} with the id {each}" for topic, each in new.items()),
        )  # fmt: skip
        known |= new
        try:
            note.write(json.dumps({**noted, "ids": known}) + "\n")
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {folder}: {error.strerror or error}; see that it can be written"
            ) from None
    return known


def check_ids(noted: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises QueryError: a topic was made anew, and offsets of the one before say nothing of it."""
    for topic, before in noted.items():
        if now.get(topic, before) != before:
            raise QueryError(
                f"topic {topic} was made anew: the checkpoint is of the one with the id {before}, and now it is "
                f"{now[topic]}; messages that were not read yet are gone: begin with a new checkpoint"
            )


def _listed(topics: object) -> str:
    return ", ".join(map(str, topics)) if isinstance(topics, list) else "some other source"
