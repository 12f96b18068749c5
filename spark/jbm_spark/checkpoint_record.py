"""Whose a checkpoint is: a query's that reads these topics and writes to that one. Kept beside Spark's own files.

Spark would take it for any query. One to another queue would write nothing, for all is written, elsewhere; one from
another queue would note positions of its topics, and then neither query could go on.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from jbm_spark.checkpoint_lock import LOCK_FILE
from jbm_spark.errors import CheckpointError

RECORD_FILE = "jbm.json"
_OF_SPARK = frozenset({"metadata", "offsets"})
"""What Spark makes first in a checkpoint; one of an earlier version of ours has these and no note."""


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


def claim(folder: Path, *, sources: Sequence[str] | None, target: str) -> None:
    """Note it in a folder that has no such note; the caller has the folder's lock. Sources that are None are not known.

    Raises:
        CheckpointError: it is another query's, or its note cannot be read or written.
    """
    path = folder / RECORD_FILE
    query = {"from": None if sources is None else sorted(sources), "to": target}
    try:
        if not path.exists():
            path.write_text(json.dumps(query) + "\n", encoding="utf-8")
            return
        noted = json.loads(path.read_text(encoding="utf-8"))
        before, to = noted["from"], noted["to"]
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


def _listed(topics: object) -> str:
    return ", ".join(map(str, topics)) if isinstance(topics, list) else "some other source"
