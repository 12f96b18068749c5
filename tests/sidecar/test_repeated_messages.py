"""Which of the messages that are read are settled as sent before, where a former owner has read them already."""

from dataclasses import replace

from jbm_kafka.core.channel.changes import Fetched
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.duplicate_window import Identified
from jbm_kafka.sidecar.log_lines.message_lines import MessageLines
from jbm_kafka.sidecar.stages.repeated_messages import RepeatedMessages
from tests.core.channel_parts import Channel, message, recovered
from tests.sidecar.parts import channel_of
from tests.support.manual_clock import ManualClock


def read(state: ChannelState, *rows: tuple[int, bytes]) -> Fetched:
    """Read messages (offset, duplicate id) with a window of one id; what that changes is applied."""
    clock = ManualClock()
    channel = channel_of(state)
    channel.settings = replace(channel.settings, duplicate_window_count=1)
    rows = tuple(row for row in rows if row[0] >= state.read_position)
    change = Fetched(begin=state.read_position, end=rows[-1][0] + 1, references=[message(offset) for offset, _ in rows])
    identified = [Identified(offset, None, duplicate_id, clock.now_ms()) for offset, duplicate_id in rows]
    sifted = RepeatedMessages(MessageLines(), clock).sift(channel, change, identified, clock.now_ms())
    state.apply(sifted)
    return sifted


def test_a_new_owner_loses_no_message_to_a_later_one_of_its_id() -> None:
    """SEND-8: the id of the first was forgotten, so the third counted; read again, the first counts still."""
    channel, rows = Channel(), ((0, b"a"), (1, b"b"), (2, b"a"))
    assert read(channel.state, *rows).repeated == ()
    successor = recovered(*channel.checkpoint())
    assert read(successor.state, *rows, (3, b"a")).repeated == (3,)
    assert successor.got("s") == [0, 1, 2]
