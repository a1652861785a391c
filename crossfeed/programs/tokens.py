"""NC text is cut into tokens, and its comments are left out."""

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"[^"]*")
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:EX[-+]?\d+)?)
    |(?P<name>[A-Z_$][A-Z_$][A-Z0-9_$]*)
    |(?P<letter>[A-Z])
    |(?P<symbol>==|<>|>=|<=|[-+*/=()\[\],<>:\#])
    )""",
    re.VERBOSE,
)


class UnclearError(Exception):
    """One NC line, or a part of it, that cannot be understood; it becomes a listed finding."""


class Token(NamedTuple):
    """A piece of an NC line: kind is string, number, name, letter or symbol."""

    kind: str
    text: str


def tokenise(text: str, keywords: frozenset[str]) -> list[Token]:
    """Cut a line into tokens and leave out its comments, `;` to the end and ISO's `( )`."""
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            rest = text[offset:].strip()
            if not rest or rest.startswith(";"):
                break
            raise UnclearError(f"'{rest[:20]}' cannot be read")
        kind = match.lastgroup or ""
        token = Token(kind, match[kind].strip('"') if kind == "string" else match[kind])
        offset = match.end()
        if token == ("symbol", "(") and not _opens_arguments(tokens, keywords):
            end = text.find(")", offset)
            offset = len(text) if end < 0 else end + 1
            continue
        tokens.append(token)
    return tokens


def _opens_arguments(before: list[Token], keywords: frozenset[str]) -> bool:
    """Whether '(' after these tokens belongs to an expression or a call; otherwise it opens a comment."""
    if not before:
        return False
    last = before[-1]
    return (last.kind == "name" and last.text not in keywords) or (last.kind == "symbol" and last.text not in ")]:")
