"""A limit of open files that is smaller for a while."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_at_most(limit: int) -> Iterator[None]:
    """This process may open no more. What is open stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
