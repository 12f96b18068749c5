"""Names of destinations, and of what stands for them in Kafka."""

import pickle

import pytest

from jbm_kafka.core.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    colliding_name,
    deleted_by,
    parse_destination,
    percent_encode,
    with_namespace,
)
from jbm_kafka.errors import IllegalStateError, InvalidDestinationError, InvalidTypeError


@pytest.mark.parametrize("name", ["orders", "DLQ", "a.b_c-d", "x" * 200, "jbm", "jbmx.y", "orders.jbm-changelog.x"])
def test_a_legal_name_makes_a_destination(name: str) -> None:
    assert Queue(name).kafka_topic() == name


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("", "empty"),
        ("x" * 201, "201 characters; at most 200"),
        ("or ders", "' ' at position 3"),
        ("bestellungen-ü", "'ü' at position 14"),
        ("a:b", "':' at position 2"),
        ("a\n", "'\\n' at position 2"),
        (".", "no topic of this name"),
        ("..", "no topic of this name"),
        ("jbm.registry", "start with 'jbm.'"),
        ("__consumer_offsets", "start with '__'"),
        ("orders.jbm-changelog", "end with '.jbm-changelog'"),
    ],
)
def test_an_illegal_name_is_refused_with_its_cause(name: str, cause: str) -> None:
    with pytest.raises(InvalidDestinationError) as caught:
        Queue(name)
    assert cause in str(caught.value)
    assert (caught.value.destination, caught.value.value) == (name, name)


def test_what_is_no_name_was_told_as_a_destination_of_that_name_and_not_as_the_value() -> None:
    with pytest.raises(InvalidDestinationError) as caught:
        Queue(5)  # type: ignore[arg-type]
    assert (caught.value.destination, caught.value.value) == (None, 5)


def test_a_destination_that_is_neither_a_queue_nor_a_topic_was_a_bare_type_error() -> None:
    with pytest.raises(
        InvalidTypeError, match=r"^a Destination is a Queue or a Topic: use Queue\('x'\) or Topic\('x'\)$"
    ):
        Destination("x")


@pytest.mark.parametrize("kind", [Queue, Topic])
@pytest.mark.parametrize("given", [Queue("ac"), Topic("ac")])
def test_of_a_destination_for_a_name_only_its_type_was_told(kind: type[Queue | Topic], given: Destination) -> None:
    with pytest.raises(InvalidDestinationError, match=f"not {type(given).__name__}; give its name: 'ac'$"):
        kind(given)  # type: ignore[arg-type]


def test_a_name_that_is_no_string_is_refused() -> None:
    with pytest.raises(InvalidDestinationError, match="a name is a str, not int"):
        Queue(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["temporary-queue:c-1.2@5", "temporary-topic:c-1.2@5", "temporary-queue:a b:c/ü"])
def test_a_temporary_destination_is_named_and_stands_for_no_kafka_topic(text: str) -> None:
    destination = parse_destination(text)
    assert str(destination) == text
    assert destination.is_temporary
    assert isinstance(destination, Queue) == text.startswith("temporary-queue")
    with pytest.raises(InvalidDestinationError, match="has no Kafka topic of its own"):
        destination.kafka_topic()


def test_a_temporary_destination_that_was_not_made_here_cannot_be_deleted_here() -> None:
    with pytest.raises(IllegalStateError, match="only the connection that made it deletes it"):
        TemporaryQueue("a").delete()


def test_a_temporary_destination_that_was_made_here_is_deleted_and_equals_the_one_that_a_message_names() -> None:
    made, deleted = TemporaryTopic("a"), []
    deleted_by(made, lambda: deleted.append(made))
    made.delete()
    assert deleted == [parse_destination("temporary-topic:a")]
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_temporary_queue_is_not_the_queue_of_its_name() -> None:
    assert parse_destination("temporary-queue:orders") != Queue("orders")
    assert not Queue("orders").is_temporary
    with pytest.raises(InvalidDestinationError, match="empty"):
        parse_destination("temporary-topic:")


def test_a_destination_is_a_queue_or_a_topic() -> None:
    with pytest.raises(TypeError):
        Destination("orders")
    assert Queue("orders") == Queue("orders")
    queue, topic = (parse_destination(text) for text in ("queue:orders", "topic:orders"))
    assert queue == Queue("orders")
    assert queue != topic
    assert len({Queue("orders"), queue, topic}) == 2


@pytest.mark.parametrize("destination", [Queue("orders"), Topic("prices.eu")])
def test_the_text_form_reads_back(destination: Destination) -> None:
    assert str(destination) == f"{destination.kind}:{destination.name}"
    assert parse_destination(str(destination)) == destination


@pytest.mark.parametrize("text", ["orders", "", "stack:orders", "queue:", "queue:a b"])
def test_other_text_is_no_destination(text: str) -> None:
    with pytest.raises(InvalidDestinationError):
        parse_destination(text)


def test_a_namespace_stands_before_what_is_ours_and_not_before_the_messages() -> None:
    queue = Queue("orders.eu")
    assert queue.kafka_topic("blue") == "orders.eu"
    assert queue.changelog_topic() == "orders.eu.jbm-changelog"
    assert queue.changelog_topic("blue") == "blue.orders.eu.jbm-changelog"
    assert queue.group_id() == "jbm.queue.orders%2Eeu"
    assert queue.group_id("blue") == "blue.jbm.queue.orders%2Eeu"
    assert with_namespace("jbm.registry", "blue") == "blue.jbm.registry"


def test_a_destination_cannot_take_the_name_of_a_topic_of_the_namespace() -> None:
    with pytest.raises(InvalidDestinationError, match="reserved by the namespace 'blue'"):
        Queue("blue.jbm.registry").kafka_topic("blue")
    assert Queue("blue.jbm.registry").kafka_topic("green") == "blue.jbm.registry"


@pytest.mark.parametrize("namespace", ["a b", ".a", "x" * 31])
def test_an_illegal_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(InvalidDestinationError, match="namespace"):
        Queue("orders").group_id(namespace)


def test_everything_but_letters_and_digits_is_percent_encoded() -> None:
    assert percent_encode("Az09") == "Az09"
    assert percent_encode("a.b-c_d|e%") == "a%2Eb%2Dc%5Fd%7Ce%25"
    assert percent_encode("é") == "%C3%A9"


def test_names_that_differ_only_in_dot_and_underscore_collide() -> None:
    assert colliding_name("orders.eu", ["a", "orders_eu"]) == "orders_eu"
    assert colliding_name("orders.eu", ["orders.eu", "orders-eu"]) is None


def test_a_temporary_destination_is_made_by_nobody_else() -> None:
    with pytest.raises(InvalidDestinationError, match="only create_temporary_queue"):
        TemporaryQueue(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidDestinationError, match="the name is empty"):
        TemporaryQueue("")
