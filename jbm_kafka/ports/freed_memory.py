"""Lets glibc give back what clients that left, or partitions that were given up, have freed. Elsewhere nothing is done.

Each thread frees into an arena of its own, so what comes and goes lets all of them grow. And glibc raises the size
from which a block has pages of its own when a larger one is freed, so that large ones come to lie between small ones.
"""

import ctypes

_C = ctypes.CDLL(None)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""As malloc.h numbers them."""
_PAGES_OF_ITS_OWN = 128 * 1024


def free_in_few_places() -> None:
    """For the whole process; before it has threads, since those that it has keep their arenas."""
    if hasattr(_C, "mallopt"):
        for option, value in (
            (_ARENA_MAX, 2),
            (_MMAP_THRESHOLD, _PAGES_OF_ITS_OWN),
            (_TRIM_THRESHOLD, _PAGES_OF_ITS_OWN),
        ):
            _C.mallopt(option, value)


def trim() -> None:
    """The pages that are free now; it takes 2 ms of 200 MB."""
    if hasattr(_C, "malloc_trim"):
        _C.malloc_trim(0)
