"""The queue of quick forecasts: it has a limit, and it counts."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from crossfeed.serving.shared_pass import AnswerAll, SharedPass
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.refusal import RefusalError

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batcher(SharedPass[Question, Answer]):
    """A shared pass that refuses when too many wait."""

    def __init__(self, answer_all: AnswerAll[Question, Answer], most: int, waiting: int, metrics: Metrics) -> None:
        def counted(questions: Sequence[Question]) -> Sequence[Answer | Exception]:
            metrics.passed(len(questions))
            return answer_all(questions)

        super().__init__(counted, most)
        self.waiting, self.metrics = waiting, metrics

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer, or be sent away."""
        if len(self) >= self.waiting:
            raise RefusalError(503, f"{len(self)} forecasts wait already.", remedy="Try again in a second.")
        try:
            return await super().ask(question)
        except asyncio.CancelledError:
            self.metrics.cancelled()
            raise
