"""A simulated machine behind a server, at its own pace or faster, with faults where they are asked for."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from crossfeed.errors import ConfigError, MachineError
from crossfeed.logs.declaration import MICROSECONDS
from crossfeed.programs.parse import program_path, read_program
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import material_for, tool_notes
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import motion_limits, play, prepare
from crossfeed.sim.physics.rollout import SimulatedMachine

PAUSE_S = 8.0
_PIECE = 50  # steps computed together: few enough to be ready in time
FIRST_S = 20.0  # nothing goes wrong before
_EVERY = 20  # one step of so many is late
ProtocolName = Literal["opcua", "mtconnect", "mqtt", "sparkplug"]


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


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault and its size: seconds of an outage, of lateness, of skew; steps between two faults."""

    kind: str
    size: float


@dataclass(frozen=True, slots=True)
class Outage:
    """The server is gone for so many seconds of the machine's time; what happens meanwhile is lost."""

    seconds: float


def read_fault(text: str) -> Fault:
    """`outage=60`, `late`, `doubled`, `out-of-order`, `skew=3`, `dead-node`."""
    kind, _, size = text.partition("=")
    if kind not in _FAULTS:
        raise ConfigError(f"There is no fault '{kind}'.", expected=f"one of {', '.join(_FAULTS)}")
    try:
        return Fault(kind, float(size or _FAULTS[kind][1]))
    except ValueError as error:
        raise ConfigError(f"The size of the fault '{text}' is no number.", expected=f"such as {kind}=5") from error


def with_faults(steps: Iterable[Step], faults: Iterable[Fault], dead: str) -> Iterator[Step | Outage]:
    """The same steps as a listener meets them; `dead` is the channel of a dead node."""
    events: Iterator[Step | Outage] = iter(steps)
    for fault in faults:
        events = _FAULTS[fault.kind][0](events, fault.size, dead)
    return events


def _outage(events: Iterator[Step | Outage], seconds: float, _: str) -> Iterator[Step | Outage]:
    begun = done = False
    until = 0.0
    for event in events:
        if isinstance(event, Step) and not done:
            if not begun and event.time >= FIRST_S:
                begun, until = True, event.time + seconds
                yield Outage(seconds)
            if begun and event.time < until:
                continue
            done = begun
        yield event


def _late(events: Iterator[Step | Outage], seconds: float, _: str) -> Iterator[Step | Outage]:
    """One step of twenty comes after those that follow it."""
    held: list[Step] = []
    for number, event in enumerate(events):
        if isinstance(event, Step):
            yield from (late for late in held if late.time + seconds <= event.time)
            held = [late for late in held if late.time + seconds > event.time]
            if event.time >= FIRST_S and number % _EVERY == 0:
                held.append(event)
                continue
        yield event


def _doubled(events: Iterator[Step | Outage], every: float, _: str) -> Iterator[Step | Outage]:
    for number, event in enumerate(events):
        yield event
        if isinstance(event, Step) and number % int(every) == 0:
            yield event


def _out_of_order(events: Iterator[Step | Outage], every: float, _: str) -> Iterator[Step | Outage]:
    """Every so many steps two neighbours change places."""
    for number, event in enumerate(events):
        if number % int(every) == 0 and (after := next(events, None)) is not None:
            yield after
        yield event


def _skew(events: Iterator[Step | Outage], seconds: float, _: str) -> Iterator[Step | Outage]:
    for event in events:
        yield replace(event, time=event.time + seconds) if isinstance(event, Step) else event


def _dead_node(events: Iterator[Step | Outage], after: float, dead: str) -> Iterator[Step | Outage]:
    for event in events:
        gone = isinstance(event, Step) and event.time >= after
        yield replace(event, missing=event.missing | {dead}) if gone and isinstance(event, Step) else event


# What each does, and its size where none is given.
_FAULTS = {
    "outage": (_outage, 60.0), "late": (_late, 1.5), "doubled": (_doubled, 10.0), "out-of-order": (_out_of_order, 5.0),
    "skew": (_skew, 3.0), "dead-node": (_dead_node, 10.0),
}  # fmt: skip


class SimulatedServer(Protocol):
    """A protocol server that is told every step of the machine."""

    address: str

    async def start(self) -> None: ...

    async def tell(self, step: Step, stamp: int) -> None: ...

    async def stop(self) -> None: ...

    async def vanish(self) -> None:
        """Drop every connection and take no new one, as when a cable is pulled."""
        await self.stop()

    async def return_(self) -> None:
        """Take connections again."""
        await self.start()


async def serve(
    feed: SimulatedFeed,
    server: SimulatedServer,
    *,
    speed: float = 1.0,
    faults: Sequence[Fault] = (),
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Tell the server every step until cancelled.

    Stamps begin at the present and run with the machine's time, `speed` times as fast as ours.
    """
    await server.start()
    begin, origin = time.monotonic(), time.time()
    if on_ready is not None:
        on_ready(server.address)
    clock = 0.0
    try:
        for event in with_faults(feed.steps(), faults, feed.sensors[0]):
            if isinstance(event, Outage):
                await server.vanish()
                await asyncio.sleep(event.seconds / speed)
                await server.return_()
                continue
            clock = max(clock, event.time)
            ahead = begin + clock / speed - time.monotonic()
            await asyncio.sleep(max(ahead, 0.0))
            await server.tell(event, round((origin + event.time) * MICROSECONDS))
    finally:
        await server.stop()


def make_server(protocol: ProtocolName, feed: SimulatedFeed, port: int = 0) -> SimulatedServer:
    """The server of a protocol on the loopback address; port 0 takes the protocol's usual one."""
    if protocol == "opcua":
        from crossfeed.sim.servers.opcua_server import OpcUaServer

        return OpcUaServer(feed, port or 4840)
    if protocol == "mtconnect":
        from crossfeed.sim.servers.mtconnect_agent import MtconnectAgent

        return MtconnectAgent(feed, port or 5000)
    from crossfeed.sim.servers.mqtt_publisher import MqttPublisher

    return MqttPublisher(feed, port or 1883, sparkplug=protocol == "sparkplug")
