"""Where the local broker keeps its data and its jars."""

import os
from pathlib import Path


def state_folder() -> Path:
    """`$JBM_HOME`, else the user's state folder: what a restart must find again."""
    home = os.environ.get("JBM_HOME")
    if home:
        return Path(home)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "jbm-kafka"


def cache_folder() -> Path:
    """`$JBM_CACHE`, else the user's cache folder: what can be fetched again."""
    cache = os.environ.get("JBM_CACHE")
    if cache:
        return Path(cache)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jbm-kafka"
