"""The topic's id, of which every fourth has a slash, is found in the id of a log."""

import pytest

from jbm_kafka.core.channel.log_id import incarnation_of, log_id, topic_id_of


@pytest.mark.parametrize("topic_id", ["QAAAAAAAMDn/////+KQy6w", "/////////////////////w", "T"])
@pytest.mark.parametrize("incarnation", ["", incarnation_of(0.0), incarnation_of(0.999999), "0123456789abcdef"])
def test_a_topic_s_id_may_have_slashes_of_its_own(topic_id: str, incarnation: str) -> None:
    """SPARK-17, LOG-2: what stands before the first slash was taken for it."""
    assert topic_id_of(log_id(topic_id, incarnation)) == topic_id
