"""Checkpoints as a crash would leave them."""

import json
from pathlib import Path


def forget_that_the_last_batch_was_done(checkpoint: Path) -> str:
    """As a crash before Spark has noted it would leave the folder; the query's identity."""
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    for checksum in (checkpoint / "commits").glob(".*.crc"):
        checksum.unlink()
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
