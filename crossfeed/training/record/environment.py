"""Where a run took place: what must be the same again for the same bits."""

from typing import Any

import torch

from crossfeed import __version__


def environment() -> dict[str, Any]:
    """What a run must find again to repeat its bits."""
    return {
        "crossfeed": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }
