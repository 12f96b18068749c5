"""Of LOG-1: a Java program with Avro, Jackson and java.io, and none of our code, reads our bodies and writes the same.

tests/golden/Bodies.java is that program; its libraries are among Spark's. What it reads of records that other Java
programs wrote earlier is fixed in tests/golden/bodies.json and bytes.json.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest

from jbm_kafka import BytesMessage, MapMessage, Message, ObjectMessage, Queue, StreamMessage
from jbm_kafka.devbroker.java import find_java
from jbm_kafka.jms.messages.messages_wire import from_record, to_record
from tests.support.records import Record

ROOT = Path(__file__).parents[2]
JARS = Path(pyspark.__file__).parent / "jars" / "*"
VECTORS: list[dict[str, Any]] = json.loads((ROOT / "tests/golden/bytes.json").read_text(encoding="utf-8"))["cases"]
TYPED: list[tuple[str, Any]] = [
    ("boolean", True), ("byte", -128), ("short", 32767), ("char", "ß"), ("int", -(2**31)), ("long", 2**63 - 1),
    ("float", 0.5), ("double", 0.1), ("string", "Zoë \U0001f600"), ("bytes", b"\x00\xff"),
]  # fmt: skip
SEEN = [[kind, value.hex() if isinstance(value, bytes) else value] for kind, value in TYPED] + [["null", None]]
OBJECT = {"item": "Stühle", "lines": [{"qty": 3, "price": 0.5}, None], "paid": True, "id": 2**62}


def all_of(message: MapMessage | StreamMessage | BytesMessage) -> Message:
    """The message with a value of every type."""
    for kind, value in TYPED:
        if isinstance(message, MapMessage):
            getattr(message, f"set_{kind}")(kind, value)
        else:
            is_utf = kind == "string" and isinstance(message, BytesMessage)
            getattr(message, "write_utf" if is_utf else f"write_{kind}")(value)
    if isinstance(message, MapMessage):
        message.set_object("null", None)
    elif isinstance(message, StreamMessage):
        message.write_object(None)
    return message


MADE: list[tuple[Message, Any]] = [
    (all_of(MapMessage()), {kind: [kind, value] for kind, value in SEEN}),
    (all_of(StreamMessage()), SEEN),
    (all_of(BytesMessage()), [value for _, value in SEEN[:-1]]),
    (ObjectMessage(OBJECT), OBJECT),
    (ObjectMessage(), None),
    (MapMessage(), {}),
    (StreamMessage(), []),
]
"""Messages, and what Java sees in each."""


def has_a_compiler(java: str) -> bool:
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    return "jdk.compiler" in modules


@pytest.fixture(scope="module")
def answers() -> list[tuple[Any, bytes]]:
    """What the program has read of each message, and what it has written."""
    java = str(find_java())
    if not has_a_compiler(java):
        pytest.skip("this Java is a runtime without a compiler, which starts no source")
    lines = [f"{message._shape.value} {(to_record(message).value or b'').hex()}\n" for message, _ in MADE]
    command = [java, "-cp", str(JARS), str(ROOT / "tests/golden/Bodies.java"), str(ROOT / "schemas")]
    done = subprocess.run(command, input="".join(lines), capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    parts = [line.split("\t") for line in done.stdout.splitlines()]
    return [(json.loads(seen), bytes.fromhex(written)) for seen, written in parts]


@pytest.mark.thorough
def test_java_sees_in_every_body_what_was_sent(answers: list[tuple[Any, bytes]]) -> None:
    """Of MSG-1, of LOG-1."""
    assert [seen for seen, _ in answers] == [expected for _, expected in MADE]


def test_what_java_writes_is_received_with_its_types(answers: list[tuple[Any, bytes]]) -> None:
    """Of MSG-1, of LOG-1."""
    for (made, _), (_, value) in zip(MADE, answers, strict=True):
        headers = to_record(made).headers
        message = from_record(Record(value=value, headers=headers), Queue("orders"), 1, False, None)
        assert type(message) is type(made)
        assert message.body == made.body
        if isinstance(message, MapMessage) and isinstance(made, MapMessage):
            assert message._entries == made._entries
        if isinstance(message, StreamMessage) and isinstance(made, StreamMessage):
            assert list(message._values) == list(made._values)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['kind']}-{vector['bytes'][:12]}")
def test_values_of_bytes_messages_are_written_and_read_as_java_does(vector: dict[str, Any]) -> None:
    """Of MSG-1: the bytes were written by java.io.DataOutputStream."""
    kind, value = vector["kind"], vector["value"]
    message = BytesMessage()
    getattr(message, f"write_{kind}")(value)
    assert message.body.hex() == vector["bytes"]
    message.reset()
    assert getattr(message, f"read_{kind}")() == value
