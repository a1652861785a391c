"""How large learned forecasters of a comparison are and how much work each may do; the same for all, and stated.

`base` is the size of the paper, the others shrink it for small machines.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm, parse
from crossfeed.errors import ConfigError

Size = Literal["tiny", "compact", "base"]

_WIDTH = {"tiny": 4, "compact": 2, "base": 1}
_DEPTH = {"tiny": 1 / 3, "compact": 2 / 3, "base": 1.0}
_RATE = {"tiny": 1e-3, "compact": 5e-4, "base": 3e-4}


def width(full: int, size: Size) -> int:
    """A layer width: a quarter, half or all of the paper's."""
    return full // _WIDTH[size]


def depth(full: int, size: Size) -> int:
    """A number of layers: a third, two thirds (rounded) or all of the paper's, at least one."""
    return max(1, round(full * _DEPTH[size]))


def learning_rate(size: Size) -> float:
    """The rate that goes with a width, the same for every network of a comparison."""
    return _RATE[size]


class Budget(CheckedForm):
    """At most `epochs` x `steps` batches for everyone; a pretext stage takes `pretext_epochs` of them.

    The official code may have epochs and a seed of its own, as in the paper (Appendix E).
    """

    epochs: int = Field(default=200, ge=1)
    pretext_epochs: int = Field(default=100, ge=0)
    steps: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=128, ge=2)
    patience: int = Field(default=15, ge=1)
    validation_windows: int | None = Field(default=None, ge=8)
    learning_rate: float | None = Field(default=None, gt=0.0)
    weight_decay: float = Field(default=0.01, ge=0.0)
    clip_norm: float = Field(default=1.0, gt=0.0)
    tree_rounds: int = Field(default=400, ge=1)
    tree_windows: int = Field(default=20_000, ge=8)
    official_epochs: int | None = Field(default=None, ge=1)
    official_seed: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.pretext_epochs >= self.epochs:
            raise ValueError(
                f"pretext_epochs ({self.pretext_epochs}) leave none of the {self.epochs} epochs for forecasting: "
                "set pretext_epochs below epochs"
            )
        return self

    def sentence(self) -> str:
        """The budget in words, for the table."""
        steps = "all full" if self.steps is None else f"at most {self.steps}"
        words = (
            f"at most {self.epochs} epochs of {steps} batches of {self.batch_size}, patience {self.patience}; "
            f"models with a pretext stage spend {self.pretext_epochs} of the epochs on it"
        )
        if self.official_epochs is not None:
            words += f"; official code at most {self.official_epochs} epochs"
        return words + (f", once, with seed {self.official_seed}" if self.official_seed is not None else "")


_NAMED = {
    "smoke": Budget(
        epochs=3, pretext_epochs=1, steps=8, batch_size=32, patience=2, validation_windows=256,
        tree_rounds=20, tree_windows=1000,
    ),
    "demo": Budget(
        epochs=16, pretext_epochs=5, steps=25, batch_size=32, patience=6, validation_windows=400,
        tree_rounds=200, tree_windows=4000,
    ),
    "paper": Budget(official_epochs=100, official_seed=20260820),
}  # fmt: skip


def named_budget(name: str) -> Budget:
    """`smoke` to see that all runs, `demo` for two cores, `paper` for the paper's 100 + 100 epochs with patience 15."""
    if name not in _NAMED:
        raise ConfigError(f"There is no budget '{name}'.", expected=f"one of {', '.join(_NAMED)}")
    return _NAMED[name]


def budget_of(name: str, epochs: int | None, steps: int | None) -> Budget:
    """A named budget, with epochs and steps changed where given; the pretext keeps its share of the epochs."""
    budget = named_budget(name)
    changes = budget.model_dump()
    if epochs is not None:
        changes |= {"epochs": epochs, "pretext_epochs": epochs * budget.pretext_epochs // budget.epochs}
        changes["official_epochs"] = budget.official_epochs and min(epochs, budget.official_epochs)
    if steps is not None:
        changes["steps"] = steps
    return parse(Budget, changes, "The budget")
