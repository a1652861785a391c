"""May a model be trusted on a machine, and on which channels?"""

from typing import Any


def evaluate(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError
