"""The id file of a state folder: what it is called and whose it is."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError

ID_FILE = "jbm-state.json"
FOLDER_VERSION = 1
"""The version of the folder's layout. A newer one is refused: its meaning is not known here."""


@dataclass(frozen=True, slots=True)
class FolderId:
    """The contents of the id file."""

    version: int
    folder_id: str
    """Random; part of the transactional ids of whoever holds the folder."""
    cluster_id: str
    """Kafka's own id of the cluster, which no address change alters."""
    namespace: str


def read_or_create_id(path: Path, *, cluster_id: str, namespace: str) -> FolderId:
    """The folder's id, made when it has none. Call it under the folder's lock.

    Raises:
        IllegalStateError: the folder is another installation's, a newer version's, or its id cannot be read.
        ResourceAllocationError: the disk refuses.
    """
    file = path / ID_FILE
    try:
        text = file.read_text()
    except FileNotFoundError:
        return _create_id(path, cluster_id=cluster_id, namespace=namespace)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, str(error)) from error
    found = _parse(path, text)
    if (found.cluster_id, found.namespace) != (cluster_id, namespace):
        raise IllegalStateError(
            f"state folder {path} belongs to {_installation(found.cluster_id, found.namespace)}, and this is "
            f"{_installation(cluster_id, namespace)}; name another state folder for it, or delete that one if its "
            "installation is no more",
            path=str(path),
        )
    return found


def _installation(cluster_id: str, namespace: str) -> str:
    return f"cluster {cluster_id!r}" + (f" namespace {namespace!r}" if namespace else " without a namespace")


def _parse(path: Path, text: str) -> FolderId:
    try:
        fields = json.loads(text)
        version = fields["version"]
        if isinstance(version, int) and version > FOLDER_VERSION:
            raise IllegalStateError(
                f"state folder {path} was written by a newer jbm-kafka (layout {version}, known here: "
                f"{FOLDER_VERSION}); use that version, or delete the folder: it is rebuilt from the changelogs",
                path=str(path),
            )
        found = FolderId(version, fields["folder_id"], fields["cluster_id"], fields["namespace"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, repr(error)) from error
    names = (found.folder_id, found.cluster_id, found.namespace)
    if found.version != FOLDER_VERSION or not all(isinstance(n, str) for n in names) or not found.folder_id.isalnum():
        raise _unreadable(path, f"it says {text.strip()[:200]}")
    return found


def _unreadable(path: Path, cause: str) -> IllegalStateError:
    return IllegalStateError(
        f"state folder {path}: its {ID_FILE} cannot be read ({cause}); delete the folder, it is rebuilt from the "
        "changelogs, or name another",
        path=str(path),
    )


def _create_id(path: Path, *, cluster_id: str, namespace: str) -> FolderId:
    made = FolderId(FOLDER_VERSION, uuid.uuid4().hex[:16], cluster_id, namespace)
    unfinished = path / f"{ID_FILE}.new"
    try:
        with unfinished.open("w") as file:
            json.dump(asdict(made), file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path / ID_FILE)
    except OSError as error:
        raise ResourceAllocationError(
            f"state folder {path} cannot be written: {error.strerror}; it needs a local disk this user can write to",
            path=str(path),
        ) from error
    return made
