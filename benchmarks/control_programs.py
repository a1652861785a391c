"""Random programs for benchmarks/control.py: layers, pockets, holes and light finishing."""

import numpy as np

# What program 0, 1, 2, ... is; the kinds repeat.
KINDS = ("roughing", "finishing", "pocketing", "drilling", "roughing", "pocketing", "finishing", "roughing")
_MATERIALS = ("aluminium", "steel")


def kind_of(number: int) -> str:
    return KINDS[number % len(KINDS)]


def random_program(number: int, kind: str, length_s: float = 110.0) -> str:
    """NC text of a part that cuts for about this long; the same number gives the same part."""
    draw = np.random.default_rng([18, number])
    material = _MATERIALS[int(draw.integers(2))]
    hard = material == "steel"
    diameter = int(draw.choice([6, 8, 10] if kind == "drilling" else [10, 12, 16]))
    surface = float(draw.uniform(100, 140) if hard else draw.uniform(280, 380))
    speed = round((0.6 if kind == "drilling" else 1.0) * surface * 1000 / (np.pi * diameter))
    make = {"roughing": _layers, "finishing": _finish, "pocketing": _pockets, "drilling": _holes}[kind]
    tool = f"BOHRER_D{diameter}" if kind == "drilling" else f"SCHAFT_D{diameter}_N_AP40"
    head = [f"; Material: {material}", "G90 G94 G17 G710", f'T="{tool}"', "M6", f"S{speed} M3"]
    return "\n".join([*head, *make(draw, hard, diameter, speed, length_s), "M5", "M30", ""])


def _layers(
    draw: np.random.Generator, hard: bool, diameter: int, speed: int, length_s: float, light: bool = False
) -> list[str]:
    """Strokes to and fro; depth and width change from layer to layer."""
    feed = round(3 * float(draw.uniform(0.05, 0.09)) * (0.5 if light else 1.0) * speed)
    length, lines = float(draw.uniform(60, 110)), []
    seconds, depth, y = 0.0, 0.0, 0.0
    while seconds < length_s:
        depth += 0.3 if light else float(draw.uniform(0.5, 2.0 if hard else 3.5))
        width = (0.15 if light else float(draw.uniform(0.3, 0.9))) * diameter
        lines += [f"G0 X-{diameter}. Y{y:.2f}", "G0 Z2.", f"G1 Z-{depth:.2f} F{round(feed / 3)}"]
        for stroke in range(int(draw.integers(2, 5))):
            lines.append(f"G1 X{length + diameter if stroke % 2 == 0 else -diameter:.2f} F{feed}")
            y += width
            lines.append(f"G1 Y{y:.2f}")
            seconds += 60.0 * (length + 2 * diameter + width) / feed
        lines.append("G0 Z20.")
        y = 0.0 if y > 60.0 else y
    return lines


def _finish(draw: np.random.Generator, hard: bool, diameter: int, speed: int, length_s: float) -> list[str]:
    """Small depth, small width, half the chip."""
    return _layers(draw, hard, diameter, speed, length_s, light=True)


def _pockets(draw: np.random.Generator, hard: bool, diameter: int, speed: int, length_s: float) -> list[str]:
    """Rectangular spirals from the middle outwards: a full slot first, then the width of a step."""
    feed = round(3 * float(draw.uniform(0.04, 0.08)) * speed)
    lines, seconds, x = [], 0.0, 0.0
    while seconds < length_s:
        depth, step = float(draw.uniform(0.5, 1.5 if hard else 3.0)), float(draw.uniform(0.35, 0.7)) * diameter
        turns = int(draw.integers(2, 5))
        lines += [f"G0 X{x:.2f} Y0.", "G0 Z2.", f"G1 Z-{depth:.2f} F{round(feed / 3)}"]
        seconds += 60.0 * (2.0 + depth) / (feed / 3)
        for turn in range(1, turns + 1):
            half, wide = turn * step, turn * step + diameter
            for to_x, to_y in ((wide, -half), (wide, half), (-wide, half), (-wide, -half)):
                lines.append(f"G1 X{x + to_x:.2f} Y{to_y:.2f} F{feed}")
            seconds += 60.0 * 4.0 * (half + wide) / feed
        lines.append("G0 Z20.")
        x += 2.0 * (turns * step + 2.0 * diameter)
    return lines


def _holes(draw: np.random.Generator, hard: bool, diameter: int, speed: int, length_s: float) -> list[str]:
    """Holes of changing depth, drilled in pecks."""
    feed = round(2 * float(draw.uniform(0.03, 0.05)) * (0.7 if hard else 1.0) * speed)
    lines, seconds, number = [], 0.0, 0
    while seconds < length_s:
        deep, peck = float(draw.uniform(1.5, 3.0)) * diameter, float(draw.uniform(0.8, 1.5)) * diameter
        lines += [f"G0 X{25 * (number % 5)}. Y{25 * (number // 5)}.", "G0 Z2."]
        reached = 0.0
        while reached < deep:
            lower = min(reached + peck, deep)
            lines += [f"G1 Z-{lower:.2f} F{feed}", "G0 Z2.", f"G0 Z-{max(lower - 0.5, 0.0):.2f}"]
            seconds += 60.0 * (lower - reached + 0.5) / feed
            reached = lower
        lines.append("G0 Z20.")
        number += 1
    return lines
