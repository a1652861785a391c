"""How many minutes of own logs: the words of a user as numbers, and numbers as short words."""

import math
from collections.abc import Sequence

from crossfeed.errors import ConfigError

ALL = math.inf
MINUTES = "0,1,3,10,30,60,all"


def parse_minutes(words: str | Sequence[float | str]) -> tuple[float, ...]:
    """Minutes in rising order, each once; `all` is as many as there are."""
    given = words.split(",") if isinstance(words, str) else list(words)
    found = [_number(word) for word in given if str(word).strip()]
    if not found:
        raise ConfigError("No number of minutes was given.", expected=f"numbers and 'all', such as {MINUTES}")
    return tuple(sorted(set(found)))


def in_words(minutes: float) -> str:
    """3, 0.5 or all."""
    return "all" if minutes == ALL else f"{minutes:g}"


def spoken(minutes: float) -> str:
    """3 minutes, 1 minute or all own logs."""
    return "all own logs" if minutes == ALL else f"{minutes:.3g} minute{'' if minutes == 1 else 's'}"


def folder_name(minutes: float) -> str:
    """Where the runs with so many minutes lie."""
    return "all" if minutes == ALL else f"{minutes:g}-minutes"


def _number(word: float | str) -> float:
    if str(word).strip() == "all":
        return ALL
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ConfigError(
            f"'{word}' is no number of minutes.", expected=f"numbers from 0 up and 'all', such as {MINUTES}"
        )
    return number
