"""One machine through a stretch of steps: motion, cut, drives, DC link and heat, then what the control would log.

Everything but the spindle's speed loop is vectorised; see docs/simulator.md for the equations."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from crossfeed.errors import MachineError
from crossfeed.files import atomic_file, storage_error
from crossfeed.schema import canonical
from crossfeed.sim.physics import cutting, spindle
from crossfeed.sim.physics.drives import (
    AxisMotion,
    accumulate,
    decay,
    follow,
    friction_force,
    lag,
    lag_rows,
    motor_speed,
    motor_torque,
    wander,
)
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats, Heat, MachineParameters


@dataclass(frozen=True, slots=True)
class Modes:
    """Two thermal nodes of a motor as independent modes m: dm/dt = rate * m + per_watt * loss + per_kelvin * air."""

    rates: Floats  # (2,) 1/s, negative
    per_watt: Floats  # (2,)
    per_kelvin: Floats  # (2,)
    winding: Floats  # (2,) winding temperature per mode

    @classmethod
    def of(cls, heat: Heat) -> "Modes":
        inner, outer = 1 / heat.winding_to_housing, 1 / heat.housing_to_surroundings
        flow = np.array(
            [
                [-inner / heat.winding_capacity, inner / heat.winding_capacity],
                [inner / heat.housing_capacity, -(inner + outer) / heat.housing_capacity],
            ]
        )
        # The flow is similar to a symmetric matrix, so its modes are real, whatever type the library gives them.
        rates, vectors = (np.real(part) for part in np.linalg.eig(flow))
        inverse = np.linalg.inv(vectors)
        return cls(
            rates=rates,
            per_watt=inverse[:, 0] / heat.winding_capacity,
            per_kelvin=inverse[:, 1] * outer / heat.housing_capacity,
            winding=vectors[0],
        )

    def settled(self, time_step: float, loss: float, air: float) -> Floats:
        """The carries (2,) of a motor that has lost `loss` W in air of `air` degC for a long time."""
        steady = -(self.per_watt * loss + self.per_kelvin * air) / self.rates
        return np.asarray(np.exp(self.rates * time_step) * steady)

    def warm(self, time_step: float, loss: Floats, air: Floats, carries: Floats) -> tuple[Floats, Floats]:
        """Winding temperature over the steps, and the carries after them."""
        temperature = np.zeros(len(loss))
        after = np.empty(2)
        for mode in range(2):
            kept = float(np.exp(self.rates[mode] * time_step))
            gain = float(np.expm1(self.rates[mode] * time_step) / self.rates[mode])
            drive = self.per_watt[mode] * loss + self.per_kelvin[mode] * air
            values, after[mode] = accumulate(drive, kept, gain, float(carries[mode]))
            temperature += self.winding[mode] * values
        return temperature, after


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
            if header["format"] != _FORMAT:
                raise ValueError("its header is another one")
            return cls(header["machine"], header["seed"], header["step"], memory)
        except OSError as error:
            raise storage_error("Reading", Path(path), error) from error
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise MachineError(
                f"{path} is no saved simulation state: {error}.",
                expected="an NPZ file written by SimulationState.save",
                remedy="Save the state again with the machine it belongs to.",
            ) from error


_SENSORS = canonical().sensor_names
# After the measurement noise of each sensor: what wanders in the process and around the machine.
_CUT_SLOW, _CUT_RIPPLE, _HALL, _MAINS = range(len(_SENSORS), len(_SENSORS) + 4)
_STREAMS = len(_SENSORS) + 4
_BLOCK = 1024  # steps drawn together; a normal draw takes a varying number of random words, a block a fixed place
# Sensors that pass the drive's smoothing filter: ten currents, torques and powers, then voltage and modulation depth.
_DRIVE_ROWS = [*range(10), _SENSORS.index("spindle_dc_voltage"), _SENSORS.index("spindle_mod_depth")]
_TEMPERATURES = slice(_SENSORS.index("spindle_motor_temp"), _SENSORS.index("z_motor_temp") + 1)
_DEPTH = _SENSORS.index("spindle_mod_depth")
_CABINET = _SENSORS.index("ambient_temp")


@dataclass(frozen=True, slots=True)
class Physics:
    """What really happens in the machine, without smoothing, resolution or measurement noise; W, N m, rad/s, mm/s."""

    spindle_speed: Floats  # (N,) mean of the step
    spindle_torque: Floats  # of the motor
    friction_torque: Floats
    cutting_torque: Floats
    spindle_power: Floats  # electrical
    copper_loss: Floats
    iron_loss: Floats
    axis_velocity: Floats  # (3, N)
    axis_torque: Floats  # (3, N)
    axis_power: Floats  # (3, N) electrical
    motor_temperature: Floats  # (4, N) winding of spindle, x, y, z


def advance(
    machine: MachineParameters, time_step: float, inputs: DriveInputs, state: SimulationState
) -> tuple[Floats, Physics, SimulationState]:
    """The canonical sensors (17, N), the physics behind them, and the state afterwards."""
    draws = _normals(state.seed, state.step, len(inputs))
    after: dict[str, Any] = {}

    motions, axis_memories = [], []
    for index, axis in enumerate(machine.axes):
        motion, memory = follow(axis, time_step, inputs.feed[:, index] / 60, state.memory["axes"][index])
        motions.append(motion)
        axis_memories.append(memory)
    after["axes"] = np.array(axis_memories)

    slow, after["cut"] = wander(draws[_CUT_SLOW], time_step, machine.cutting.slow_memory, state.number("cut"))
    liveliness = 1 + machine.cutting.slow_variation * slow + machine.cutting.ripple * draws[_CUT_RIPPLE]
    cut = cutting.cut(inputs, motions, np.maximum(liveliness, 0.1))
    top = machine.spindle.speed_limit
    turning, after["spindle_speed"], after["spindle_integral"] = spindle.turn(
        machine.spindle,
        time_step,
        np.clip(inputs.spindle_speed, -top, top) * RAD_PER_RPM,
        cut,
        machine.cutting.chip_load_limit,
        state.number("spindle_speed"),
        state.number("spindle_integral"),
    )

    losses, physics, drive_values = _drives(machine, inputs, motions, turning)
    total = physics.spindle_power + physics.axis_power.sum(axis=0) + machine.link.standing_load
    voltage, after["link"], after["mains"] = _link(machine, time_step, total, draws, state)
    terminal = spindle.terminal_voltage(machine.spindle, turning.speed, drive_values[0])
    reported = np.vstack((drive_values, voltage, 100 * terminal / voltage))
    smoothed, after["smoothing"] = lag_rows(
        reported, decay(time_step, machine.logging.smoothing), state.memory["smoothing"]
    )

    sensors = np.empty((len(_SENSORS), len(inputs)))
    sensors[_DRIVE_ROWS] = smoothed
    drift, after["hall"] = wander(draws[_HALL], time_step, machine.hall.memory, state.number("hall"))
    hall = machine.hall.temperature + machine.hall.drift * drift
    carries = np.empty((4, 2))
    for index, model in enumerate(machine.heats):
        air = hall + model.surroundings
        physics.motor_temperature[index], carries[index] = Modes.of(model).warm(
            time_step, losses[index], air, state.memory["heat"][index]
        )
    after["heat"] = carries
    sensors[_TEMPERATURES] = physics.motor_temperature
    cabinet_decay = decay(time_step, machine.hall.cabinet_response)
    rise, after["cabinet"] = lag(total / 1000, cabinet_decay, state.number("cabinet"))
    sensors[_CABINET] = hall + machine.hall.cabinet_rise + machine.hall.cabinet_per_kilowatt * rise

    for index, name in enumerate(_SENSORS):
        sensors[index] += machine.logging.noise.get(name, 0.0) * draws[index]
    np.maximum(sensors[_DEPTH], 0.0, out=sensors[_DEPTH])
    _round(sensors[_TEMPERATURES], machine.logging.temperature_step)
    _round(sensors[_CABINET], machine.logging.cabinet_step)
    return sensors, physics, SimulationState(state.machine, state.seed, state.step + len(inputs), after)


def _drives(
    machine: MachineParameters, inputs: DriveInputs, motions: list[AxisMotion], turning: spindle.SpindleMotion
) -> tuple[list[Floats], Physics, Floats]:
    """Losses that heat each motor, the physics, and the ten drive values the control reports (kW, signs of the log)."""
    motor = machine.spindle
    current = turning.motor_torque / spindle.torque_constant(motor, turning.speed)
    awake = (turning.motor_torque != 0) | (turning.speed != 0)
    copper = 1.5 * motor.resistance * (current * current + motor.magnetising_current**2 * awake)
    size = np.abs(turning.speed)
    iron = motor.hysteresis * size + motor.eddy * size * size
    power = turning.motor_torque * turning.speed + copper + iron
    friction = np.abs(turning.friction_torque * turning.speed)
    losses = [copper + iron + motor.heat.friction_share * friction]

    forces = cutting.feed_forces(inputs, motions, turning.tooth_torque)
    torques, powers, reported = [], [], []
    for axis, motion, force in zip(machine.axes, motions, forces):
        torque = motor_torque(axis, motion, force)
        axis_current = torque / axis.torque_constant
        axis_copper = 1.5 * axis.resistance * axis_current * axis_current
        torques.append(torque)
        powers.append(torque * motor_speed(axis, motion.velocity) + axis_copper)
        rubbing = np.abs(friction_force(axis, motion.velocity) * motion.velocity) / 1000
        losses.append(axis_copper + axis.heat.friction_share * rubbing)
        reported += [axis.sense * axis_current, axis.sense * torque]
    physics = Physics(
        spindle_speed=turning.speed,
        spindle_torque=turning.motor_torque,
        friction_torque=turning.friction_torque,
        cutting_torque=turning.cutting_torque,
        spindle_power=power,
        copper_loss=copper,
        iron_loss=iron,
        axis_velocity=np.vstack([motion.velocity for motion in motions]),
        axis_torque=np.vstack(torques),
        axis_power=np.vstack(powers),
        motor_temperature=np.empty((4, len(power))),
    )
    of_spindle = [motor.sense * current, motor.sense * turning.motor_torque, power / 1000]
    return losses, physics, np.vstack([*of_spindle, *reported, powers[2] / 1000])


def _link(
    machine: MachineParameters, time_step: float, total: Floats, draws: Floats, state: SimulationState
) -> tuple[Floats, float, float]:
    """DC-link voltage: it sags with the power drawn, rises with the power fed back, up to the regeneration limit."""
    link = machine.link
    drawn, carry = lag(total / 1000, decay(time_step, link.response), state.number("link"))
    drift, mains_carry = wander(draws[_MAINS], time_step, link.mains_memory, state.number("mains"))
    voltage = link.voltage + link.mains_drift * drift - link.sag * drawn
    return np.minimum(voltage, link.regeneration_limit), carry, mains_carry


def _round(values: Floats, step: float) -> None:
    """Round in place to the resolution of a thermometer."""
    values /= step
    np.rint(values, out=values)
    values *= step


def _normals(seed: int, start: int, count: int) -> Floats:
    """Standard normal numbers (streams, count) for the steps from `start` on.

    They are a function of seed and step: the same step meets the same noise, however a run is cut up.
    """
    first, last = start // _BLOCK, (start + count - 1) // _BLOCK
    blocks = [_block(seed, number) for number in range(first, last + 1)]
    joined = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    offset = start - first * _BLOCK
    return joined[:, offset : offset + count]


def _block(seed: int, number: int) -> Floats:
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, number, 0]))
    return generator.standard_normal((_STREAMS, _BLOCK))
