"""Arithmetic of NC programs: `R1*2+SIN(30)`, read into small trees and evaluated without Python's eval."""

import math
import operator
import re
from collections.abc import Callable, Mapping
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


Value = float | str


class Variable(NamedTuple):
    """The value of a named variable; `element` for R[1], #[2] and arrays."""

    name: str
    element: "Expression | None"


class Operation(NamedTuple):
    """A function or operator applied to parts."""

    name: str
    parts: tuple["Expression", ...]


Expression = float | str | Variable | Operation

_TRUE, _FALSE = 1.0, 0.0
_BINARY: dict[str, tuple[int, Callable[[float, float], float]]] = {
    "OR": (1, lambda a, b: float(bool(a) or bool(b))),
    "XOR": (1, lambda a, b: float(bool(a) != bool(b))),
    "AND": (2, lambda a, b: float(bool(a) and bool(b))),
    "==": (3, lambda a, b: float(a == b)),
    "<>": (3, lambda a, b: float(a != b)),
    ">=": (3, lambda a, b: float(a >= b)),
    "<=": (3, lambda a, b: float(a <= b)),
    ">": (3, lambda a, b: float(a > b)),
    "<": (3, lambda a, b: float(a < b)),
    "+": (4, operator.add),
    "-": (4, operator.sub),
    "*": (5, operator.mul),
    "/": (5, operator.truediv),
    "DIV": (5, lambda a, b: float(math.trunc(a / b))),
    "MOD": (5, math.fmod),
}
_SPELLINGS = {"EQ": "==", "NE": "<>", "GE": ">=", "LE": "<=", "GT": ">", "LT": "<"}
_FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "NEGATE": (1, operator.neg),
    "NOT": (1, lambda a: float(not a)),
    "SIN": (1, lambda a: math.sin(math.radians(a))),
    "COS": (1, lambda a: math.cos(math.radians(a))),
    "TAN": (1, lambda a: math.tan(math.radians(a))),
    "ASIN": (1, lambda a: math.degrees(math.asin(a))),
    "ACOS": (1, lambda a: math.degrees(math.acos(a))),
    "ATAN": (1, lambda a: math.degrees(math.atan(a))),
    "ATAN2": (2, lambda a, b: math.degrees(math.atan2(a, b))),
    "SQRT": (1, math.sqrt),
    "POT": (1, lambda a: a * a),
    "ABS": (1, abs),
    "ROUND": (1, lambda a: float(math.floor(a + 0.5))),
    "TRUNC": (1, lambda a: float(math.trunc(a))),
    "FIX": (1, lambda a: float(math.trunc(a))),
    "FUP": (1, lambda a: float(math.ceil(a))),
    "LN": (1, math.log),
    "EXP": (1, math.exp),
    "MINVAL": (2, min),
    "MAXVAL": (2, max),
}
_LARGEST_EXPRESSION = 200


class ExpressionReader:
    """Walks over the tokens of one line; `expression` reads the longest expression at the current position."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self._nodes = 0

    def peek(self, ahead: int = 0) -> Token:
        position = self.position + ahead
        return self.tokens[position] if position < len(self.tokens) else Token("end", "")

    def take(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def accept(self, *texts: str) -> bool:
        """Step over the next token if it is one of these symbols."""
        if self.peek().kind == "symbol" and self.peek().text in texts:
            self.position += 1
            return True
        return False

    def expression(self, strength: int = 0) -> Expression:
        """Read operators at least as strong as `strength`."""
        left = self._primary()
        while True:
            text = _SPELLINGS.get(self.peek().text, self.peek().text)
            found = _BINARY.get(text) if self.peek().kind in ("symbol", "name") else None
            if found is None or found[0] < strength:
                return left
            self.position += 1
            self._count()
            left = Operation(text, (left, self.expression(found[0] + 1)))

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > _LARGEST_EXPRESSION:
            raise UnclearError(f"an expression with more than {_LARGEST_EXPRESSION} parts")

    def _primary(self) -> Expression:
        self._count()
        token = self.take()
        if token.kind == "number":
            return number(token.text)
        if token.kind == "string":
            return token.text
        if token.kind == "symbol" and token.text in ("-", "+"):
            inner = self._primary()
            if isinstance(inner, float):
                return -inner if token.text == "-" else inner
            return Operation("NEGATE", (inner,)) if token.text == "-" else inner
        if token.kind == "symbol" and token.text in ("(", "["):
            inner = self.expression()
            self.close()
            return inner
        if token.text in ("R", "#"):
            return Variable(token.text, self._primary())
        if token.kind == "name":
            return self._named(token.text)
        raise UnclearError(f"a value was expected before '{token.text}'" if token.text else "the last value is missing")

    def _named(self, name: str) -> Expression:
        if name == "NOT":
            return Operation("NOT", (self._primary(),))
        if name in ("TRUE", "FALSE"):
            return _TRUE if name == "TRUE" else _FALSE
        if name in _FUNCTIONS:
            parts = self.arguments()
            wanted = _FUNCTIONS[name][0]
            if len(parts) != wanted:
                raise UnclearError(f"{name} takes {wanted} value{'s' if wanted > 1 else ''}, found {len(parts)}")
            return Operation(name, parts)
        if self.accept("["):
            index = self.expression()
            self.close()
            return Variable(name, index)
        return Variable(name, None)

    def arguments(self) -> tuple[Expression, ...]:
        """Read `(a, b)` or `[a, b]`."""
        if not self.accept("(", "["):
            raise UnclearError(f"'(' was expected before '{self.peek().text}'")
        parts = [self.expression()]
        while self.accept(","):
            parts.append(self.expression())
        self.close()
        return tuple(parts)

    def close(self) -> None:
        """Step over a closing bracket."""
        if not self.accept(")", "]"):
            raise UnclearError("a closing bracket is missing")


def number(text: str) -> float:
    """A number as NC code writes it: `.5`, `5.`, `1.5EX-3`."""
    value = float(text.upper().replace("EX", "E"))
    if not math.isfinite(value):
        raise UnclearError(f"the number {text} is too large")
    return value


def variable_name(variable: Variable, variables: Mapping[str, Value]) -> str:
    """The one name under which a variable is kept: R1, #100, _ARRAY[2]."""
    if variable.element is None:
        return variable.name
    index = evaluate(variable.element, variables)
    if isinstance(index, str) or index != int(index):
        raise UnclearError(f"{variable.name} needs a whole number as its index")
    return f"{variable.name}{int(index)}" if variable.name in ("R", "#") else f"{variable.name}[{int(index)}]"


def evaluate(expression: Expression, variables: Mapping[str, Value]) -> Value:
    """The value of an expression; undefined variables and impossible arithmetic are unclear, never a silent zero."""
    if isinstance(expression, float | str):
        return expression
    if isinstance(expression, Variable):
        key = variable_name(expression, variables)
        if key not in variables:
            raise UnclearError(f"{key} has no value here")
        return variables[key]
    parts = [evaluate(part, variables) for part in expression.parts]
    if expression.name in ("==", "<>") and all(isinstance(part, str) for part in parts):
        return float((parts[0] == parts[1]) == (expression.name == "=="))
    numbers = [part for part in parts if isinstance(part, float)]
    if len(numbers) < len(parts):
        raise UnclearError(f"'{expression.name}' cannot be applied to a text")
    function = _BINARY[expression.name][1] if expression.name in _BINARY else _FUNCTIONS[expression.name][1]
    try:
        value = float(function(*numbers))
    except (ArithmeticError, ValueError) as error:
        raise UnclearError(f"'{expression.name}' cannot be computed: {error}") from error
    if not math.isfinite(value):
        raise UnclearError(f"'{expression.name}' gives no finite number")
    return value


def evaluate_number(expression: Expression, variables: Mapping[str, Value]) -> float:
    """The value of an expression that must be a number."""
    value = evaluate(expression, variables)
    if isinstance(value, str):
        raise UnclearError(f'a number was expected, found the text "{value}"')
    return value
