"""The device a model lives on, by its name on the command line."""

import torch

from crossfeed.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes a GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"The device '{name}' cannot be used: {reason}", expected="auto, cpu, cuda or cuda:<number>"
        ) from error
    return device
