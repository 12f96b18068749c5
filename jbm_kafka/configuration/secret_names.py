"""Which settings nobody should read."""

from __future__ import annotations

import re

HIDDEN = "***"
"""Stands where a secret would."""

_SECRET = re.compile(r"password(?!_file)|passphrase|secret(?!_file)|sha256|key\.pem|sasl\.oauthbearer\.config")


def is_secret(name: str) -> bool:
    """Returns True for a setting, or a property of librdkafka, whose value nobody should read."""
    return _SECRET.search(name) is not None
