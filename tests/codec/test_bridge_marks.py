"""The marks by which a bridge knows a message again."""

from jbm_kafka.amqp_client.amqp_records import AmqpRecord
from jbm_kafka.codec.bridge_marks import named_mark, placed_mark
from jbm_kafka.codec.headers import encode_headers


def mark_of(message_id: str | None, body: bytes, number: int) -> bytes | None:
    return named_mark(
        AmqpRecord("in", number, None, body, encode_headers(message_id=message_id, properties={}), number)
    )


def test_a_message_of_an_amqp_server_is_known_by_its_id_and_body_wherever_it_is() -> None:
    """Of BRIDGE-2."""
    mark = mark_of("ID:1", b"a", 1)
    assert mark is not None
    assert mark_of("ID:1", b"a", 2) == mark
    assert mark_of("ID:2", b"a", 1) != mark
    assert mark_of("ID:1", b"b", 1) != mark


def test_one_without_an_id_is_not_known_again() -> None:
    """Of BRIDGE-2."""
    assert mark_of(None, b"a", 1) is None


def test_a_place_in_kafka_is_one_messages_unless_its_topic_was_made_anew() -> None:
    """Of BRIDGE-2."""
    with_id = [("topic-1", 1, "ID:1"), ("topic-1", 2, "ID:1"), ("topic-1", 1, "ID:2")]
    places = [*with_id, ("topic-1", 1, None), ("topic-2", 1, None)]
    assert len({placed(*place) for place in places}) == len(places)


def test_a_message_that_has_an_id_is_known_whatever_is_known_of_its_topic() -> None:
    """Of BRIDGE-2: one that was made anew is heard of late."""
    assert placed("topic-1", 1, "ID:1") == placed("topic-2", 1, "ID:1")


def placed(topic_id: str, number: int, message_id: str | None) -> bytes:
    headers = encode_headers(message_id=message_id, properties={})
    return placed_mark(AmqpRecord("in", number, None, b"a", headers, number), lambda: topic_id)
