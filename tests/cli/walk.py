"""Every command of the real command line, found by walking it."""

from collections.abc import Iterator
from typing import Any

import typer

from crossfeed.cli import app


def commands() -> dict[str, Any]:
    """Full name of each command, such as `study init`, with its definition."""
    return dict(_walk(typer.main.get_command(app), ()))


def _walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, part in command.commands.items():
            yield from _walk(part, (*path, name))
    else:
        yield " ".join(path), command


def problems(words: list[str]) -> str:
    """What is wrong with the words after `crossfeed`: no such command or no such option; empty if they would run."""
    known = commands()
    words = [word for word in words if word not in ("--quiet", "-q")]
    length = next((n for n in (2, 1) if " ".join(words[:n]) in known), 0)
    if not length:
        return (
            "" if words and words[0] in ("--version", "--help", "--install-completion") else f"no command {words[:2]}"
        )
    command, rest = known[" ".join(words[:length])], words[length:]
    options = {name: option for option in command.params for name in option.opts if option.param_type_name == "option"}
    arguments = [option for option in command.params if option.param_type_name == "argument"]
    position, given, seen = 0, 0, set()
    while position < len(rest):
        word = rest[position].split("=")[0] if rest[position].startswith("--") else rest[position]
        if word.startswith("-") and not word.lstrip("-").replace(".", "").isdigit():
            if word not in options:
                return f"crossfeed {' '.join(words[:length])} has no option {word}"
            seen.add(options[word].name)
            flag = getattr(options[word], "is_flag", False)
            position += 1 if flag or "=" in rest[position] else 1 + options[word].nargs
        else:
            given, position = given + 1, position + 1
    required = sum(argument.required for argument in arguments)
    several = any(argument.nargs == -1 for argument in arguments)
    if given < required or (given > len(arguments) and not several):
        return f"crossfeed {' '.join(words[:length])} takes {required} to {len(arguments)} arguments, not {given}"
    missing = [option.opts[0] for option in options.values() if option.required and option.name not in seen]
    return f"crossfeed {' '.join(words[:length])} needs {missing[0]}" if missing else ""
