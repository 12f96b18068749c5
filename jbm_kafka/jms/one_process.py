"""What cannot go to another process, as `multiprocessing` would send it: it says in one line what to do instead."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Never, TypeVar

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.special_methods import put_special_methods
from jbm_kafka.core.wrong_values import shown, with_article, wrong_value

T = TypeVar("T")


def of_one_process(cls: type[T]) -> type[T]:
    """The class, whose objects refuse to be pickled or copied: behind one are threads and sockets of its process."""
    return _kept_here(cls, "by a ConnectionFactory, which can be")


def made_in_each_process(remedy: str) -> Callable[[type[T]], type[T]]:
    """The same of what no factory makes; `remedy` says how it is made in the child process."""
    return lambda cls: _kept_here(cls, remedy)


def _kept_here(cls: type[T], remedy: str) -> type[T]:
    def refuse_pickle(self: object) -> Never:
        """Refuses to be pickled: it belongs to its process."""
        raise IllegalStateError(
            f"{with_article(type(self))} cannot be pickled: it belongs to this process; make it in the child process, "
            f"{remedy}"
        )

    def refuse_copy(self: object) -> Never:
        """Refuses to be copied: behind it is what there is once."""
        raise IllegalStateError(f"{with_article(type(self))} cannot be copied; make another one")

    def refuse_deepcopy(self: object, memo: object) -> None:
        """Refuses to be copied: behind it is what there is once."""
        refuse_copy(self)

    methods: dict[str, Callable[..., object]] = {
        "__reduce__": refuse_pickle,
        "__copy__": refuse_copy,
        "__deepcopy__": refuse_deepcopy,
    }
    put_special_methods(cls, methods)
    return cls


def check_pickled(name: str, values: Mapping[str, object]) -> None:
    """Raises InvalidSettingError, with its key, for the first of the values that cannot be pickled."""
    for key, value in values.items():
        try:
            pickle.dumps(value)
        except Exception:  # somebody else's class may raise what it likes
            rule = "it cannot be pickled; give a function of a module, or make the factory in the child process"
            raise wrong_value(f"{name}[{shown(key)}]", value, rule) from None
