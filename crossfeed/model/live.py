"""Forecasting beside a running machine: one new row in, all horizons out, from weights laid out for a CPU.

K context rows, S new rows, C sensors, A commands, T planned steps."""

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from crossfeed.errors import CheckpointError, ConfigError, TableError
from crossfeed.model.forecast import Forecast, read_commands, to_forecast
from crossfeed.model.interface import Context, PackedPrecision, Plan, Rows
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.model.sensors.head import MixtureHead
from crossfeed.model.sensors.members import MemberLinear
from crossfeed.model.world_model import WorldModel
from crossfeed.processes import wide_products
from crossfeed.rows import check_horizons, check_plausible

SMALLEST_WIDTH = 64  # below, rearranging costs more than it saves


class PackedLinear(nn.Module):
    """A linear layer that can only be applied, with what follows it: its weight is opaque and not part of any state."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor, precision: PackedPrecision, then: str = "none") -> None:
        super().__init__()
        self.dtype, self._then = torch.bfloat16 if precision == "bfloat16" else torch.float32, then
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach().to(self.dtype))
        self._bias = bias_O.detach().to(self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.to(self.dtype), self._weight, self._bias, self._then, [], "none"
        )
        return y.to(x.dtype)

    def state_dict(self, *_: Any, **__: Any) -> NoReturn:
        raise CheckpointError("A packed model cannot be saved.", remedy="Save the model it was packed from.")


class PackedMembers(nn.Module):
    """Linear maps of several members, one after another with GELU in between, for each member in turn."""

    def __init__(self, maps: Sequence[MemberLinear], precision: PackedPrecision) -> None:
        super().__init__()
        ends = ["gelu"] * (len(maps) - 1) + ["none"]
        self._members = nn.ModuleList(
            nn.Sequential(
                *(PackedLinear(one.weight[number], one.bias[number], precision, end) for one, end in zip(maps, ends))
            )
            for number in range(len(maps[0].weight))
        )
        self._dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32

    def forward(self, x_EI: Tensor) -> Tensor:
        said = [member(x_I) for member, x_I in zip(self._members, x_EI.to(self._dtype), strict=True)]
        return torch.stack(said).to(x_EI.dtype)


def packed(model: WorldModel, precision: PackedPrecision = "float32") -> WorldModel:
    """A copy of the model for forecasting; the model itself where its weights cannot or need not be packed."""
    available: Callable[[], bool] = torch.backends.mkldnn.is_available
    already = any(isinstance(module, PackedLinear) for module in model.modules())
    if already or model.device.type != "cpu" or not available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return model
    if precision == "bfloat16" and not has_bfloat16():
        raise ConfigError(
            "This CPU cannot read weights packed in bfloat16.",
            expected="a CPU with avx_ne_convert, or with avx512bw, avx512vl and avx512dq",
            remedy="Use precision 'float32' here.",
        )
    if not model.packed_parts(precision):
        return model
    twin = copy.deepcopy(model).eval().requires_grad_(False)
    for part in twin.packed_parts(precision):
        _pack(part, precision)
    return twin


def has_bfloat16() -> bool:
    """Whether this CPU has the instructions for packed bfloat16 weights."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _pack(module: nn.Module, precision: PackedPrecision) -> None:
    for name, child in module.named_children():
        maps = [
            one for one in (child if isinstance(child, nn.Sequential) else [child]) if isinstance(one, MemberLinear)
        ]
        if maps:
            setattr(module, name, PackedMembers(maps, precision))
        elif isinstance(child, nn.Linear) and child.in_features >= SMALLEST_WIDTH:
            setattr(module, name, PackedLinear(child.weight, child.bias, precision))
        elif not isinstance(child, MixtureHead):
            _pack(child, precision)


class LiveForecaster:
    """Keeps the last K rows as the model read them, so that a new row costs one row and another plan none.

    Without instance normalisation what was read never expires and forecasts are exact. With it, the level of the
    window moves with every row and with it all that was read: at `tolerance` 0 all rows are read again, exact and some
    three times slower; above 0 the level is held, for input and output alike, until that of a sensor has moved by more
    than `tolerance` z-units. `bfloat16` is quicker on CPUs that have units for it and costs about 0.01 standard
    deviations; benchmarks/forecast.md has the figures. The default network is not asked about sensors that none of the
    rows shows: it expects them at their mean. `WorldModel.forecast` guesses them from the others.
    """

    def __init__(self, model: WorldModel, tolerance: float = 0.0, precision: PackedPrecision = "float32") -> None:
        if tolerance < 0.0:
            raise ConfigError(f"A tolerance of {tolerance} makes no sense.", expected="0 (exact) or a small number")
        self.model, self.tolerance = packed(model.eval(), precision), tolerance
        self._logged: deque[tuple[Tensor, Tensor]] = deque(maxlen=model.config.context)
        self._rows: Rows | None = None
        self._context: Context | None = None
        self._shown: tuple[bool, ...] = ()
        self._unread = 0

    @property
    def missing_rows(self) -> int:
        """How many more rows are needed before the first forecast."""
        return self.model.config.context - len(self._logged)

    def reset(self) -> None:
        """Forget the rows, for instance after a gap in the log."""
        self._logged.clear()
        self._rows, self._context, self._unread = None, None, 0

    def push(self, row: Mapping[str, float | None]) -> None:
        """Take the newest row: any subset of the sensors, and every command; the next row comes one period later."""
        schema, normaliser = self.model.schema, self.model.normaliser
        x = np.array([_number(row, name) for name in schema.sensor_names])
        a = np.array([_number(row, name) for name in schema.command_names])
        if not np.isfinite(a).all():
            missing = [name for name, value in zip(schema.command_names, a) if not np.isfinite(value)]
            raise TableError(f"The row lacks the commands {', '.join(missing)}.", expected="a value of every command")
        x, a = normaliser.transform_sensors(x), normaliser.transform_commands(a)
        check_plausible(x, schema.sensor_names, "row")
        check_plausible(a, schema.command_names, "row")
        x_C, a_A = (torch.from_numpy(values.astype(np.float32)).to(self.model.device) for values in (x, a))
        self._logged.append((x_C, a_A))
        self._unread += 1
        self._context = None

    def window(self) -> tuple[Tensor, Tensor]:
        """The rows as the model reads them: sensors (1, K, C), NaN where absent, and commands (1, K, A)."""
        if self.missing_rows:
            raise TableError(
                f"Only {len(self._logged)} rows were pushed.",
                expected=f"{self.model.config.context}, the context of this model",
                remedy=f"Push {self.missing_rows} more.",
            )
        x_1KC, a_1KA = (torch.stack(column).unsqueeze(0) for column in zip(*self._logged, strict=True))
        if not bool(x_1KC.isfinite().any()):
            raise TableError(
                "None of the rows has a value of a sensor of the model.",
                expected=f"some of {', '.join(self.model.schema.sensor_names)}",
            )
        return x_1KC, a_1KA

    @wide_products()
    @torch.inference_mode()
    def forecast(self, commands: Any, horizons: Sequence[int] | None = None) -> Forecast:
        """What the machine will do from now on under the planned commands."""
        x_1KC, a_1KA = self.window()
        asked = self.model.horizons if horizons is None else check_horizons(horizons)
        future_1TA = read_commands(self.model, commands, asked)
        present_C = x_1KC[0].isfinite().any(0)
        # Another plan for the same rows is asked of what was already read.
        if self._context is None:
            shown = tuple(present_C.tolist())
            self._rows = self._rows if shown == self._shown else None
            self._rows = self._read(x_1KC, self.model.channels_to_read(present_C, absent_too=False))
            self._shown, self._unread = shown, 0
            self._context = self.model.context(self._rows, a_1KA)
        said = self.model.decode(self._context, Plan.under(future_1TA, asked)).distribution
        return to_forecast(self.model, said, asked, present_C, single=True)

    def _read(self, x_1KC: Tensor, channels: Tensor | None) -> Rows:
        """The rows of the window; only new ones are read while the level stays where it is held."""
        level, size = self.model.level(x_1KC, x_1KC.isfinite()), x_1KC.shape[1]
        kept = None if self._rows is None or self._moved(level, self._rows.level) else self._rows
        if kept is None or self._unread >= size:
            return self.model.read(x_1KC, x_1KC.isfinite(), level, channels)
        if not self._unread:
            return kept
        x_1SC = x_1KC[:, -self._unread :]
        rows = kept.followed_by(self.model.read(x_1SC, x_1SC.isfinite(), kept.level, channels))
        return rows.window(len(rows) - size, len(rows))

    def _moved(self, level: Statistics | None, held: Statistics | None) -> bool:
        """Whether centre or scale of any channel differ from the held ones by more than the tolerance."""
        if level is None or held is None:
            return False
        centre = (level.centre_BC - held.centre_BC).abs().max()
        scale = (level.scale_BC - held.scale_BC).abs().max()
        return bool(torch.maximum(centre, scale) > self.tolerance)


def _number(row: Mapping[str, float | None], name: str) -> float:
    value = row.get(name)
    try:
        number = float("nan") if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise TableError(f"The row's '{name}' is {value!r}.", expected="a number, or null") from error
    if np.isinf(number):
        raise TableError(f"The row's '{name}' is infinite.", expected="a finite number, or null")
    return number
