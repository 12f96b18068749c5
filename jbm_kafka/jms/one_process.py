"""What cannot go to another process, as `multiprocessing` would send it: it says in one line what to do instead."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Never, TypeVar

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.wrong_values import shown, wrong_value

T = TypeVar("T")


def of_one_process(cls: type[T]) -> type[T]:
    """The class, whose objects refuse to be pickled or copied: behind one are threads and sockets of its process."""

    def refuse_pickle(self: object) -> Never:
        raise IllegalStateError(
            f"a {type(self).__name__} cannot be pickled: it belongs to this process; make it in the child process, by "
            f"a ConnectionFactory, which can be"
        )

    def refuse_copy(self: object, _: object = None) -> Never:
        raise IllegalStateError(f"a {type(self).__name__} cannot be copied; make another one")

    # By their names: it is also for compiled classes, which take no decorator.
    setattr(cls, "__reduce__", refuse_pickle)  # noqa: B010
    setattr(cls, "__copy__", refuse_copy)  # noqa: B010
    setattr(cls, "__deepcopy__", refuse_copy)  # noqa: B010
    return cls


def check_pickled(name: str, values: Mapping[str, object]) -> None:
    """Raises InvalidSettingError, with its key, for the first of the values that cannot be pickled."""
    for key, value in values.items():
        try:
            pickle.dumps(value)
        except Exception:  # somebody else's class may raise what it likes
            rule = "it cannot be pickled; give a function of a module, or make the factory in the child process"
            raise wrong_value(f"{name}[{shown(key)}]", value, rule) from None
