"""Random programs for benchmarks/control.py: roughing in layers of changing depth and width, or light finishing."""

import numpy as np

_MATERIALS = ("aluminium", "steel")


def random_program(number: int, kind: str, length_s: float = 110.0) -> str:
    """NC text of a part that cuts for about this long; the same number gives the same part."""
    draw = np.random.default_rng([18, number])
    material = _MATERIALS[int(draw.integers(2))]
    hard = material == "steel"
    diameter = int(draw.choice([10, 12, 16]))
    speed = round(float(draw.uniform(100, 140) if hard else draw.uniform(280, 380)) * 1000 / (np.pi * diameter))
    chip = float(draw.uniform(0.05, 0.09)) * (1.0 if kind == "roughing" else 0.5)
    feed = round(3 * chip * speed)
    length, lines = float(draw.uniform(60, 110)), []
    seconds, depth, y = 0.0, 0.0, 0.0
    while seconds < length_s:
        if kind == "roughing":
            depth += float(draw.uniform(0.5, 2.0 if hard else 3.5))
            width = float(draw.uniform(0.3, 0.9)) * diameter
        else:
            depth, width = depth + 0.3, 0.15 * diameter
        passes = int(draw.integers(2, 5))
        lines += [f"G0 X-{diameter}. Y{y:.2f}", "G0 Z2.", f"G1 Z-{depth:.2f} F{round(feed / 3)}"]
        for stroke in range(passes):
            lines.append(f"G1 X{length + diameter if stroke % 2 == 0 else -diameter:.2f} F{feed}")
            y += width
            lines.append(f"G1 Y{y:.2f}")
            seconds += 60.0 * (length + 2 * diameter + width) / feed
        lines.append("G0 Z20.")
        y = 0.0 if y > 60.0 else y
    head = [f"; Material: {material}", "G90 G94 G17 G710", f'T="SCHAFT_D{diameter}_N_AP40"', "M6", f"S{speed} M3"]
    return "\n".join([*head, *lines, "M5", "M30", ""])
