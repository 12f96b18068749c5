"""Tokens by which programs come into the console."""

from __future__ import annotations

import hashlib
import json
import re
import secrets

BYTES = 32
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def new_token_lines(name: str) -> tuple[str, str]:
    """A new secret, and the lines of a file that let it in. They have its hash alone."""
    secret = secrets.token_urlsafe(BYTES)
    quoted = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    lines = f'[console.tokens.{quoted}]\nsha256 = "{digest}"\nlook = ["#"]       # patterns of names\noperate = []'
    return secret, lines
