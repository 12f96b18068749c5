"""A store of large bodies in memory that notes what is asked of it, and can be down."""

import threading
from collections.abc import Iterable

from jbm_kafka.client.bodies.body_store import StoredBody


class CountedStore:
    """Implements `BodyStore`, as an application may."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.gets: list[str] = []
        self.used_on: list[int] = []
        self.is_down = False

    def put(self, name: str, body: bytes) -> None:
        self.used_on.append(threading.get_ident())
        if self.is_down:
            raise OSError("no route to the store")
        self.bodies[name] = body

    def get(self, name: str) -> bytes | None:
        self.gets.append(name)
        self.used_on.append(threading.get_ident())
        if self.is_down:
            raise OSError("no route to the store")
        return self.bodies.get(name)

    def list(self) -> Iterable[StoredBody]:
        return [StoredBody(name, len(body)) for name, body in self.bodies.items()]

    def remove(self, name: str) -> None:
        self.bodies.pop(name, None)
