"""Where the tool is on its planned path when the commands change: engagement belongs to the path, not to the time.

N planned steps, M commanded ones, all of one length. Commands say how fast the path is travelled, not where it leads:

- a step that commands a feed advances by its length, whatever its direction, and meets the stock of the place where it
  ends; standing times of the plan take no path and are passed over;
- a step without feed cuts nothing and stays where it is. Where the plan itself stands (dwell, tool change), that
  standing time goes by, so that the plan's own commands meet the plan's own engagement, step by step;
- beyond the end of the planned path the last engagement stays.
"""

import numpy as np
from numpy.typing import NDArray

from crossfeed.errors import MachineError
from crossfeed.machines.simulated.inputs import DriveInputs
from crossfeed.machines.simulated.noise import Floats

_STANDING = 6e-5  # mm/min, the slowest feed that cuts
_SAME_PLACE = 1e-6  # mm/min x step; rounding of sums stays below, every step that moves above


def travel(planned: DriveInputs, commands: Floats) -> DriveInputs:
    """Other commands, (M, 4) at the inner rate, with the engagement of the places on the planned path they reach."""
    asked = DriveInputs.held(commands, 1)
    return planned[steps_met(planned, asked)].with_commands(asked.commands)


def steps_met(planned: DriveInputs, asked: DriveInputs) -> NDArray[np.intp]:
    """The planned step (M,) whose engagement each step of other commands meets."""
    if not len(planned):
        raise MachineError("There is no path to follow: the plan has no steps.", expected="at least one planned step")
    ends, planned_moves = _distances(planned)
    places = np.concatenate(([0.0], ends))
    reached, moves = _distances(asked)
    # Planned steps begun at each place, and the standing ones that go by while the tool stands there.
    begun = np.minimum(np.searchsorted(places, reached - _SAME_PLACE), len(planned))
    finished = places[begun] - reached <= _SAME_PLACE
    last = begun - 1 + np.where(finished, np.minimum(_stood(moves), _waiting(planned_moves)[begun]), 0)
    return np.asarray(np.maximum(last, 0))


def _distances(inputs: DriveInputs) -> tuple[Floats, NDArray[np.bool_]]:
    """Path length at the end of each step, in mm/min x steps, and whether the step moves at all."""
    x, y, z = inputs.feed.T
    speed = np.sqrt(x * x + y * y + z * z)
    moves = speed > _STANDING
    return np.cumsum(np.where(moves, speed, 0.0)), moves


def _stood(moves: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How many steps the tool has stood at the end of each step."""
    step = np.arange(len(moves))
    return step - np.maximum.accumulate(np.where(moves, step, -1))


def _waiting(moves: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How many steps the plan still stands from each step on; none after its end."""
    step = np.arange(len(moves) + 1)
    following = np.where(np.append(moves, True), step, len(moves))
    return np.minimum.accumulate(following[::-1])[::-1] - step
