"""Binding a measured client to one processor, where the system can.

A session and its worker share Python's interpreter lock. On an idle machine the kernel puts them on two processors all
the same, and how often it moves them changes the same code's rate by half. So jbm is bound where it is compared with
itself.
"""

from __future__ import annotations

import os


def bind_to_one_processor() -> bool:
    """Bind this process, and every thread it makes from now on, to one of its processors; False where that can't be.

    It takes the last one: a machine's interrupts are mostly on the first.
    """
    if not hasattr(os, "sched_setaffinity"):  # macOS
        return False
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return True
