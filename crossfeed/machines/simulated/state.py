"""Everything a simulated machine remembers: saved and restored, so that any moment can be played again."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from crossfeed.atomic import atomic_file, storage_error
from crossfeed.errors import MachineError

_FORMAT = "crossfeed simulation state 1"


@dataclass(frozen=True)
class SimulationState:
    """The machine between two steps; `run` never changes a state, it returns the next one."""

    machine: str  # fingerprint of the machine and its time step
    seed: int  # of the noise
    step: int  # steps since rest; with the seed it names the noise to come
    memory: Mapping[str, Any]  # numbers and arrays

    def number(self, name: str) -> float:
        """A remembered scalar."""
        return float(self.memory[name])

    def save(self, path: Path | str) -> None:
        """Write the state to one NPZ file, whole or not at all."""
        header = json.dumps({"format": _FORMAT, "machine": self.machine, "seed": self.seed, "step": self.step})
        with atomic_file(path) as temporary, temporary.open("wb") as handle:
            np.savez(handle, header=np.array(header), **self.memory)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a state that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                memory = {name: archive[name] for name in archive.files if name != "header"}
        except OSError as error:
            raise storage_error("Reading", Path(path), error) from error
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise _no_state(path, str(error)) from error
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise _no_state(path, "its header is another one")
        return cls(header["machine"], header["seed"], header["step"], memory)


def _no_state(path: Path | str, reason: str) -> MachineError:
    return MachineError(
        f"{path} is no saved simulation state: {reason}.",
        expected="an NPZ file written by SimulationState.save",
        remedy="Save the state again with the machine it belongs to.",
    )
