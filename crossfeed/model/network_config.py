"""What every network's configuration has: the rows it reads, the horizons it forecasts, and five sizes."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm, override
from crossfeed.errors import ConfigError

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
    # What a size decides, and its value at each size.
    sized_by: ClassVar[tuple[str, ...]]
    sizes: ClassVar[dict[str, tuple[int, ...]]]

    def sized(self, size: Size) -> Self:
        """The same network in another size."""
        if size not in self.sizes:
            raise ConfigError(f"There is no size '{size}'.", expected=f"one of {', '.join(self.sizes)}")
        return override(self, dict(zip(self.sized_by, self.sizes[size], strict=True)), f"The size '{size}'")

    @model_validator(mode="after")
    def _horizons_rise(self) -> Self:
        horizons = self.horizons
        if not horizons or horizons[0] < 1 or list(horizons) != sorted(set(horizons)):
            raise ValueError(
                f"horizons {list(horizons)} are not usable: give whole numbers of rows from 1 on, each once, in rising "
                "order, for example [1, 2, 4, 8, 16]"
            )
        return self
