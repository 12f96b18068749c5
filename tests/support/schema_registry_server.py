"""A small schema registry: what confluent-kafka's serializers ask one by HTTP, kept in memory."""

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class SchemaRegistryServer(ThreadingHTTPServer):
    """Schemas by id, each under the subjects that it was registered for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    server: SchemaRegistryServer

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        sent = json.loads(self.rfile.read(size))
        found = re.fullmatch(r"/subjects/([^/]+)(/versions)?", self._path())
        if found is None:
            return self._answer(404, {"error_code": 404, "message": "no such path"})
        subject, schema = unquote(found[1]), {"schema": sent["schema"], "schemaType": sent.get("schemaType", "AVRO")}
        if sent.get("references"):
            schema["references"] = sent["references"]
        with self.server.lock:
            known = self.server.subjects.setdefault(subject, [])
            if schema not in self.server.schemas:
                self.server.schemas.append(schema)
            number = self.server.schemas.index(schema) + 1
            if number not in known:
                known.append(number)
        return self._answer(200, self._schema(number) | {"subject": subject, "version": known.index(number) + 1})

    def do_GET(self) -> None:
        by_id = re.fullmatch(r"/schemas/ids/(\d+)", self._path())
        by_guid = re.fullmatch(r"/schemas/guids/([0-9a-f-]+)", self._path())
        for number in range(1, len(self.server.schemas) + 1):
            if (by_id is not None and int(by_id[1]) == number) or (by_guid is not None and by_guid[1] == _guid(number)):
                return self._answer(200, self._schema(number))
        of_subject = re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+|latest))?", self._path())
        numbers = [] if of_subject is None else self.server.subjects.get(unquote(of_subject[1]), [])
        if of_subject is not None and numbers:
            if of_subject[2] is None:
                return self._answer(200, [*range(1, len(numbers) + 1)])
            version = len(numbers) if of_subject[2] == "latest" else int(of_subject[2])
            told = {"subject": unquote(of_subject[1]), "version": version}
            return self._answer(200, self._schema(numbers[version - 1]) | told)
        return self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _path(self) -> str:
        self.server.asked.append(self.path)
        return urlsplit(self.path).path

    def _schema(self, number: int) -> dict[str, Any]:
        return {"id": number, "guid": _guid(number), **self.server.schemas[number - 1]}

    def _answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing: pytest would show each request."""


def _guid(number: int) -> str:
    return str(uuid.UUID(int=number))


@contextmanager
def schema_registry() -> Iterator[SchemaRegistryServer]:
    """A registry while the block lasts."""
    server = SchemaRegistryServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
