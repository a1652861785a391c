"""What a simulated machine tells, step by step and without end: a program, a pause, and the program again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from crossfeed.errors import MachineError
from crossfeed.machines.simulated.catalogue import machine_named
from crossfeed.machines.simulated.inputs import DriveInputs
from crossfeed.machines.simulated.jobs import motion_limits, play, prepare
from crossfeed.machines.simulated.materials_and_tools import material_for, tool_notes
from crossfeed.machines.simulated.rollout import SimulatedMachine
from crossfeed.programs.bundled import program_path
from crossfeed.programs.parse import read_program
from crossfeed.schema import canonical

PAUSE_S = 8.0
_PIECE = 50  # steps computed together: few enough that nobody waits for them


@dataclass(frozen=True, slots=True)
class Step:
    """Everything the control knows at one moment; `time` is in seconds since the machine was switched on."""

    time: float
    values: Mapping[str, float]  # canonical channels in canonical units
    program: str
    line: int
    feed_override: float = 100.0
    missing: frozenset[str] = field(default_factory=frozenset)  # channels that have no value now


class SimulatedFeed:
    """A machine of the catalogue at work on one program, told `rate_hz` times a second."""

    def __init__(
        self, machine: str = "spinner_630", program: str = "bundled:face_pocket", rate_hz: float = 10.0, seed: int = 0
    ) -> None:
        self.parameters = machine_named(machine)
        self.name, self._seed = self.parameters.name, seed
        self.sensors = self.parameters.logging.sensors
        path = program_path(program)
        text = path.read_text(encoding="utf-8", errors="replace")
        self.program = path.name
        self._job = prepare(read_program(path), motion_limits(self.parameters), tool_notes(text))
        self._material = material_for(text)
        step = min(0.02, self.parameters.logging.period, 1.0 / rate_hz)
        self._stride = round(1.0 / (rate_hz * step))
        if abs(self._stride * step * rate_hz - 1.0) > 1e-6:
            raise MachineError(f"A rate of {rate_hz:g} Hz does not suit the inner step.", expected="10, 5, 2 or 1 Hz")
        self._machine = SimulatedMachine(self.parameters, step)

    @property
    def channels(self) -> tuple[str, ...]:
        """The sensors of this machine and all four commands."""
        return (*self.sensors, *canonical().command_names)

    def steps(self) -> Iterator[Step]:
        """Without end; the state of the machine, its heat above all, goes on from one part to the next."""
        machine, stride = self._machine, self._stride
        state = machine.rest(self._seed)
        pause = DriveInputs.idle(round(PAUSE_S / machine.time_step))
        played = play(self._job, self._material, machine.time_step)
        # Before and after the program the control shows its first and its last line.
        parts = (
            (pause, [0] * len(pause), ""),
            (played.inputs, played.line.tolist(), self.program),
        )
        while True:
            for inputs, lines, program in parts:
                for begin in range(0, len(inputs) // stride * stride, _PIECE * stride):
                    piece = inputs[begin : begin + _PIECE * stride]
                    trace, state = machine.run(piece, state)
                    for row in range(stride - 1, len(trace), stride):
                        values = {name: float(trace[name][row]) for name in self.channels}
                        yield Step(float(trace.time[row]), values, program, int(lines[begin + row]))
