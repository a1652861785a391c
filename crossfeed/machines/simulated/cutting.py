"""The cut: torque and feed force from chip load, depth, width and material (Kienzle's formula).

    T = k_c h_m^(-m_c) a_p a_e f_z z / 2 pi      with the mean chip thickness h_m = f_z (2 a_e / D) / phi_s
    phi_s = arccos(1 - 2 a_e / D)                the arc of engagement

which is specific cutting force times removal rate over spindle speed. A drill is a full cut whose depth times width is
the area of its hole. Without feed there is no chip and no force.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.machines.simulated.axes import AxisMotion
from crossfeed.machines.simulated.inputs import DriveInputs
from crossfeed.machines.simulated.noise import Floats

# Mean forces on the tool as parts of the tangential force 2 T / D.
AGAINST_FEED = 0.45
ACROSS_FEED = 0.25
ALONG_TOOL = 0.15
_STANDING = 1e-6  # mm/s


@dataclass(frozen=True, slots=True)
class Cut:
    """Cutting torque at every step as gain * (chip load in mm) ** exponent; chip load = feed_per_turn / speed."""

    gain: Floats  # N m
    exponent: Floats
    feed_per_turn: Floats  # mm rad/s


def torque(
    specific_force: Floats, exponent: Floats, depth: Floats, width: Floats, diameter: Floats, teeth: Floats
) -> Floats:
    """Cutting torque in N m at a chip load of 1 mm, the `gain` of a Cut."""
    share = np.clip(width / diameter, 1e-9, 1.0)
    thickness_ratio = 2 * share / np.arccos(1 - 2 * share)
    return np.asarray(specific_force * thickness_ratio**-exponent * depth * width * teeth / (2000 * np.pi))


def cut(inputs: DriveInputs, motions: Sequence[AxisMotion], liveliness: Floats) -> Cut:
    """The cut that the true slide velocities make of the engagement."""
    squared = sum((motion.velocity * motion.velocity for motion in motions), start=np.zeros(len(inputs)))
    velocity = np.sqrt(squared)
    engaged = np.flatnonzero((inputs.depth > 0) & (inputs.width > 0) & (velocity > _STANDING))
    gain = np.zeros(len(inputs))
    if len(engaged):
        gain[engaged] = liveliness[engaged] * torque(
            inputs.specific_force[engaged],
            inputs.exponent[engaged],
            inputs.depth[engaged],
            inputs.width[engaged],
            inputs.diameter[engaged],
            inputs.teeth[engaged],
        )
    return Cut(gain, 1 - inputs.exponent, 2 * np.pi * velocity / inputs.teeth)


def feed_forces(
    inputs: DriveInputs, motions: Sequence[AxisMotion], tooth_torque: Floats
) -> tuple[Floats, Floats, Floats]:
    """Forces in N that the x, y and z drives must overcome: against the feed, across it, and along the tool."""
    zero = np.zeros(len(inputs))
    cutting = np.flatnonzero(tooth_torque > 0)
    if not len(cutting):
        return zero, zero, zero
    vx, vy, vz = (motion.velocity[cutting] for motion in motions)
    tangential = 2000 * tooth_torque[cutting] / inputs.diameter[cutting]
    per_speed = tangential / np.maximum(np.sqrt(vx * vx + vy * vy + vz * vz), _STANDING)
    forces = (zero, zero.copy(), zero.copy())
    forces[0][cutting] = per_speed * (AGAINST_FEED * vx - ACROSS_FEED * vy)
    forces[1][cutting] = per_speed * (AGAINST_FEED * vy + ACROSS_FEED * vx)
    forces[2][cutting] = per_speed * AGAINST_FEED * vz - ALONG_TOOL * tangential
    return forces
