"""A class that shows what its bases give it as its own."""

import pydoc

from jbm_kafka.core.inherited import with_inherited


class Base:
    def first(self) -> str:
        """Of the base."""
        return "base"

    def second(self) -> str:
        """Of the base, too."""
        return "base"

    def _private(self) -> None: ...


@with_inherited
class Derived(Base):
    def first(self) -> str:
        """Its own."""
        return "derived"


def test_what_is_inherited_is_listed_as_its_own_and_private_names_stay_where_they_are() -> None:
    assert {"first", "second"} <= set(vars(Derived))
    assert "_private" not in vars(Derived)
    assert "Methods inherited" not in pydoc.plain(pydoc.render_doc(Derived)).split("Data descriptors")[0]


def test_what_it_has_itself_stays() -> None:
    assert (Derived().first(), Derived().second()) == ("derived", "base")
