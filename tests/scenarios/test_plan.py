from pathlib import Path

import numpy as np
import pytest

from crossfeed.errors import ProgramError, SchemaError, TableError
from crossfeed.front.fitted_model import what_if
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import read_program
from crossfeed.programs.plan import plan
from crossfeed.programs.trajectory import write_commands
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.plan import Overrides, plan_program, read_plans
from crossfeed.schema import Channel, Schema
from tests.evaluation.small_machine import SCHEMA
from tests.scenarios.conftest import Place

PART = "G90 G54\nT1 M6\nS2000 M3\nG0 X0 Y0 Z5\nG1 Z0 F200\nX60 F600\nX0\nM5\nM30\n"
ZEROS = np.zeros(2)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    path = tmp_path / "part.nc"
    path.write_text(PART)
    return path


@pytest.fixture
def history(place: Place) -> History:
    return read_history(place.table, place.opened.model)


def test_a_program_and_its_exported_commands_give_the_same_forecast(place: Place, part: Path, tmp_path: Path) -> None:
    trajectory = plan(read_program(part))
    write_commands(trajectory.sample(1.0, "mean"), trajectory.tools, tmp_path / "part.csv")
    answer = what_if(place.model, place.log, [part, tmp_path / "part.csv"], samples=20, device="cpu")
    np.testing.assert_allclose(answer.paths["part.nc"], answer.paths["part.csv"], atol=1e-4)
    assert answer.to_dict()["comparisons"][0]["mean"] == pytest.approx(0.0, abs=1e-4)


def test_overrides_stretch_time_and_raise_speeds(history: History, part: Path) -> None:
    plain, slow, fast = read_plans([part, f"{part}@feed=50", f"{part}@feed=50%,spindle=120"], history)
    assert [item.name for item in (plain, slow, fast)] == ["part.nc", "part.nc@feed=50", "part.nc@feed=50%,spindle=120"]
    assert len(slow) > 1.3 * len(plain)
    for item in (plain, slow):
        assert item.commands[:, 0].max() == pytest.approx(2000.0)
    assert fast.commands[:, 0].max() == pytest.approx(2400.0)
    # The option is the default of every program; a plan's own override wins.
    option, own = read_plans([part, f"{part}@feed=100"], history, Overrides(feed=50.0))
    np.testing.assert_array_equal(option.commands, slow.commands)
    np.testing.assert_array_equal(own.commands, plain.commands)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@feed=fast", "override 'feed=fast' cannot be read"),
        ("@speed=80", "There is no override 'speed'"),
        ("@feed=0.8", "0.8 % was asked for.*write 80"),
        ("@feed=nan", "nan % was asked for"),
    ],
)
def test_a_bad_override_is_named(history: History, part: Path, text: str, said: str) -> None:
    import re

    with pytest.raises(ProgramError) as found:
        read_plans([f"{part}{text}"], history)
    assert re.search(said, str(found.value), re.DOTALL)


def test_overrides_belong_to_programs(history: History) -> None:
    with pytest.raises(TableError, match="overrides with an NC program"):
        read_plans(["plan.csv@feed=80"], history)
    with pytest.raises(TableError, match="overrides with an NC program"):
        read_plans(["table@spindle=80"], history)


def test_units_of_the_schema_are_met(part: Path) -> None:
    commands = (
        Channel(name="feed_x", quantity="feed", unit="m/min"),
        Channel(name="spindle_speed", quantity="rotational speed", unit="deg/s"),
    )
    other = Schema(name="other", sensors=SCHEMA.sensors, commands=commands)
    here, _ = plan_program(str(part), SCHEMA, 1.0, Overrides(), MotionLimits(), ZEROS)
    there, _ = plan_program(str(part), other, 1.0, Overrides(), MotionLimits(), ZEROS)
    np.testing.assert_allclose(there, here[:, ::-1] * [0.001, 6.0])


def test_a_program_follows_the_period_of_the_history(part: Path) -> None:
    slow, _ = plan_program(str(part), SCHEMA, 1.0, Overrides(), MotionLimits(), ZEROS)
    quick, _ = plan_program(str(part), SCHEMA, 0.5, Overrides(), MotionLimits(), ZEROS)
    whole = len(quick) // 2 * 2
    np.testing.assert_allclose(quick[:whole].reshape(-1, 2, 2).mean(1), slow[: whole // 2], atol=1e-6)


def test_a_command_that_no_program_tells_is_named(part: Path) -> None:
    coolant = Channel(name="coolant", quantity="flow", unit="L/min")
    other = Schema(name="wet", sensors=SCHEMA.sensors, commands=(*SCHEMA.commands, coolant))
    with pytest.raises(SchemaError, match="does not tell the commands coolant"):
        plan_program(str(part), other, 1.0, Overrides(), MotionLimits(), np.zeros(3))


def test_what_stays_unclear_becomes_a_warning(history: History, tmp_path: Path) -> None:
    path = tmp_path / "unclear.mpf"
    path.write_text('S30000 M4\nMSG("hello")\nPOCKET4(1,2)\nG1 X30 F400\nX=UNKNOWN\nM30\n')
    (found,) = read_plans([path], history)
    remarks = " ".join(found.warnings)
    assert "above the spindle's 20000 rpm" in remarks
    assert "not understood, the first is line" in remarks
    assert "POCKET4 x1" in remarks
    assert "MSG" not in remarks
    assert "counts speeds without sign" in remarks
    assert found.commands[:, 0].min() >= 0.0
    signed, remarks_signed = plan_program(str(path), SCHEMA, 1.0, Overrides(), MotionLimits(), np.array([-9.0, 0.0]))
    assert signed[:, 0].min() < 0.0
    assert not any("without sign" in remark for remark in remarks_signed)


def test_bundled_programs_have_names(history: History) -> None:
    (found,) = read_plans(["bundled:bracket"], history)
    assert (found.name, found.origin) == ("bracket", "program")
    with pytest.raises(ProgramError, match="no bundled program 'unknown'"):
        read_plans(["bundled:unknown"], history)


@pytest.mark.parametrize(("value", "said"), [(1.0, None), (1000.0, None), (0.99, "write 99"), (1000.1, "1 to 1000")])
def test_an_override_lies_between_one_and_a_thousand_per_cent(value: float, said: str | None) -> None:
    if said is None:
        assert Overrides(feed=value).feed == value
    else:
        with pytest.raises(ProgramError, match=said):
            Overrides(spindle=value)


def test_only_a_factor_is_answered_with_its_per_cents() -> None:
    for value in (1000.1, 0.0, -0.5):
        with pytest.raises(ProgramError) as found:
            Overrides(rapid=value)
        assert "For a factor" not in str(found.value)


def test_an_override_of_rapids_makes_only_rapids_slower(history: History, tmp_path: Path) -> None:
    path = tmp_path / "rapids.nc"
    path.write_text("G90 G54\nT1 M6\nS2000 M3\nG0 X0 Y0 Z5\nG0 X400\nG1 X390 F600\nM30\n")
    plain, slow = read_plans([path, f"{path}@rapid=20"], history)
    assert len(slow) > len(plain)
    assert np.abs(slow.commands[:, 1]).sum() == pytest.approx(np.abs(plain.commands[:, 1]).sum(), rel=0.02)
