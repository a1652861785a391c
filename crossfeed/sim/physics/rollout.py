"""A machine to play with: run it, stop it, restore it, and ask what it would have done under other commands."""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crossfeed.errors import MachineError
from crossfeed.schema import canonical
from crossfeed.sim.physics.drives import decay
from crossfeed.sim.physics.dynamics import Modes, Physics, SimulationState, advance
from crossfeed.sim.physics.inputs import DriveInputs, travel
from crossfeed.sim.physics.parameters import Floats, MachineParameters

_PIECE = 32768  # steps computed together: long enough to be quick, short enough to stay in the cache


@dataclass(frozen=True, slots=True)
class Trace:
    """What a run gives: time at the end of each step, the 17 canonical sensors, the commands, the physics behind."""

    time: Floats  # (N,) s since rest
    sensors: Floats  # (N, 17) canonical order and units, as the drives would log them
    commands: Floats  # (N, 4)
    physics: Physics
    time_step: float

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, channel: str) -> Floats:
        """One canonical channel by name."""
        schema = canonical()
        if channel in schema.command_names:
            return self.commands[:, schema.command_names.index(channel)]
        schema.channel(channel)
        return self.sensors[:, schema.sensor_names.index(channel)]

    def resample(self, period: float) -> "Trace":
        """Means over bins of `period` seconds, labelled by their end; an unfinished last bin is left out."""
        ratio = round(period / self.time_step)
        if ratio < 1 or abs(ratio * self.time_step - period) > 1e-9:
            raise MachineError(
                f"A trace with {self.time_step:g} s steps cannot be resampled to {period:g} s.",
                expected=f"a whole multiple of {self.time_step:g} s",
            )
        rows = len(self) // ratio
        kept = rows * ratio
        behind = (getattr(self.physics, field.name)[..., :kept] for field in fields(Physics))
        return Trace(
            time=self.time[ratio - 1 : kept : ratio],
            sensors=self.sensors[:kept].reshape(rows, ratio, -1).mean(axis=1),
            commands=self.commands[:kept].reshape(rows, ratio, -1).mean(axis=1),
            physics=Physics(*(values.reshape(*values.shape[:-1], rows, ratio).mean(axis=-1) for values in behind)),
            time_step=period,
        )


@dataclass(frozen=True)
class SimulatedMachine:
    """A machine with its parameters and its inner time step."""

    parameters: MachineParameters
    time_step: float = 0.02  # s

    def __post_init__(self) -> None:
        longest = 0.75 * self.parameters.spindle.response
        if not 0 < self.time_step <= longest:
            raise MachineError(
                f"A time step of {self.time_step:g} s does not suit {self.parameters.name}.",
                expected=f"more than 0 and at most {longest:g} s, so that its speed controller stays stable",
            )

    @cached_property
    def fingerprint(self) -> str:
        """Names the machine and its time step; a state belongs to both."""
        return f"{self.parameters.fingerprint}/{self.time_step!r}"

    def rest(self, seed: int = 0, cold: bool = False) -> SimulationState:
        """Standing still in a hall as warm as the seed says: in thermal balance, or `cold`, just switched on."""
        if not 0 <= seed < 2**64:
            raise MachineError(f"The seed {seed} cannot be used.", expected="a whole number from 0 to 2^64 - 1")
        machine, step = self.parameters, self.time_step
        hall_drift, mains = np.random.default_rng(seed).standard_normal(2)
        hall = machine.hall.temperature + machine.hall.drift * hall_drift
        torques = [axis.lever * axis.gravity for axis in machine.axes]
        currents = [torque / axis.torque_constant for torque, axis in zip(torques, machine.axes)]
        losses = [0.0, *(1.5 * axis.resistance * i**2 for i, axis in zip(currents, machine.axes))]
        total = (sum(losses) + machine.link.standing_load) / 1000
        voltage = machine.link.voltage + machine.link.mains_drift * mains - machine.link.sag * total
        drives = [0.0, 0.0, 0.0]
        for axis, current, torque in zip(machine.axes, currents, torques):
            drives += [axis.sense * current, axis.sense * torque]
        reported = np.array([*drives, losses[3] / 1000, min(voltage, machine.link.regeneration_limit), 0.0])
        heat = [
            Modes.of(model).settled(step, 0.0 if cold else loss, hall + model.surroundings)
            for model, loss in zip(machine.heats, losses)
        ]
        memory = {
            "axes": np.zeros((3, 3)),
            "spindle_speed": 0.0,
            "spindle_integral": 0.0,
            "cut": 0.0,
            "link": decay(step, machine.link.response) * total,
            "mains": decay(step, machine.link.mains_memory) * mains,
            "hall": decay(step, machine.hall.memory) * hall_drift,
            "cabinet": decay(step, machine.hall.cabinet_response) * total,
            "heat": np.array(heat),
            "smoothing": decay(step, machine.logging.smoothing) * reported,
        }
        return SimulationState(self.fingerprint, seed, 0, memory)

    def run(self, inputs: DriveInputs, state: SimulationState) -> tuple[Trace, SimulationState]:
        """Play the inputs from a state; returns the trace and the state after it."""
        if state.machine != self.fingerprint:
            raise MachineError(
                f"The state does not belong to {self.parameters.name} with {self.time_step:g} s steps.",
                expected="a state that this machine made, with the same parameters and time step",
                remedy="Restore it on the machine that saved it, or start from machine.rest(seed).",
            )
        if not len(inputs):
            raise MachineError("There is nothing to run: the inputs have no steps.", expected="at least one step")
        first = state.step
        sensors, physics = [], []
        for start in range(0, len(inputs), _PIECE):
            values, behind, state = advance(self.parameters, self.time_step, inputs[start : start + _PIECE], state)
            sensors.append(values.T)
            physics.append(behind)
        time = np.arange(first + 1.0, first + 1.0 + len(inputs)) * self.time_step
        return Trace(time, np.concatenate(sensors), inputs.commands, _joined(physics), self.time_step), state


def _joined(parts: list[Physics]) -> Physics:
    if len(parts) == 1:
        return parts[0]
    return Physics(*(np.concatenate([getattr(part, f.name) for part in parts], axis=-1) for f in fields(Physics)))


def counterfactual(
    machine: SimulatedMachine, state: SimulationState, inputs: DriveInputs, commands: ArrayLike
) -> tuple[Trace, Trace]:
    """The run as it was, and as it would have been under other commands: same start, same noise, same path.

    `commands` is (N, 4) at the inner rate or (T, 4) with each row held equally long (1 Hz rows, say). Engagement
    belongs to the path (see `path`): slower feeds cut longer, a hold stops the cut, faster ones arrive earlier.
    """
    factual, _ = machine.run(inputs, state)
    altered, _ = machine.run(travel(inputs, inputs.with_commands(commands).commands), state)
    return factual, altered
