"""What every network's configuration has: the rows it reads and the horizons it forecasts."""

from typing import Literal, Self

from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm

Size = Literal["tiny", "compact", "base", "medium", "large"]


def check_heads(heads: int, width: int) -> None:
    """Refuse attention heads that do not share the width equally."""
    if width % heads:
        raise ValueError(
            f"{heads} attention heads do not divide the width {width}: "
            f"choose a width that is a multiple of {heads}, or another number of heads"
        )


class NetworkConfig(CheckedForm):
    """Context and horizons, in rows."""

    context: int = Field(default=32, ge=1)
    horizons: tuple[int, ...] = (1, 2, 4, 8, 16)

    @model_validator(mode="after")
    def _horizons_rise(self) -> Self:
        horizons = self.horizons
        if not horizons or horizons[0] < 1 or list(horizons) != sorted(set(horizons)):
            raise ValueError(
                f"horizons {list(horizons)} are not usable: give whole numbers of rows from 1 on, each once, in rising "
                "order, for example [1, 2, 4, 8, 16]"
            )
        return self
