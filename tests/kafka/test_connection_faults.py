"""What librdkafka's log says of connections, read the same from every version that we take."""

from jbm_kafka.kafka.connection_faults import ConnectionFaults

CLOSED = (
    "FAIL [jbm-kafka#producer-1] [thrd:127.0.0.1:31995/bootstrap]: 127.0.0.1:31995/bootstrap: "
    "Disconnected: connection closed by peer: receive 0 after POLLIN (after 3ms in state UP{more})"
)


def test_a_connection_closed_again_is_counted_where_the_log_suppresses_what_is_identical() -> None:
    faults = ConnectionFaults()
    for more in ("", ", 1 identical error(s) suppressed"):
        faults.log(6, CLOSED.format(more=more))
    fault = faults.fault
    assert fault is not None
    assert fault.is_refusal
    assert "sasl.username" in fault.text
    assert "suppressed" not in fault.text
