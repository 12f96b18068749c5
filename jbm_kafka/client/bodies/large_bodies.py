"""A claim check: what is too large for a record is kept in a store, and the record says where (decision 113).

A body is durable in its store before the record that names it is handed to Kafka, and nothing here ever removes one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

from jbm_kafka.client.bodies.body_store import BodyStore
from jbm_kafka.codec.large_body import (
    BodyReference,
    body_name,
    digest_of,
    named_body,
    read_reference,
    reference_headers,
)
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.bootstrap import without_credentials
from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import LargeBodyError
from jbm_kafka.core.wrong_values import checked_int, shown, wrong_type, wrong_value

BODY_BYTES_MAX: Final = 900_000
"""Larger bodies are kept elsewhere: Kafka's usual limit of a record is 1 MiB, and headers have room beside this."""
_RULE = "write s3://BUCKET/FOLDER, file:/FOLDER or another URL that fsspec knows, or give an object with put, get, " \
    "list and remove"  # fmt: skip


class BodyReader(Protocol):
    """Whatever has the bodies that records name."""

    def fetch(self, headers: Sequence[Header] | None) -> bytes:
        """Return the body that a record's headers name. Raises LargeBodyError when it cannot be had."""


class FetchedBody:
    """One body that was fetched before it is needed, off an event loop; implements `BodyReader`."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def fetch(self, headers: Sequence[Header] | None) -> bytes:
        return self._body


class LargeBodies:
    """A store of large bodies, with the limit above which bodies go there. Any thread; it can be pickled.

    Raises:
        InvalidSettingError: the store or the limit cannot be; the text says what they are.
    """

    def __init__(self, given: str | BodyStore, limit_bytes: int = BODY_BYTES_MAX) -> None:
        self.given = given
        self.store = open_store(given)
        self.limit_bytes: int = checked_int("large_body_bytes", limit_bytes, 0, None, "bytes")
        """Larger bodies are kept in the store."""

    def __reduce__(self) -> tuple[Callable[..., LargeBodies], tuple[object, ...]]:
        return LargeBodies, (self.given, self.limit_bytes)

    def __repr__(self) -> str:
        return without_credentials(self.given) if isinstance(self.given, str) else shown(self.store)

    def keep(self, body: bytes, now_ms: int) -> list[Header]:
        """Keep the body; returns the headers by which a record names it.

        Raises:
            LargeBodyError: the store did not take it.
        """
        day = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d")
        reference = BodyReference(body_name(day, now_ms, secrets.token_hex(16)), digest_of(body), len(body))
        try:
            self.store.put(reference.name, body)
        except Exception as error:  # whatever the store raises
            raise LargeBodyError(
                f"a body of {len(body)} bytes was not kept in {self!r} ({failure_text(error)}), and nothing was sent: "
                f"see to the store, and send again",
                body_name=reference.name,
            ) from error
        return reference_headers(reference)

    def fetch(self, headers: Sequence[Header] | None) -> bytes:
        """Return the body that a record's headers name.

        Raises:
            LargeBodyError: it is not there, cannot be read, or is not the one that was sent.
        """
        try:
            reference = read_reference(headers)
        except ValueError as fault:
            raise LargeBodyError(f"where the body is cannot be read: {fault}", is_gone=True) from None
        name = reference.name
        try:
            body = self.store.get(name)
        except Exception as error:  # whatever the store raises
            raise LargeBodyError(
                f"the body {name} cannot be read from {self!r} now: {failure_text(error)}", body_name=name
            ) from error
        if body is None:
            raise LargeBodyError(
                f"the body {name} is not in {self!r}: it was removed, or was kept in another store",
                body_name=name,
                is_gone=True,
            )
        if len(body) != reference.size_bytes or digest_of(body) != reference.digest:
            raise LargeBodyError(
                f"the body {name} in {self!r} is not the one that was sent: it has {len(body)} bytes and "
                f"{digest_of(body)[:19]}…, sent were {reference.size_bytes} and {reference.digest[:19]}…",
                body_name=name,
                is_gone=True,
            )
        return body


def fetched(bodies: BodyReader | None, headers: Sequence[Header] | None) -> bytes:
    """Return the body that a record's headers name; `bodies` is None where no store was given.

    Raises:
        LargeBodyError: it cannot be had.
    """
    if bodies is None:
        name = named_body(headers)
        raise LargeBodyError(
            f"the body {name} is kept in a store of large bodies, and none is given here: give the one that its sender "
            f"has, as large_bodies=…",
            body_name=name,
        )
    return bodies.fetch(headers)


def large_bodies_of(given: object, limit_bytes: Any, *, no_limit: object) -> LargeBodies | None:
    """Return the place for large bodies that these two arguments choose, or None: bodies stay in their records.

    Raises:
        InvalidSettingError: there is no such store, or a limit without a store.
    """
    is_limited = limit_bytes is not no_limit
    if given is None:
        if is_limited:
            raise wrong_value("large_body_bytes", limit_bytes, "it says nothing without large_bodies; give both")
        return None
    return LargeBodies(given, limit_bytes) if is_limited else LargeBodies(given)  # type: ignore[arg-type]


def open_store(given: object) -> BodyStore:
    """Return the store that a URL names, or the application's own object as it is.

    Raises:
        InvalidSettingError: it is neither.
    """
    if not isinstance(given, str):
        if isinstance(given, BodyStore) and not isinstance(given, type):
            return given
        raise wrong_type("large_bodies", given, _RULE)
    scheme, colon, rest = given.partition(":")
    if scheme == "file" and colon:
        return _folder(given, rest)
    if not colon or not rest.startswith("//"):
        raise wrong_value("large_bodies", without_credentials(given), _RULE)
    return _over_fsspec(given)


def _folder(given: str, rest: str) -> BodyStore:
    from jbm_kafka.client.bodies.folder_store import FolderStore

    folder = Path(unquote(rest.removeprefix("//") if rest.startswith("///") else rest))
    if not folder.is_absolute() or (rest.startswith("//") and not rest.startswith("///")):
        raise wrong_value("large_bodies", given, "write file:/ and the whole path of a folder")
    if folder.exists() and not folder.is_dir():
        raise wrong_value("large_bodies", given, "it is a file; name a folder that all machines have there")
    return FolderStore(folder)


def _over_fsspec(url: str) -> BodyStore:
    """Return the store that fsspec opens by this URL.

    Raises:
        InvalidSettingError: fsspec is not installed or cannot open it; the text has no credentials of the URL.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        rule = "it needs fsspec: pip install 'jbm-kafka[large-bodies]'"
        raise wrong_value("large_bodies", without_credentials(url), rule) from None
    from jbm_kafka.client.bodies.fsspec_store import FsspecStore

    try:
        files, root = url_to_fs(url)
    except Exception as error:  # an unknown scheme, a package that is not installed, credentials that are missing
        rule = f"fsspec cannot open it: {failure_text(error)}"
        raise wrong_value("large_bodies", without_credentials(url), rule) from error
    return FsspecStore(files, root, without_credentials(url))
