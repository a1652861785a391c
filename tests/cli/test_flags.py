"""A switch has one name: nobody needs the one that leaves it off."""

from tests.cli.walk import commands


def test_some_switches_had_a_second_name_that_begins_with_no() -> None:
    options = [(name, option) for name, command in commands().items() for option in command.params]
    assert len(options) > 100
    assert [f"{name} {option.secondary_opts}" for name, option in options if option.secondary_opts] == []
