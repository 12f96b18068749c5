"""What a stranger to the API met: Python's own words for a wrong call, and objects and texts that told nothing."""

from __future__ import annotations

import inspect
import pickle

import pytest

from jbm_kafka import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage, errors


@pytest.mark.parametrize(
    ("kind", "argument", "said"),
    [
        (Message, "body", "Message() has no argument 'body'; it takes none"),
        (TextMessage, "body", "TextMessage() has no argument 'body'; 'text' is meant, probably; it has text"),
        (BytesMessage, "body", "BytesMessage() has no argument 'body'; 'data' is meant, probably; it has data"),
        (MapMessage, "values", "MapMessage() has no argument 'values'; it has body"),
        (StreamMessage, "values", "StreamMessage() has no argument 'values'; it has body"),
        (ObjectMessage, "value", "ObjectMessage() has no argument 'value'; 'body' is meant, probably; it has body, "
         "codec"),
    ],
)  # fmt: skip
def test_a_message_made_with_an_argument_that_it_has_not(kind: type[Message], argument: str, said: str) -> None:
    with pytest.raises(errors.InvalidTypeError) as caught:
        kind(**{argument: 1})
    assert str(caught.value) == said


def test_help_of_a_stream_message_shows_its_argument() -> None:
    assert list(inspect.signature(StreamMessage).parameters) == ["body"]
    with pytest.raises(errors.MessageFormatError, match=r"^body is 'a': a StreamMessage holds a list$"):
        StreamMessage(body="a")
    assert StreamMessage(body=[1, "a"]).body == [1, "a"]
    assert pickle.loads(pickle.dumps(StreamMessage([1]))).body == [1]
