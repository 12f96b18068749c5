"""Bodies of a schema registry's serializers in Spark: one typed column, whichever schema wrote them (SPARK-20)."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import DataFrame, Row, SparkSession

from jbm_spark.archiving.archive_rows import archived_rows, message_rows
from jbm_spark.columns import message_columns
from jbm_spark.errors import FrameRefusedError, RegistryError
from jbm_spark.json_schema_types import struct_of
from jbm_spark.messages import message_stream
from jbm_spark.raw_columns import shown
from jbm_spark.typed_body_columns import with_typed_bodies
from tests.docs.page import read_page
from tests.house.sources import ROOT
from tests.spark.conftest import Topics
from tests.spark.records import Record
from tests.support.schema_registry_server import SchemaRegistryServer, schema_registry

RECORDS_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
AT = datetime(2023, 11, 14, tzinfo=UTC)
ITEM = {"name": "item", "type": "string"}
FIRST = {"type": "record", "name": "acme.Order", "fields": [ITEM, {"name": "qty", "type": "int"}]}
TAGS = {"name": "tags", "type": {"type": "array", "items": ["null", "string", "boolean"]}, "default": []}
SECOND = {"type": "record", "name": "acme.Order", "fields": [ITEM, {"name": "qty", "type": "long"}, TAGS]}
CUSTOMER = {"type": "record", "name": "acme.Customer", "fields": [{"name": "name", "type": "string"}]}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "item": {"type": "string"}, "qty": {"type": "integer"}, "price": {"type": ["null", "number"]},
        "to": {"$ref": "#/definitions/person"}, "marks": {"type": "array", "items": {"type": "boolean"}},
        "more": {"type": "object", "additionalProperties": {"type": "string"}}, "any": {},
    },
    "definitions": {"person": {"type": "object", "properties": {
        "name": {"type": "string"}, "boss": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/person"}]}}}},
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with schema_registry() as server:
        yield server


@pytest.fixture
def client(registry: SchemaRegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url, "max.retries": 0})


def written(client: SchemaRegistryClient, schema: object, value: object, headers: Any = None) -> bytes:
    """As confluent's serializer writes it for the subject `orders-value`."""
    conf = {} if headers is None else {"schema.id.serializer": header_schema_id_serializer}
    serializer = AvroSerializer(client, json.dumps(schema), conf=conf)
    return bytes(serializer(value, SerializationContext("orders", MessageField.VALUE, headers)))


def records(spark: SparkSession, *values: bytes | None, headers: Sequence[tuple[str, bytes]] = ()) -> DataFrame:
    """Messages with these values, each with its whole record."""
    found = [("t", 0, offset, AT, None, value, list(headers)) for offset, value in enumerate(values)]
    return message_columns(spark.createDataFrame(found, RECORDS_SCHEMA))


def frame(spark: SparkSession, *values: bytes | None, headers: Sequence[tuple[str, bytes]] = ()) -> DataFrame:
    """As `messages` gives them."""
    return shown(records(spark, *values, headers=headers), raw=False)


def typed(read: DataFrame) -> list[tuple[Row | None, str | None]]:
    return [(row[0], row[1]) for row in read.select("typed_body", "typed_body_error").collect()]


def test_bodies_of_every_schema_are_one_column(
    spark: SparkSession, client: SchemaRegistryClient, registry: SchemaRegistryServer
) -> None:
    """SPARK-20: by Avro's resolution as the latest schema, or a given one; by an id before the body or in a header; the
    registry is asked by the driver alone."""
    first = written(client, FIRST, {"item": "chair", "qty": 3})
    second = written(client, SECOND, {"item": "table", "qty": 2**40, "tags": [None, "new", True]})
    header: list[tuple[str, bytes]] = []
    bare = written(client, SECOND, {"item": "lamp", "qty": 5, "tags": []}, header)
    guid = b"\1" + (b"\0" * 15) + b"\1" + first[5:]
    read = with_typed_bodies(frame(spark, first, second, guid), client, "orders-value")
    beside = with_typed_bodies(frame(spark, bare, headers=header), client, "orders-value")
    older = with_typed_bodies(frame(spark, first, second), client, "orders-value", reader=json.dumps(FIRST))
    asked = len(registry.asked)
    found, [(lamp, _)] = typed(read), typed(beside)
    assert [error for _, error in found] == [None] * 3
    bodies = [body.asDict(recursive=True) for body, _ in found if body is not None]
    assert [(each["item"], each["qty"]) for each in bodies] == [("chair", 3), ("table", 2**40), ("chair", 3)]
    assert [len(each["tags"]) for each in bodies] == [0, 3, 0]
    assert lamp is not None
    assert lamp["item"] == "lamp"
    [chair, (table, error)] = typed(older)
    assert (chair, table) == ((Row(item="chair", qty=3), None), None)  # an int has no room for the long
    assert error == "it does not fit the schema that it is read by"
    assert len(registry.asked) == asked


def test_no_body_ends_a_query(spark: SparkSession, client: SchemaRegistryClient) -> None:
    """SPARK-20: each has its value or the reason, and what fastavro reads to the end is read alike."""
    value = {"item": "chair", "qty": 300, "tags": ["new", True, None, "used"]}
    good = written(client, SECOND, value)
    start, data = good[:5], good[5:]
    damaged = [data[:at] for at in range(len(data))]
    damaged += [data[:at] + bytes([byte]) + data[at + 1 :] for at in range(len(data)) for byte in (0, 1, 3, 127, 255)]
    huge = [b"\x02a\x02" + count + b"\0" * 9 for count in (b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f\x02")]
    huge += [b"\xfe\xff\xff\xff\x0f", b"\xff" * 12, data + b"x"]
    found = typed(with_typed_bodies(frame(spark, *(start + each for each in damaged + huge)), client, "orders-value"))
    schema = fastavro.parse_schema(SECOND)
    read = 0
    for each, (body, error) in zip(damaged + huge, found, strict=True):
        assert (body is None) != (error is None), each
        if body is not None:
            left = BytesIO(each)
            wanted: Any = fastavro.schemaless_reader(left, schema, None)
            assert left.read() == b""
            assert [body["item"], body["qty"]] == [wanted["item"], wanted["qty"]]
            assert len(body["tags"]) == len(wanted["tags"])
            read += 1
    assert 10 < read < len(damaged)
    assert all(body is None for body, _ in found[len(damaged) :])


def test_no_block_of_items_leads_beside_what_was_looked_at(spark: SparkSession, client: SchemaRegistryClient) -> None:
    """SPARK-20: where the reader has no such field, Avro goes on behind as many bytes as the block announces: here
    within a text, where a length of 10**9 stands."""
    arrays = [{"name": f"a{kind}", "type": {"type": "array", "items": kind}} for kind in ("int", "null")]
    start = written(client, FIRST | {"fields": [*arrays, ITEM]}, {"aint": [], "anull": [], "item": ""})[:5]
    client.register_schema("orders-value", Schema(json.dumps(FIRST | {"fields": [ITEM]}), "AVRO"))
    text = b"\0\0\xf4\x8f\xbf\xbf\x07aaa"
    behind = b"\x04\0" + b"\0" + bytes([2 * len(text)]) + text
    nulls = b"\0" + b"\x02" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\0" + b"\x02a"
    values = [b"\x01\x02" + behind, b"\x01\x08" + behind, nulls]
    [(body, _), *others] = typed(
        with_typed_bodies(frame(spark, *(start + each for each in values)), client, "orders-value")
    )
    assert body == Row(item=text.decode())
    assert others == [
        (None, "it does not fit schema 1: a block announces 4 bytes, and has 1"),
        (None, "it does not fit schema 1: it announces more items than it has bytes"),
    ]


def test_the_reason_says_what_is_wrong(spark: SparkSession, client: SchemaRegistryClient) -> None:
    """SPARK-20: of ids that the subject has not, of other bodies, and of those that do not fit."""
    good = written(client, FIRST, {"item": "chair", "qty": 3})
    values = [b"\0\0\0\0\x63x", b"plain", b"\0\0", None, good[:6], good + b"x", b"\1" + b"\xaa" * 16]
    reasons = [error for _, error in typed(with_typed_bodies(frame(spark, *values), client, "orders-value"))]
    assert reasons == [
        "schema 99 is none that orders-value had when the query was made",
        "it begins with no id of a schema",
        "it begins with no id of a schema",
        "there is no body",
        "it does not fit schema 1: it announces 5 bytes where 0 are left",
        "it does not fit schema 1: bytes are left behind it",
        f"schema {'aa' * 16} is none that orders-value had when the query was made",
    ]
    text = with_typed_bodies(frame(spark, b"hello", headers=[("JBMBody", b"text")]), client, "orders-value")
    assert typed(text) == [(None, "it is a text, and no serializer's")]


def test_json_bodies_are_typed_too(spark: SparkSession, client: SchemaRegistryClient) -> None:
    """SPARK-20: by the types that the JSON Schema names; what is no object of these types has the reason."""
    number = client.register_schema("orders-value", Schema(json.dumps(JSON_SCHEMA), "JSON"))
    start = b"\0" + number.to_bytes(4, "big")
    whole = {"item": "ü", "qty": 3, "price": 1.5, "to": {"name": "ann", "boss": {"name": "joe"}}, "marks": [True],
             "more": {"a": "b"}, "any": {"b": [1]}}  # fmt: skip
    bodies = [json.dumps(whole).encode(), b"{}", b'{"qty": "no"}', b"{", b"[]", b"3", b"null", b"", b'{"item": "\xff"}']
    found = typed(with_typed_bodies(frame(spark, *(start + each for each in bodies)), client, "orders-value"))
    first, second = found[0][0], found[1][0]
    assert first is not None
    texts = {"to": {"name": "ann", "boss": '{"name":"joe"}'}, "any": '{"b":[1]}'}
    assert first.asDict(recursive=True) == whole | texts
    assert second is not None
    assert set(second) == {None}
    assert [body for body, _ in found[2:]] == [None] * 7
    assert {error for _, error in found[2:8]} == {"it does not fit the schema that it is read by"}
    assert found[8][1] == "it is no UTF-8"
    with pytest.raises(ValueError, match="object with properties"):
        struct_of('{"type": "string"}')


def test_a_reference_may_name_what_has_a_slash() -> None:
    """SPARK-20: as JSON pointers in a URL write it."""
    schema = {
        "properties": {"a": {"$ref": "#/$defs/x~1%20~0"}},
        "type": "object",
        "$defs": {"x/ ~": {"type": "integer"}},
    }
    assert struct_of(json.dumps(schema)).simpleString() == "struct<a:bigint>"


def test_a_schema_with_others_in_it_is_read(spark: SparkSession, client: SchemaRegistryClient) -> None:
    """SPARK-20: those that it names are the registry's; one that cannot be used spoils its own bodies alone."""
    client.register_schema("customers-value", Schema(json.dumps(CUSTOMER), "AVRO"))
    order = {"type": "record", "name": "acme.Order", "fields": [{"name": "to", "type": "acme.Customer"}]}
    references = [SchemaReference("acme.Customer", "customers-value", 1)]
    broken = client.register_schema("orders-value", Schema(json.dumps(order), "AVRO"))
    number = client.register_schema("orders-value", Schema(json.dumps(order), "AVRO", references))
    values = [b"\0" + each.to_bytes(4, "big") + b"\x06ann" for each in (broken, number)]
    [(nothing, why), (body, error)] = typed(with_typed_bodies(frame(spark, *values), client, "orders-value"))
    assert (nothing, body, error) == (None, Row(to=Row(name="ann")), None)
    assert why is not None
    assert why.startswith(f"schema {broken} cannot be used: ")


def test_an_archives_bodies_are_typed(spark: SparkSession, client: SchemaRegistryClient) -> None:
    """SPARK-20: what a row of an archive gives back is read as the record itself."""
    good = written(client, FIRST, {"item": "chair", "qty": 3})
    rows = shown(message_rows(archived_rows(records(spark, good), {})), raw=False)
    assert typed(with_typed_bodies(rows, client, "orders-value")) == [(Row(item="chair", qty=3), None)]


def test_what_cannot_be_is_refused(
    spark: SparkSession, client: SchemaRegistryClient, registry: SchemaRegistryServer
) -> None:
    """SPARK-20: by one line, when the frame is made."""
    bodies = frame(spark, b"")
    with pytest.raises(RegistryError, match=r"'orders-value'.*not found"):
        with_typed_bodies(bodies, client, "orders-value")
    with pytest.raises(FrameRefusedError, match="read_archive"):
        with_typed_bodies(bodies.drop("body_bytes"), client, "orders-value")
    client.register_schema("orders-value", Schema(json.dumps(FIRST), "AVRO"))
    with pytest.raises(RegistryError, match="orders-value"):
        with_typed_bodies(bodies, client, "orders-value", reader="no JSON")
    within_itself = FIRST | {"fields": [{"name": "next", "type": ["null", "acme.Order"]}]}
    with pytest.raises(RegistryError, match="'orders-value': Spark has no type for the schema to read by"):
        with_typed_bodies(bodies, client, "orders-value", reader=json.dumps(within_itself))
    client.register_schema("protos-value", Schema("", "PROTOBUF"))
    with pytest.raises(RegistryError, match="AVRO and JSON"):
        with_typed_bodies(bodies, client, "protos-value")
    registry.shutdown()
    registry.server_close()
    with pytest.raises(RegistryError, match="orders-value"):
        with_typed_bodies(bodies, SchemaRegistryClient({"url": registry.url, "max.retries": 0}), "orders-value")


def test_a_streams_bodies_are_typed_as_the_page_says(
    spark: SparkSession, client: SchemaRegistryClient, registry: SchemaRegistryServer, topics: Topics, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """SPARK-20: of a stream; and the page's program, as printed, of a batch."""
    topic = topics.create()
    topics.write(topic, [Record(value=written(client, FIRST, {"item": "chair", "qty": 3})), Record(value=b"plain")])
    stream = with_typed_bodies(message_stream(spark, topic, bootstrap=topics.bootstrap), client, "orders-value")
    columns = stream.select("typed_body.item", "typed_body_error").writeStream.format("json")
    place = {"path": str(tmp_path / "rows"), "checkpointLocation": str(tmp_path / "checkpoint")}
    assert columns.options(**place).trigger(availableNow=True).start().awaitTermination(120)
    assert {row["item"] for row in spark.read.json(place["path"]).collect()} == {"chair", None}
    [program] = [
        each for each in read_page((ROOT / "docs/spark.md").read_text()).not_run if "with_typed_bodies" in each.code
    ]
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    exec(program.code.replace("localhost:9092", topics.bootstrap).replace('"orders"', f'"{topic}"'), {})
    assert "|chair|  3|" in capsys.readouterr().out
