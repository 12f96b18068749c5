"""How many files this process may have open."""

import resource


def file_limit() -> int:
    """The limit that is in force (`ulimit -n`); -1: none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return -1 if soft == resource.RLIM_INFINITY else soft
