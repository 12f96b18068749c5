"""What administrators ask and owners answer, as it stands in `jbm.commands`."""

from jbm_kafka.codec.command_records import (
    Answer,
    Command,
    decode_answer,
    decode_command,
    encode_answer,
    encode_command,
)
from jbm_kafka.codec.schemas import codec

COMMAND = Command("c1", "jbm.queue.orders", 3, "release", {"offsets": [1, 2], "again": False}, 5)
ANSWER = Answer("c1", 3, {"offsets": [1]})


def test_a_command_and_its_answer_are_read_as_they_were_written() -> None:
    assert decode_command(*encode_command(COMMAND)) == COMMAND
    assert decode_answer(*encode_answer(ANSWER)) == ANSWER
    assert encode_command(COMMAND)[0] == b"command|jbm.queue.orders|3"
    assert encode_answer(ANSWER)[0] == b"answer|c1"


def test_neither_is_taken_for_the_other_and_what_cannot_be_read_for_nothing() -> None:
    assert decode_command(*encode_answer(ANSWER)) is None
    assert decode_answer(*encode_command(COMMAND)) is None
    for key, value in ((None, b"x"), (b"command|g|1", None), (b"command|g|1", b"x"), (b"command|g|1", b"")):
        assert decode_command(key, value) is None


def test_arguments_that_are_no_object_count_as_none() -> None:
    for text in ("", "[1]", "{"):
        fields = {"id": "a", "partition": 1, "error": "", "result": text}
        assert decode_answer(b"answer|a", codec("CommandAnswer").encode(fields)) == Answer("a", 1)
