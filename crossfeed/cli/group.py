"""What all commands share: `--quiet` wherever it stands, and an end after Ctrl-C that says how to go on."""

import shlex
import sys
from typing import Any

import typer
from typer.core import TyperGroup

# Exit codes: 0 fine, 1 a finding (audit violation, changed study, no-number model), 2 an error, 130 Ctrl-C.
ERROR, STOPPED = 2, 130
_QUIET = ("--quiet", "-q")
# Commands that find their unfinished work again when they are simply repeated.
_REPEATED = (
    "demo",
    "compare",
    "data fetch",
    "fleet generate",
    "study search",
    "study confirm",
    "study ready",
    "study unseal",
)


class CommandGroup(TyperGroup):
    """The root of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let `crossfeed train --quiet` mean `crossfeed --quiet train`."""
        end = args.index("--") if "--" in args else len(args)
        moved = [word for word in args[:end] if word in _QUIET]
        kept = [word for word in args[:end] if word not in _QUIET]
        return super().parse_args(ctx, [*moved[:1], *kept, *args[end:]])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; after Ctrl-C everything on disk is whole, and the way on is said."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(f"\nStopped. {how_to_go_on(sys.argv[1:])}", err=True)
            raise typer.Exit(STOPPED) from None


def how_to_go_on(words: list[str]) -> str:
    """How to go on after a stop, in words that can be copied."""
    command = " ".join(word for word in words[:3] if not word.startswith("-"))
    if command.startswith("train"):
        again = words if "--resume" in words else [*words, "--resume"]
        return f"Finished epochs are kept; go on with: crossfeed {shlex.join(again)}"
    if command.startswith(_REPEATED):
        return f"What is finished is kept; go on with the same command: crossfeed {shlex.join(words)}"
    return "Nothing was left half written; run the command again."
