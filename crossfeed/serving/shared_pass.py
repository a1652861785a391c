"""Questions that come at the same time share one pass of the network.

While a pass is under way the next questions gather; a pass never waits for more of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from crossfeed.errors import CrossfeedError

Question = TypeVar("Question")
Answer = TypeVar("Answer")
AnswerAll = Callable[[Sequence[Question]], Sequence[Answer | Exception]]


@dataclass(eq=False)
class _Waiting(Generic[Question, Answer]):
    question: Question
    answer: "asyncio.Future[Answer]"


class SharedPass(Generic[Question, Answer]):
    """A queue before a function that answers many questions at once; a cancelled question is dropped."""

    def __init__(self, answer_all: AnswerAll[Question, Answer], most: int) -> None:
        self.answer_all, self.most = answer_all, most
        self._queue: deque[_Waiting[Question, Answer]] = deque()
        self._thread = ThreadPoolExecutor(1, "forecasts")
        self._worker: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many questions wait."""
        return len(self._queue)

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer; cancelling takes the question out of the queue."""
        loop = asyncio.get_running_loop()
        entry: _Waiting[Question, Answer] = _Waiting(question, loop.create_future())
        self._queue.append(entry)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        return await entry.answer

    async def _work(self) -> None:
        """Answer until no question waits."""
        loop = asyncio.get_running_loop()
        while self._queue:
            taken = [self._queue.popleft() for _ in range(min(self.most, len(self._queue)))]
            taken = [entry for entry in taken if not entry.answer.done()]
            if not taken:
                continue
            try:
                answers = await loop.run_in_executor(self._thread, self.answer_all, [entry.question for entry in taken])
            except Exception as error:  # a mistake of ours must not leave anybody waiting
                answers = [error] * len(taken)
            for entry, answer in zip(taken, answers, strict=True):
                if entry.answer.done():
                    continue
                if isinstance(answer, Exception):
                    entry.answer.set_exception(answer)
                else:
                    entry.answer.set_result(answer)

    def close(self) -> None:
        """Let the thread end."""
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def answer_together(
    questions: Sequence[Question],
    key: Callable[[Question], Hashable],
    together: Callable[[Sequence[Question]], Sequence[Answer]],
) -> list[Answer | Exception]:
    """Answer questions of equal keys in one pass; where one of them is bad, each is asked again alone."""
    groups: dict[Hashable, list[int]] = {}
    for number, question in enumerate(questions):
        groups.setdefault(key(question), []).append(number)
    answers: dict[int, Answer | Exception] = {}
    for numbers in groups.values():
        try:
            answers |= zip(numbers, together([questions[number] for number in numbers]), strict=True)
        except CrossfeedError as error:
            for number in numbers:
                alone = len(numbers) == 1
                answers[number] = error if alone else answer_together([questions[number]], key, together)[0]
    return [answers[number] for number in range(len(questions))]
