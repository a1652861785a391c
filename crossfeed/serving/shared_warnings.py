"""What is to be said of several plans is said once, in a sentence that names them."""

import re
from collections.abc import Mapping, Sequence

from crossfeed.grid import named

# Lines of a program are names: those of two programs are no range.
_NUMBER = re.compile(r"(?<!line )(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?%?(?!\w)")


def told_once(warnings: Mapping[str, Sequence[str]]) -> list[str]:
    """The warnings of each plan; where they differ in their numbers alone, one tells from which to which these go."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, texts in warnings.items():
        for text in texts:
            alike.setdefault(_NUMBER.sub("", text), []).append((name, text))
    return [_together(own) for own in alike.values()]


def _together(said: Sequence[tuple[str, str]]) -> str:
    names, texts = zip(*said, strict=True)
    ranges = map(_range, zip(*map(_NUMBER.findall, texts), strict=True))
    return f"{named(tuple(dict.fromkeys(names)), 'plans')}: " + _NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    ascending = sorted(set(numbers), key=lambda number: float(number.rstrip("%").replace(",", "")))
    return ascending[0] if len(ascending) == 1 else f"{ascending[0]} to {ascending[-1]}"
