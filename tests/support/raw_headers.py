"""Sends records as C programs do: a header's name is any bytes, which confluent-kafka's own producer refuses."""

import ctypes
from collections.abc import Iterable
from pathlib import Path

import confluent_kafka

_END, _TOPIC, _PARTITION, _VALUE, _KEY, _COPY, _HEADER = 0, 1, 3, 4, 5, 7, 9
"""Kinds of arguments of `rd_kafka_producev`."""
_PRODUCER, _MSG_F_COPY = 0, 0x2
_FLUSH_MS = 10_000


def send_raw(
    bootstrap: str, topic: str, *, key: bytes, value: bytes, headers: Iterable[tuple[bytes, bytes]], partition: int = 0
) -> None:
    """One record with these header names, written when this returns; through librdkafka's C functions."""
    library = _librdkafka()
    client = _producer(library, bootstrap)
    size = ctypes.c_size_t
    arguments: list[object] = [_TOPIC, ctypes.c_char_p(topic.encode()), _PARTITION, ctypes.c_int32(partition)]
    arguments += [_KEY, ctypes.c_char_p(key), size(len(key)), _VALUE, ctypes.c_char_p(value), size(len(value))]
    for name, content in headers:
        arguments += [_HEADER, ctypes.c_char_p(name), ctypes.c_char_p(content), size(len(content))]
    failure = library.rd_kafka_producev(client, *arguments, _COPY, _MSG_F_COPY, _END)
    try:
        assert failure == 0, f"librdkafka refuses the record: error {failure}"
        assert library.rd_kafka_flush(client, _FLUSH_MS) == 0, f"not written to {topic} within {_FLUSH_MS} ms"
    finally:
        library.rd_kafka_destroy(client)


def _librdkafka() -> ctypes.CDLL:
    """The library inside confluent-kafka's wheel."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka-*.so*"))))
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, size_t]
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, size_t]
    library.rd_kafka_flush.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_destroy.argtypes = [ctypes.c_void_p]
    return library


size_t = ctypes.c_size_t


def _producer(library: ctypes.CDLL, bootstrap: str) -> ctypes.c_void_p:
    fault = ctypes.create_string_buffer(512)
    settings = ctypes.c_void_p(library.rd_kafka_conf_new())
    for name, value in {"bootstrap.servers": bootstrap, "acks": "all"}.items():
        outcome = library.rd_kafka_conf_set(settings, name.encode(), value.encode(), fault, 512)
        assert outcome == 0, fault.value
    client = library.rd_kafka_new(_PRODUCER, settings, fault, 512)
    assert client, fault.value
    return ctypes.c_void_p(client)
