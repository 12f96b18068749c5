"""Refuses to send to another process, as `multiprocessing` would, what cannot go there: it says in one line what to do
instead."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Never

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.wrong_values import shown, with_article, wrong_value


def refuse_pickle(self: object) -> Never:
    """Return what such a class has as its `__reduce__`, which copies ask for, too: behind it are threads and
    sockets."""
    raise IllegalStateError(
        f"{with_article(type(self))} cannot be pickled or copied: it belongs to this process; make another one "
        "where it is needed"
    )


def check_pickled(name: str, values: Mapping[str, object]) -> None:
    """Raises InvalidSettingError, with its key, for the first of the values that cannot be pickled."""
    for key, value in values.items():
        try:
            pickle.dumps(value)
        except Exception:  # somebody else's class may raise what it likes
            rule = "it cannot be pickled; give a function of a module, or make the factory in the child process"
            raise wrong_value(f"{name}[{shown(key)}]", value, rule) from None
