"""The bad inputs of benchmarks/bad_input.py: each case is drawn from a seed and its number, and never from luck.

A case writes files into a folder and says which words to type. `must_fail` marks those that no honest program can do.
"""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

ROWS = 90
MAPPING: dict[str, Any] = {
    "machine": "mill",
    "time": {"column": "t", "unit": "s"},
    "columns": [
        {"native": "I", "channel": "spindle_current", "unit": "A"},
        {"native": "M", "channel": "spindle_torque", "unit": "N m"},
        {"native": "n", "channel": "spindle_speed", "unit": "1/min"},
        *({"native": f"v{axis}", "channel": f"feed_{axis}", "unit": "mm/min"} for axis in "xyz"),
    ],
}
PROGRAM = "G17 G90 G94\nT1 M6\nG0 X0 Y0 Z5 S3000 M3\nG1 Z-1 F300\nX40 F500\nG3 X50 Y10 I0 J10\nG0 Z50\nM5\nM30\n"
DEVICES = """<MTConnectDevices><Devices><Device name='L' id='d'><Components><Axes><Components>
<Linear name='X'><DataItems><DataItem id='a' name='Xl' category='SAMPLE' type='LOAD' units='PERCENT'/>
<DataItem id='b' name='Xf' category='SAMPLE' type='AXIS_FEEDRATE' units='MILLIMETER/SECOND'/></DataItems></Linear>
</Components></Axes><Controller><DataItems><DataItem id='c' name='ex' category='EVENT' type='EXECUTION'/></DataItems>
</Controller></Components></Device></Devices></MTConnectDevices>"""
ODD = ["", " ", "nan", "inf", "-inf", "1e999", "0x1f", "\x00", "\ufeff", "ü", "💥", "'", '"', "\\", "{", "[", ": ", "%",
       "null", "-1", "0", "1e308", "99999999999999999999", "2024-13-45", "../../etc", "*", "~", "True",
       "a" * 3000]  # fmt: skip
Draw = np.random.Generator


@dataclass(frozen=True)
class Case:
    """Words to type in a folder; `out` is the table they would write."""

    family: str
    words: list[str]
    must_fail: bool = False
    out: str | None = None
    inside: bool = False  # a call of the plan reader instead of words


def log_frame(draw: Draw) -> pl.DataFrame:
    """A small log in which nothing is wrong yet."""
    speed = np.repeat(draw.choice([0.0, 3000.0, 8000.0], ROWS // 10), 10)
    return pl.DataFrame(
        {"t": np.arange(float(ROWS)), "I": draw.normal(5, 1, ROWS), "M": draw.normal(9, 2, ROWS), "n": speed}
        | {f"v{axis}": draw.normal(0, 500, ROWS).round() for axis in "xyz"}
    )


def spoil_bytes(content: bytes, draw: Draw) -> bytes:
    """Cut, flip, double, insert or empty some bytes."""
    data = bytearray(content)
    for _ in range(int(draw.integers(1, 6))):
        at = int(draw.integers(0, len(data) + 1))
        way = int(draw.integers(0, 7))
        if way == 0:
            data = data[:at]
        elif way == 1 and data:
            data[min(at, len(data) - 1)] = int(draw.integers(0, 256))
        elif way == 2:
            data[at:at] = bytes(draw.integers(0, 256, int(draw.integers(1, 40)), dtype=np.uint8))
        elif way == 3:
            data[at:at] = draw.choice(ODD).encode("utf-8", "surrogatepass")
        elif way == 4:
            data = data[:at] + data[at + int(draw.integers(1, 200)) :]
        elif way == 5:
            data[at:at] = data[at : at + int(draw.integers(1, 300))]
        else:
            data[at:at] = draw.choice([b"\n", b'"', b";", b",", b"\r", b"\t", b"|"])
    return bytes(data)


def spoil_tree(tree: Any, draw: Draw) -> Any:
    """Replace, remove or add one entry somewhere in nested lists and dicts."""
    odd: list[Any] = [*ODD, None, [], {}, -1, 0, 1e300, True, ["x"], {"a": {"b": []}}, float("nan"), 10**40]
    if isinstance(tree, dict) and tree and draw.random() < 0.8:
        key = str(draw.choice(list(tree)))
        way = draw.random()
        if way < 0.2:
            return {name: value for name, value in tree.items() if name != key}
        if way < 0.35:
            return {**tree, str(draw.choice(ODD)): odd[int(draw.integers(len(odd)))]}
        return {**tree, key: spoil_tree(tree[key], draw)}
    if isinstance(tree, list) and tree and draw.random() < 0.8:
        at = int(draw.integers(len(tree)))
        if draw.random() < 0.3:
            return [*tree, tree[at]]
        return [spoil_tree(value, draw) if number == at else value for number, value in enumerate(tree)]
    return odd[int(draw.integers(len(odd)))]


def _ingest(folder: Path, family: str, log: str = "log.csv", must_fail: bool = False, kind: str = "table") -> Case:
    mapping = ["--mapping", str(folder / "mapping.yaml")] if kind == "table" else []
    words = ["ingest", kind, str(folder / log), str(folder / "out.parquet"), *mapping]
    return Case(family, words, must_fail, str(folder / "out.parquet"))


def _write_mapping(folder: Path, mapping: Any = None) -> None:
    text = yaml.safe_dump(MAPPING if mapping is None else mapping, allow_unicode=True)
    (folder / "mapping.yaml").write_text(text, encoding="utf-8", errors="replace")


def files(folder: Path, draw: Draw) -> Case:
    """Logs with damaged bytes, cells, headers and clocks."""
    _write_mapping(folder)
    frame = log_frame(draw)
    way = int(draw.integers(0, 8))
    must_fail = False
    if way == 0:
        frame, must_fail = frame.drop(str(draw.choice(frame.columns))), True
    elif way == 1:
        times = frame["t"].to_numpy().copy()
        times[int(draw.integers(ROWS)) :] += draw.choice([1e9, -1e9, 1e15, 3600.0, 1e300, -5.0])
        frame = frame.with_columns(pl.Series("t", times))
    elif way == 2:
        name, at = str(draw.choice(frame.columns)), int(draw.integers(ROWS))
        cells = frame[name].cast(pl.String).to_list()
        cells[at:] = (
            [str(draw.choice(ODD))] * (ROWS - at) if draw.random() < 0.3 else [str(draw.choice(ODD)), *cells[at + 1 :]]
        )
        frame = frame.with_columns(pl.Series(name, cells))
    elif way == 3:
        frame = frame.rename({str(draw.choice(frame.columns[1:])): str(draw.choice([*ODD[1:], "T", "i "]))})
    elif way == 4:
        frame = frame.head(int(draw.integers(0, 3)))
    text = (
        frame.write_csv(separator=str(draw.choice([",", ";", "\t"])))
        if frame.height < ROWS or draw.random() < 0.9
        else ""
    )
    content = text.encode("utf-8", "replace")
    if way >= 5:
        content = spoil_bytes(content, draw)
    if way == 7:
        content = bytes(draw.integers(0, 256, int(draw.integers(0, 5000)), dtype=np.uint8))
    (folder / "log.csv").write_bytes(content)
    return _ingest(folder, "files", must_fail=must_fail)


def mappings(folder: Path, draw: Draw) -> Case:
    """Mappings with damaged trees and damaged text."""
    log_frame(draw).write_csv(folder / "log.csv")
    if draw.random() < 0.7:
        mapping: Any = MAPPING
        for _ in range(int(draw.integers(1, 4))):
            mapping = spoil_tree(mapping, draw)
        _write_mapping(folder, mapping)
    else:
        (folder / "mapping.yaml").write_bytes(spoil_bytes(yaml.safe_dump(MAPPING).encode(), draw))
    return _ingest(folder, "mappings")


def templates(folder: Path, draw: Draw) -> Case:
    """Logs to write a mapping from."""
    files(folder, draw)
    return Case("templates", ["data", "template", "--from", str(folder / "log.csv")])


def tables(folder: Path, draw: Draw) -> Case:
    """Parquet tables with damaged bytes, columns, types and metadata."""
    frame = log_frame(draw).rename({"t": "time", "I": "spindle_current", "M": "spindle_torque", "n": "spindle_speed"})
    frame = frame.rename({f"v{axis}": f"feed_{axis}" for axis in "xyz"})
    name = str(draw.choice(frame.columns))
    way = int(draw.integers(0, 6))
    if way == 0:
        frame = frame.drop(name)
    elif way == 1:
        odd = draw.choice(np.array([np.nan, np.inf, -np.inf, 1e308, 0.0]), ROWS)
        frame = frame.with_columns(pl.Series(name, odd))
    elif way == 2:
        frame = frame.with_columns(pl.Series(name, [str(draw.choice(ODD)) for _ in range(ROWS)]))
    elif way == 3:
        frame = frame.head(int(draw.integers(0, 4)))
    path = folder / "table.parquet"
    frame.write_parquet(path)
    if way == 4:
        import pyarrow.parquet as pq

        arrow = pq.read_table(path)
        content = spoil_tree({"schema": {"name": "x"}, "period": 1.0, "manifest": {}}, draw)
        text = json.dumps(content, default=str) if draw.random() < 0.7 else str(draw.choice(ODD))
        pq.write_table(arrow.replace_schema_metadata({b"crossfeed": text.encode("utf-8", "replace")}), path)
    elif way == 5:
        path.write_bytes(spoil_bytes(path.read_bytes(), draw))
    out = [str(folder / "a.parquet"), str(folder / "b.parquet")]
    words = [
        ["audit", str(path)], ["data", "show", str(path)], ["data", "divide", str(path), *out, "--last", "1"],
        ["audit", str(path), "--json"],
    ][int(draw.integers(4))]  # fmt: skip
    return Case("tables", words)


def plans(folder: Path, draw: Draw) -> Case:
    """Plans as tables and as NC programs."""
    if draw.random() < 0.5:
        content = spoil_bytes(PROGRAM.encode(), draw)
        (folder / "part.mpf").write_bytes(content)
        return Case("plans", ["program", str(folder / "part.mpf"), "--csv", str(folder / "plan.csv")])
    frame = pl.DataFrame({"time": np.arange(1.0, 9.0)} | {n: draw.normal(9, 1, 8) for n in ("spindle_speed", "feed_x")})
    if draw.random() < 0.3:
        frame = frame.rename({str(draw.choice(frame.columns)): str(draw.choice(ODD)) + "x"})
    (folder / "plan.csv").write_bytes(spoil_bytes(frame.write_csv().encode(), draw))
    return Case("plans", [str(folder / "plan.csv")], inside=True)


def model_files(folder: Path, draw: Draw, model: bytes) -> Case:
    """Model files with damaged bytes; every part of them is hashed."""
    if draw.random() < 0.5:
        spoiled = spoil_bytes(model, draw)
    else:  # the length stays, so that only the hashes can tell
        data = np.frombuffer(model, dtype=np.uint8).copy()
        data[draw.integers(0, len(data), int(draw.integers(1, 4)))] ^= np.uint8(draw.integers(1, 256))
        spoiled = data.tobytes()
    (folder / "model.safetensors").write_bytes(spoiled)
    return Case("model files", ["inspect", str(folder)], must_fail=spoiled != model)


def archives(folder: Path, draw: Draw) -> Case:
    """Zip archives that are damaged, empty, foreign, or that hold far more than they weigh."""
    _write_mapping(folder)
    held = io.BytesIO()
    large = draw.random() < 0.1
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        text = log_frame(draw).write_csv()
        archive.writestr(str(draw.choice(["log.csv", "../log.csv", "deep/er/log.CSV", "read.me", "a.zip"])), text)
        if large:
            archive.writestr("large.csv", bytes(3_000_000))
    content = held.getvalue() if draw.random() < 0.3 or large else spoil_bytes(held.getvalue(), draw)
    (folder / "log.zip").write_bytes(content)
    case = _ingest(folder, "archives", "log.zip", must_fail=large)
    return Case(case.family, [*case.words, "--unpack-limit", "0.001"], large, case.out) if large else case


def mtconnect(folder: Path, draw: Draw) -> Case:
    """Device models, adapter lines and streams with damaged bytes."""
    lines = [f"2024-03-12T08:{s // 60:02d}:{s % 60:02d}Z|Xl|{s}|Xf|2|ex|ACTIVE" for s in range(100)]
    model, log = DEVICES.encode(), "\n".join(lines).encode()
    if draw.random() < 0.5:
        model = spoil_bytes(model, draw)
    else:
        log = spoil_bytes(log, draw)
    (folder / "Devices.xml").write_bytes(model)
    packed = draw.random() < 0.3
    name = "L-20240312.txt.gz" if packed else "L-20240312.txt"
    content = gzip.compress(log) if packed else log
    (folder / name).write_bytes(spoil_bytes(content, draw) if packed and draw.random() < 0.5 else content)
    return _ingest(folder, "mtconnect", name, kind="mtconnect")


def arguments(folder: Path, draw: Draw) -> Case:
    """Words that make no command: unknown options, values of the wrong kind, files that are not there."""
    missing, odd = str(folder / "missing"), str(draw.choice(ODD[1:-1]))
    starts: list[list[str]] = [
        ["ingest", "table", missing, missing + ".parquet", "--mapping", odd],
        ["ingest", odd, missing, missing + ".parquet"],
        ["ingest", "thws", missing, odd], ["audit", missing], ["audit", odd, "--only", odd], ["data", "show", missing],
        ["data", "show", odd], ["data", "divide", missing, missing, missing], ["data", "template", "--from", missing],
        ["program", missing], ["program", f"bundled:{odd}"], ["inspect", missing], ["report", missing],
        ["evaluate", missing, "--table", missing], ["adapt", missing, "--table", missing],
        ["forecast", missing, "--history", missing, "--commands", odd], ["train", "--table", missing, "--out", missing],
        ["train", "--out", missing, "--table", missing, "--set", odd], ["windows", missing, odd], ["compare", odd],
        ["simulate", missing, "--fleet", odd], ["simulate", missing, "--program", missing + ".mpf"],
        ["study", odd], ["study", "status", missing], [odd],
    ]  # fmt: skip
    words = starts[int(draw.integers(len(starts)))]
    if draw.random() < 0.3:
        words = [*words, f"--{draw.choice(['period', 'seed', 'nonsense', 'at', 'size', 'device', 'json'])}", odd]
    return Case("arguments", [word.replace("\x00", "") or "x" for word in words], must_fail=True)


FAMILIES: dict[str, tuple[float, Callable[..., Case]]] = {
    "files": (0.28, files), "mappings": (0.18, mappings), "templates": (0.08, templates), "tables": (0.12, tables),
    "plans": (0.1, plans), "model files": (0.06, model_files), "archives": (0.05, archives),
    "mtconnect": (0.06, mtconnect),
    "arguments": (0.07, arguments),
}  # fmt: skip


def draw_case(number: int, seed: int, folder: Path, model: bytes) -> Case:
    """The case of this number: its files are written, its words returned."""
    draw = np.random.default_rng([seed, number])
    weights = np.array([weight for weight, _ in FAMILIES.values()])
    name = list(FAMILIES)[int(draw.choice(len(FAMILIES), p=weights / weights.sum()))]
    make = FAMILIES[name][1]
    return make(folder, draw, model) if name == "model files" else make(folder, draw)
