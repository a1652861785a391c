"""What goes wrong between a machine and whoever listens, on request and the same at every run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from crossfeed.errors import ConfigError
from crossfeed.live.simulated.feed import Step

FIRST_S = 20.0  # nothing goes wrong before
_EVERY = 20  # one step of so many is late


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
    told: Iterator[Step | Outage] = iter(steps)
    for fault in faults:
        told = _FAULTS[fault.kind][0](told, fault.size, dead)
    return told


def _outage(told: Iterator[Step | Outage], seconds: float, _: str) -> Iterator[Step | Outage]:
    begun = done = False
    until = 0.0
    for one in told:
        if isinstance(one, Step) and not done:
            if not begun and one.time >= FIRST_S:
                begun, until = True, one.time + seconds
                yield Outage(seconds)
            if begun and one.time < until:
                continue
            done = begun
        yield one


def _late(told: Iterator[Step | Outage], seconds: float, _: str) -> Iterator[Step | Outage]:
    """One step of twenty comes after those that follow it."""
    held: list[Step] = []
    for number, one in enumerate(told):
        if isinstance(one, Step):
            yield from (late for late in held if late.time + seconds <= one.time)
            held = [late for late in held if late.time + seconds > one.time]
            if one.time >= FIRST_S and number % _EVERY == 0:
                held.append(one)
                continue
        yield one


def _doubled(told: Iterator[Step | Outage], every: float, _: str) -> Iterator[Step | Outage]:
    for number, one in enumerate(told):
        yield one
        if isinstance(one, Step) and number % int(every) == 0:
            yield one


def _out_of_order(told: Iterator[Step | Outage], every: float, _: str) -> Iterator[Step | Outage]:
    """Every so many steps two neighbours change places."""
    for number, one in enumerate(told):
        if number % int(every) == 0 and (after := next(told, None)) is not None:
            yield after
        yield one


def _skew(told: Iterator[Step | Outage], seconds: float, _: str) -> Iterator[Step | Outage]:
    for one in told:
        yield replace(one, time=one.time + seconds) if isinstance(one, Step) else one


def _dead_node(told: Iterator[Step | Outage], after: float, dead: str) -> Iterator[Step | Outage]:
    for one in told:
        gone = isinstance(one, Step) and one.time >= after
        yield replace(one, missing=one.missing | {dead}) if gone and isinstance(one, Step) else one


# What each does, and its size where none is given.
_FAULTS = {
    "outage": (_outage, 60.0), "late": (_late, 1.5), "doubled": (_doubled, 10.0), "out-of-order": (_out_of_order, 5.0),
    "skew": (_skew, 3.0), "dead-node": (_dead_node, 10.0),
}  # fmt: skip
