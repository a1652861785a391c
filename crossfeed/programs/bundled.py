"""The NC programs that come with crossfeed."""

from pathlib import Path

from crossfeed.errors import ProgramError

PREFIX = "bundled:"


def bundled_programs() -> dict[str, Path]:
    """Name and file of each bundled program, in alphabetical order."""
    folder = Path(__file__).parent / "bundled"
    return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in (".mpf", ".nc")}


def program_path(name: str) -> Path:
    """The file behind a path or a name such as `bundled:bracket`."""
    if not name.startswith(PREFIX):
        return Path(name)
    programs, wanted = bundled_programs(), name.removeprefix(PREFIX)
    if wanted not in programs:
        raise ProgramError(
            f"There is no bundled program '{wanted}'.",
            expected=f"one of {', '.join(PREFIX + known for known in programs)}",
        )
    return programs[wanted]
