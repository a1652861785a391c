"""Questions that share a pass: who is answered with whom, and what one bad question costs the others."""

from collections.abc import Sequence

from crossfeed.errors import TableError
from crossfeed.scenarios.rollout import answer_together


def test_questions_of_equal_keys_share_a_pass_and_a_bad_one_fails_alone() -> None:
    passes: list[list[int]] = []

    def together(questions: Sequence[int]) -> list[int]:
        passes.append(list(questions))
        if 13 in questions:
            raise TableError("odd")
        return [10 * question for question in questions]

    answers = answer_together([2, 1, 4, 13, 3], lambda question: question % 2, together)
    assert answers[:3] == [20, 10, 40]
    assert isinstance(answers[3], TableError)
    assert answers[4] == 30
    assert passes == [[2, 4], [1, 13, 3], [1], [13], [3]]


def test_a_question_that_is_alone_is_not_asked_twice() -> None:
    asked: list[int] = []

    def together(questions: Sequence[int]) -> list[int]:
        asked.extend(questions)
        raise TableError("odd")

    (answer,) = answer_together([7], lambda _: None, together)
    assert isinstance(answer, TableError)
    assert asked == [7]
    assert answer_together([], lambda _: None, together) == []
