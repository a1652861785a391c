"""Arithmetic in NC programs is evaluated like on paper, and never by Python."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.programs.expressions import ExpressionReader, UnclearError, evaluate, tokenise

NO_KEYWORDS: frozenset[str] = frozenset()


def value_of(text: str, **variables: float) -> float | str:
    reader = ExpressionReader(tokenise("=" + text, NO_KEYWORDS))
    reader.take()
    result = evaluate(reader.expression(), variables)
    assert reader.peek().kind == "end"
    return result


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7.0),
        ("(1+2)*3", 9.0),
        ("-2*-3", 6.0),
        ("10-4-3", 3.0),
        ("2*(3+(4-1))", 12.0),
        ("7 DIV 2", 3.0),
        ("7 MOD 4", 3.0),
        ("SIN(30)", 0.5),
        ("ATAN2(1,1)", 45.0),
        ("SQRT(POT(3)+POT(4))", 5.0),
        ("1.5EX3", 1500.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("ROUND(2.5)", 3.0),
        ("TRUNC(-2.7)", -2.0),
        ("1<2 AND 3>=3", 1.0),
        ("NOT (1==1)", 0.0),
        ("[1+2]*2", 6.0),
        ("MAXVAL(3,7)", 7.0),
        ("5 GT 3", 1.0),
    ],
)
def test_value(text: str, value: float) -> None:
    assert value_of(text) == pytest.approx(value)


def test_variables_of_both_dialects() -> None:
    assert value_of("R1*2+#100-_DEPTH", **{"R1": 4.0, "#100": 1.0, "_DEPTH": 2.0}) == 7.0
    assert value_of("R[1+1]", R2=5.0) == 5.0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("R1", "R1 has no value"),
        ("1/0", "cannot be computed"),
        ("SQRT(-1)", "cannot be computed"),
        ("EXP(1000)", "cannot be computed"),
        ("1EX400", "too large"),
        ("1EX300*1EX300", "no finite number"),
        ("SIN(1,2)", "takes 1 value"),
        ("(1+2", "closing bracket"),
        ("1+", "last value"),
        ("*2", "before '*'"),
        ('"A"+1', "cannot be applied to a text"),
        ("-".join(["1"] * 300), "more than 200 parts"),
        ("(" * 300, "more than 200 parts"),
        ("R[0.5]", "whole number"),
    ],
)
def test_unclear_arithmetic_is_said(text: str, complaint: str) -> None:
    with pytest.raises(UnclearError, match=complaint.replace("*", r"\*").replace("(", r"\(")):
        value_of(text)


@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(-99, 99)), max_size=12), st.integers(-99, 99))
def test_precedence_matches_python(rest: list[tuple[str, int]], first: int) -> None:
    ours = str(first) + "".join(f"{operator}({number})" for operator, number in rest)
    assert value_of(ours) == eval(ours)


@given(st.floats(-1e6, 1e6))
def test_numbers_survive_their_spelling(number: float) -> None:
    assert math.isclose(float(value_of(f"{number:.6f}")), number, abs_tol=1e-6)


def test_what_is_true_is_one_and_what_is_false_is_nought() -> None:
    assert (value_of("TRUE"), value_of("FALSE"), value_of("NOT TRUE"), value_of("NOT FALSE")) == (1.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (f"3 {operator} 1+2", value)
            for operator, value in zip(("==", ">=", "<=", "<>", ">", "<"), (1, 1, 1, 0, 0, 0))
        ),
        *(
            (f"1+2 {operator} 3", value)
            for operator, value in zip(("==", ">=", "<=", "<>", ">", "<"), (1, 1, 1, 0, 0, 0))
        ),
        *((f"0 AND 0 {operator} 1", 0.0) for operator in ("==", ">=", "<=", "<>", ">", "<")),
        ("2 AND 2 == 2", 1.0),
        ("1 OR 0 AND 0", 1.0),
        ("1 XOR 0 AND 0", 1.0),
        ("0 XOR 1 OR 1", 1.0),
        ("8-2*3", 2.0),
        ("8-6/2", 5.0),
        ("8-7 DIV 2", 5.0),
        ("8-7 MOD 4", 5.0),
        ("8/2*4", 16.0),
        ("7 DIV 2*2", 6.0),
        ("7 MOD 4*2", 6.0),
        ("2*7 DIV 2", 7.0),
        ("2*7 MOD 4", 2.0),
        ("7 DIV 4/2", 0.5),
        ("ASIN(0.5)", pytest.approx(30.0)),
        ("ACOS(0.5)", pytest.approx(60.0)),
        ("ATAN(1)", pytest.approx(45.0)),
        ("ROUND(2.4)", 2.0),
        ("ROUND(-2.5)", -2.0),
    ],
)
def test_operators_and_functions_mean_what_they_do_on_paper(text: str, value: float) -> None:
    assert value_of(text) == value
