"""A seed means what it meant: whoever changes one range of the fleet changes every fleet that was ever named by a seed.

If these figures have to change, `VERSION` in `crossfeed/sim/factory/generate.py` changes with them.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from pydantic import BaseModel

from crossfeed.sim.factory.draw import FleetMachine, draw_machine
from crossfeed.sim.factory.generate import VERSION, draw_log
from crossfeed.sim.factory.habits import draw_habits
from crossfeed.sim.factory.motors import dice
from crossfeed.sim.factory.operations import OPERATIONS, Area, NcText, ToolUse
from crossfeed.sim.factory.parts import draw_piece
from crossfeed.sim.factory.people import _retract, _set_up, _warm_up, draw_person, work

SEED = 3


@cache
def machine(number: int) -> FleetMachine:
    return draw_machine(SEED, number)


def leaves(value: Any) -> Iterator[float]:
    """Every number of nested data, and a number for every word."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        value = [part for pair in sorted(value.items()) for part in pair]
    if isinstance(value, str):
        yield float(crc32(value.encode()) % 1000)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from leaves(part)
    else:
        yield float(value)


def weight(value: Any) -> float:
    """One number in which a change of any number of any size shows, wherever it stands."""
    sizes = [math.copysign(math.log(min(abs(leaf), 1e15) + 1e-9) + 30.0, leaf) for leaf in leaves(value)]
    return sum((1.0 + place % 7) * size for place, size in enumerate(sizes))


def told(name: str) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    if name == "machines":
        for number in range(200):
            found[machine(number).kind.name] += weight(machine(number))
    elif name == "habits":
        for number in range(400):
            habits = draw_habits(machine(number), dice(SEED, number, "habits"))
            found[habits.family] += weight(habits)
    elif name == "people":
        for number in range(200):
            found["busy" if number % 2 else "calm"] += weight(
                draw_person(dice(SEED, number, "people"), number % 2 == 1)
            )
    elif name == "moves":
        for number in range(20):
            hands = dice(SEED, number, "people")
            for moves in (_set_up, _retract, _warm_up):
                made = moves(machine(number), hands)
                found[moves.__name__] += weight([len(made), *made.spindle_speed[::50], *made.feed[::50].ravel()])
    elif name == "shifts":
        for number in range(8):
            hands = dice(SEED, number, "people")
            person = replace(draw_person(hands, False), sleeps=True, warm_up=number % 2 == 0)
            piece = draw_piece(machine(number), dice(SEED, number, "parts"))
            shift = work(machine(number), [lambda piece=piece: piece], person, 1200.0, hands)
            found[machine(number).kind.name] += weight(
                [[stint.stop for stint in shift.stints], int(shift.awake.sum()),
                 np.abs(shift.inputs.spindle_speed).mean(), np.abs(shift.inputs.feed).mean(0).tolist()]
            )  # fmt: skip
    elif name == "programs":
        for way, operation in OPERATIONS.items():
            for item in range(6):
                text, draw = NcText(), dice(SEED, item, "parts")
                cut = ToolUse(2.0 + 3.0 * item, 3000.0, 400.0 + 250.0 * item, 0.5 + 0.4 * item, 1.0 + 1.5 * item)
                area = Area(3.0, -4.0, 25.0 + 15.0 * item, 60.0 - 8.0 * item, 0.5 * item)
                operation.write(text, draw, cut, area, 150.0 * 3.0**item)
                found[way] += weight([float(found) for found in re.findall(r"-?\d+\.?\d*", "\n".join(text.lines))])
    elif name == "pieces":
        # Turned pieces take turns at fewer kinds of cuts, so more of each machine are looked at.
        for number, item in [(n, i) for n in range(24) for i in range(12 if machine(n).kind.turning else 1)]:
            piece = draw_piece(machine(number), dice(SEED, number, "parts", item))
            job = piece.job
            found[machine(number).kind.name] += weight(
                [job.name, job.seconds, piece.material, piece.second_spindle, job.spindle_speed[::200].tolist(),
                 float(job.engagement.depth.sum()), float(job.engagement.width.sum())]
            )  # fmt: skip
    else:
        for number in range(16, 26):
            log = draw_log(SEED, number, minutes=3)
            seen = np.where(np.isfinite(log.sensors), log.sensors, 7.0)
            found[str(number)] += weight(
                [[run for *run, _, _ in log.sessions], [end for *_, end in log.sessions],
                 np.abs(seen).mean(0).tolist(), np.abs(log.commands).mean(0).tolist()]
            )  # fmt: skip
    return dict(found)


MEANT: dict[str, dict[str, float]] = {
    "machines": {
        "heavy": 989883.616455,
        "lathe": 1035040.94374,
        "mill_turn": 657028.843778,
        "bench": 1759229.80204,
        "high_speed": 1114740.43208,
        "mill": 2676882.20549,
    },
    "habits": {
        "percent": 1742279.6367,
        "testbed": 3325392.71887,
        "any": 3751470.82484,
        "mtconnect": 1024705.76951,
        "siemens": 4673422.63533,
    },
    "people": {"calm": 262461.40466, "busy": 262439.891081},
    "moves": {"_set_up": 58675.8634328, "_retract": 14670.9874454, "_warm_up": 336034.295462},
    "shifts": {
        "heavy": 6499.98267599,
        "lathe": 2267.63970374,
        "mill_turn": 5888.58288464,
        "bench": 2119.83521761,
        "high_speed": 3689.70956948,
        "mill": 8497.69278868,
    },
    "programs": {
        "face": 193203.180695,
        "rough": 193203.180695,
        "pocket": 259035.719528,
        "contour": 294781.001921,
        "finish": 294781.001921,
        "slot": 193203.180695,
        "drill": 56811.0095942,
        "surface": 2483838.54166,
        "circles": 191750.329621,
        "curves": 558901.052764,
    },
    "pieces": {
        "heavy": 52365.4357004,
        "lathe": 4129142.00685,
        "mill_turn": 54605.3646361,
        "bench": 68270.8645653,
        "high_speed": 44473.629372,
        "mill": 82621.3385438,
    },
    "logs": {
        "16": 5602.45157798,
        "17": 5653.38241198,
        "18": 5616.28792325,
        "19": 5697.57751593,
        "20": 5516.77026114,
        "21": 5300.57581745,
        "22": 5537.27478767,
        "23": 5509.58440012,
        "24": 5644.70752578,
        "25": 5684.44381791,
    },
}


@pytest.mark.parametrize("name", MEANT)
def test_a_seed_means_what_it_meant(name: str) -> None:
    assert VERSION == 3
    # A value that lies on the edge of a step may fall to its other side on another processor.
    assert told(name) == pytest.approx(MEANT[name], rel=1e-7 if name in ("shifts", "pieces", "logs") else 1e-9)
