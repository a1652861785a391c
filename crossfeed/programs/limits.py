"""What the axes of a machine can do, as values or as a YAML file."""

from pathlib import Path

from pydantic import PositiveFloat, ValidationError

from crossfeed.configuration import CheckedForm, load_yaml, problems
from crossfeed.errors import ProgramError

Three = tuple[PositiveFloat, PositiveFloat, PositiveFloat]


class MotionLimits(CheckedForm):
    """Limits of the axes; the defaults suit a small five-axis machining center."""

    rapid: Three = (48_000.0, 48_000.0, 48_000.0)  # X, Y, Z in mm/min
    acceleration: Three = (5_000.0, 5_000.0, 5_000.0)  # X, Y, Z in mm/s^2
    corner_tolerance: PositiveFloat = 0.02  # mm
    rotary_speed: Three = (18_000.0, 18_000.0, 24_000.0)  # A, B, C in deg/min
    rotary_acceleration: Three = (600.0, 600.0, 900.0)  # A, B, C in deg/s^2
    tool_change: PositiveFloat = 6.0  # s
    spindle_speed: PositiveFloat = 20_000.0  # rpm
    spindle_acceleration: PositiveFloat | None = 8_000.0  # rpm/s; None lets cuts begin without waiting


def read_motion_limits(path: Path | str) -> MotionLimits:
    """Read limits from a YAML file; what it leaves out keeps its default."""
    try:
        return MotionLimits.model_validate(load_yaml(path, "The limits file", ProgramError) or {})
    except ValidationError as error:
        raise ProgramError(
            f"{path} holds no valid motion limits: {problems(error, 'file')}.",
            expected=f"some of {', '.join(MotionLimits.model_fields)}, all above zero",
        ) from error
