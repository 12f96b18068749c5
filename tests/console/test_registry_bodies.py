"""Bodies of a schema registry's serializers are shown by their schemas (LOOK-2)."""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from jbm_kafka import Queue
from jbm_kafka.admin import Admin
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.console.frame.registry_schemas import ID_HEADER, RegistrySchemas, UnreadableBody
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.conftest import MakeLooking

CUSTOMER = {"type": "record", "name": "com.acme.Customer", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "com.acme.Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "customer", "type": "com.acme.Customer"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "mark", "type": "bytes"},
    ],
}
ENDLESS = {"type": "record", "name": "E", "fields": [{"name": "all", "type": {"type": "array", "items": "null"}}]}
REFERENCES = [{"name": "com.acme.Customer", "subject": "customer", "version": 3}]
GUID = "0123456789abcdef0123456789abcdef"


class Registry:
    """A schema registry as its HTTP answers."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.logins: set[str | None] = set()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.logins.add(self.headers.get("Authorization"))
                found = registry.answers.get(self.path)
                body = json.dumps(found or {"error_code": 40403}).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    made.answers["/schemas/ids/7"] = {"schema": json.dumps(ORDER), "references": REFERENCES}
    made.answers["/subjects/customer/versions/3"] = {"schema": json.dumps(CUSTOMER)}
    made.answers["/schemas/ids/8"] = {"schemaType": "JSON", "schema": "{}"}
    made.answers["/schemas/ids/9"] = {"schema": json.dumps(ENDLESS)}
    yield made
    made.close()


def framed(schema_id: int, data: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + data


def an_order() -> bytes:
    named: dict[str, Any] = {}
    parse_schema(CUSTOMER, named_schemas=named)
    buffer = BytesIO()
    value = {"id": 5, "customer": {"name": "Ann <b>"}, "at": 1_700_000_000_000, "mark": b"\x01\xff"}
    schemaless_writer(buffer, parse_schema(ORDER, named_schemas=named), value)
    return buffer.getvalue()


def test_avro_is_read_by_its_schema_and_those_that_it_names_once(registry: Registry) -> None:
    schemas = RegistrySchemas(registry.url, "ann", "secret")
    for _ in range(2):
        found = schemas.read((), framed(7, an_order()))
        assert found is not None
        value = json.loads(found.text)
        assert (value["id"], value["customer"], value["mark"]) == (5, {"name": "Ann <b>"}, "01 ff")
        assert value["at"].startswith("2023-11-14 22:13:20")
        assert found.schema == "Avro by schema 7, com.acme.Order"
    assert registry.asked == ["/schemas/ids/7", "/subjects/customer/versions/3"]
    assert registry.logins == {"Basic " + base64.b64encode(b"ann:secret").decode()}


def test_json_and_a_header_that_has_the_id(registry: Registry) -> None:
    schemas = RegistrySchemas(registry.url)
    found = schemas.read((), framed(8, b'{"a": [1]}'))
    assert found is not None
    assert (json.loads(found.text), found.schema) == ({"a": [1]}, "JSON by schema 8")
    registry.answers["/schemas/guids/01234567-89ab-cdef-0123-456789abcdef"] = {"schemaType": "JSON", "schema": "{}"}
    told = schemas.read(((ID_HEADER, b"\x01" + bytes.fromhex(GUID)),), b'{"b": 2}')
    assert told is not None
    assert json.loads(told.text) == {"b": 2}
    assert schemas.read((), b"plain bytes") is None


def test_protobuf_is_read_by_its_descriptor(registry: Registry) -> None:
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="acme", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    outer = file.message_type.add(name="Outer")
    inner = outer.nested_type.add(name="Order")
    inner.field.add(name="order_id", number=1, type=5, label=1)
    inner.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    pool.Add(stamp)
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("acme.Outer.Order"))(order_id=7)
    made.at.seconds = 1
    data = b"\x04\x00\x00" + made.SerializeToString()
    registry.answers["/schemas/ids/5"] = {"schemaType": "PROTOBUF", "schema": "syntax = ..."}
    serialized = base64.b64encode(file.SerializeToString()).decode()
    registry.answers["/schemas/ids/5?format=serialized"] = {"schemaType": "PROTOBUF", "schema": serialized}
    found = RegistrySchemas(registry.url).read((), framed(5, data))
    assert found is not None
    assert json.loads(found.text) == {"order_id": 7, "at": "1970-01-01T00:00:01Z"}
    assert found.schema == "Protobuf by schema 5, acme.Outer.Order"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (framed(7, b"\x02"), "it does not fit schema 7: "),
        (framed(7, an_order() + b"\x00"), "it does not fit schema 7: ValueError: bytes are left behind it"),
        (framed(8, b"{"), "it does not fit schema 8: JSONDecodeError"),
        (framed(11, b""), "the schema registry has no such schema (/schemas/ids/11)"),
        (framed(9, b"\xfe\xff\xff\xff\x0f\x00"), "which may be of any length"),
        (framed(8, b" " * (2 << 20)), "it has more than 1,048,576 bytes"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(registry: Registry, value: bytes, told: str) -> None:
    """And a registry that has no such schema is not asked again at once."""
    schemas = RegistrySchemas(registry.url)
    for _ in range(2):
        with pytest.raises(UnreadableBody) as caught:
            schemas.read((), value)
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
    assert len(registry.asked) == len(set(registry.asked))


def test_a_registry_that_does_not_answer_is_told(registry: Registry) -> None:
    url = registry.url
    registry.close()
    with pytest.raises(UnreadableBody, match="the schema registry does not answer: "):
        RegistrySchemas(url).read((), framed(7, b""))
    for wrong in ("registry:8081", "ftp://registry", "http://ann:secret@registry"):
        with pytest.raises(InvalidSettingError, match="user and password are settings of their own") as caught:
            RegistrySchemas(wrong)
        assert "secret" not in str(caught.value)


def test_the_page_of_a_message_shows_it_and_why_not(
    world: MemoryWorld, look_with: MakeLooking, registry: Registry
) -> None:
    looking = look_with(ConsoleSettings(schema_registry=registry.url))
    with Admin(world.url) as admin:
        admin.create_queue(Queue("orders"), partitions=1)
    sender = MemoryKafka(world._world.cluster).sender()
    for value in (framed(7, an_order()), framed(11, b"?")):
        sender.send(Outgoing("orders", 0, None, value, ()), None)
    sender.flush(5)
    body = looking.json("/queues/orders/message", at="0.0")["body"]
    assert (body["kind"], body["codec"], body["notes"]) == (
        "json", "schema-registry", ["Avro by schema 7, com.acme.Order."],
    )  # fmt: skip
    page = looking.page("/queues/orders/message?at=0.0")
    assert "Ann &lt;b&gt;" in page
    other = looking.json("/queues/orders/message", at="0.1")["body"]
    assert other["kind"] == "bytes"
    assert "the schema registry has no such schema" in other["notes"][0]
