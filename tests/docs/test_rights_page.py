"""docs/security.md shows the rights that `jbm-kafka provision` gives: one table of the code's, no second one."""

from jbm_kafka.ports.access_rules import Operation
from jbm_kafka.registry.access_rights import RIGHTS, Resource, Role
from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "security.md"
MAIN = (Role.PRODUCER, Role.WORKER, Role.SIDECAR, Role.OPERATOR, Role.LOOK, Role.SPARK)
BESIDES = (Role.REQUESTS, Role.SCHEDULES, Role.XA, Role.BRIDGE, Role.MOVING, Role.TRUNCATION)


def rights_table(roles: tuple[Role, ...]) -> str:
    """The roles' part of the table, as the page shows it."""
    rows = [["on", *(role.value for role in roles)], ["---"] * (1 + len(roles))]
    for resource in Resource:
        allowed = [RIGHTS[role].get(resource, frozenset()) for role in roles]
        if any(allowed):
            cells = [", ".join(each.value for each in Operation if each in operations) for operations in allowed]
            rows.append([resource.value, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    for roles in (MAIN, BESIDES):
        assert rights_table(roles) in page, f"docs/security.md is to show:\n\n{rights_table(roles)}"
    assert set(RIGHTS) == {*MAIN, *BESIDES} == set(Role)


def test_the_page_says_of_each_role_who_has_it() -> None:
    page = PAGE.read_text()
    assert not [role for role in Role if f"| {role.value} | " not in page]
