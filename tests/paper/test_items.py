"""docs/paper.md lists every item of the paper, and its commands are ones that exist."""

import shlex

import pytest

from baton.cli import app
from paper.commands import STATUSES, items


def test_every_item_has_a_number_a_place_and_a_status() -> None:
    found = items()
    assert [item.number for item in found] == list(range(1, 104))
    assert {item.status for item in found} <= set(STATUSES)
    assert all(item.place and item.name for item in found)


def test_what_works_has_a_command_and_what_is_missing_has_a_reason() -> None:
    for item in items():
        assert item.command or item.status == "missing"
        assert item.agreement or item.status == "works"


@pytest.mark.parametrize(
    "name", sorted({shlex.split(item.command)[1] for item in items() if item.command[:5] == "baton"})
)
def test_a_command_of_the_table_exists(name: str) -> None:
    known = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    assert name in known | {group.name for group in app.registered_groups}
