import pickle

from crossfeed.errors import CrossfeedError, SchemaError


def test_the_message_says_what_was_found_expected_and_to_do() -> None:
    error = SchemaError("a found thing", expected="another thing", remedy="swap them")
    assert str(error) == "a found thing\nExpected: another thing\nTo do: swap them"


def test_a_message_without_advice_is_only_what_was_found() -> None:
    assert str(CrossfeedError("just this")) == "just this"


def test_errors_keep_their_parts_across_processes() -> None:
    error = pickle.loads(pickle.dumps(SchemaError("found", expected="expected", remedy="remedy")))
    assert isinstance(error, SchemaError)
    assert (error.found, error.expected, error.remedy) == ("found", "expected", "remedy")
