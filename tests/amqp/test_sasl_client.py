"""How a client proves who it is, to a server that may be anybody."""

from __future__ import annotations

import re

import pytest

from jbm_kafka.amqp_client.sasl_client import ScramClient


@pytest.mark.parametrize("iterations", [0, 2_000_000_000])
def test_a_challenge_that_takes_hours_is_refused(iterations: int) -> None:
    """AMQP-19: the client's thread worked on it, and no time-out could end that."""
    client = ScramClient("joe", "secret")
    nonce = re.search(r"r=(.*)", client.first.decode())
    assert nonce is not None
    with pytest.raises(ValueError, match=f"it has {iterations} iterations, and from 1 to 10000000 can be"):
        client.final(f"r={nonce[1]}more,s=c2FsdA==,i={iterations}".encode())
    assert client.final(f"r={nonce[1]}more,s=c2FsdA==,i=1".encode()).startswith(b"c=biws,r=")
