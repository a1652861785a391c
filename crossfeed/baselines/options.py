"""From the words of the command line to the values a comparison is made with."""

from crossfeed.baselines.budget import Budget, named_budget
from crossfeed.baselines.sizes import Size
from crossfeed.configuration import parse
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.windows.split import By
from crossfeed.windows.split_tables import DataConfig


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


def config_of(size: Size, split_by: By, stride: int = 1) -> RunConfig:
    """The windows of a comparison: those of the default preset, split and thinned as asked."""
    data = parse(DataConfig, {"split_by": split_by, "stride": stride}, "The request")
    return preset("crossfeed", size).model_copy(update={"data": data})
