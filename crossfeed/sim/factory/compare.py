"""Can a classifier tell the fleet from a real log, and by what? What gives it away is what the generator must mend."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from crossfeed.errors import ConfigError, need
from crossfeed.logs.table import Table
from crossfeed.sim.factory.describe import FEATURES, WindowFeatures, window_features
from crossfeed.sim.factory.motors import fleet_schema
from crossfeed.sim.factory.shards import fleet_tables
from crossfeed.sim.physics.parameters import Floats

_FOLDS = 5
_MOST_FLEET_WINDOWS = 12  # of each machine and channel
_MOST_REAL_WINDOWS = 300  # of each channel


@dataclass(frozen=True, slots=True)
class FeatureGap:
    """One feature in the real log and in the fleet."""

    name: str
    auc: float  # of this feature alone, 0.5 = says nothing
    real: float  # median over windows
    low: float  # of the fleet's machines, the lowest twentieth
    middle: float
    high: float


@dataclass(frozen=True)
class FleetComparison:
    """How well windows of the fleet can be told from windows of a real log; 0.5 means not at all."""

    machine: str
    period: float
    channels: tuple[str, ...]
    real_windows: int
    fleet_windows: int
    fleet_machines: int
    auc: float
    gaps: tuple[FeatureGap, ...]  # the most telling first

    @property
    def inside(self) -> float:
        """Share of the features whose real median lies within what nine of ten simulated machines show."""
        return float(np.mean([gap.low <= gap.real <= gap.high for gap in self.gaps]))


def compare_with_real(folder: Path | str, real: Table, renamed: dict[str, str] | None = None) -> FleetComparison:
    """Train trees to tell the two apart, on channels of one name; `renamed` maps real names to the fleet's."""
    names = {real_name: (renamed or {}).get(real_name, real_name) for real_name in real.schema.sensor_names}
    present = dict(zip(real.schema.sensor_names, real.present(), strict=True))
    shared = {name: other for name, other in names.items() if other in fleet_schema().sensor_names and present[name]}
    if not shared:
        raise ConfigError(
            "The table and the fleet have no sensor in common.",
            expected=f"some of {', '.join(fleet_schema().sensor_names[:6])}, ...",
            remedy="Rename channels with --rename spindle_temp=spindle_motor_temp.",
        )
    genuine = window_features(_four_commands(real), tuple(shared), _MOST_REAL_WINDOWS)
    fleet = _fleet_windows(folder, real.period, tuple(shared.values()))
    machines = [window.machine for window in fleet]
    details = sorted({window.detail for window in genuine + fleet})
    inputs = np.array([[*window.features, details.index(window.detail)] for window in genuine + fleet])
    label = np.concatenate([np.ones(len(genuine)), np.zeros(len(fleet))])
    fold = np.concatenate([_folds(_parts(genuine)), _folds(machines)])
    scores = _out_of_fold(inputs, label, fold)
    gaps = [_gap(name, inputs[:, index], len(genuine), machines) for index, name in enumerate(FEATURES)]
    return FleetComparison(
        machine=", ".join(real.machines()),
        period=real.period,
        channels=tuple(shared.values()),
        real_windows=len(genuine),
        fleet_windows=len(fleet),
        fleet_machines=len(set(machines)),
        auc=area_under_curve(scores, label > 0),
        gaps=tuple(sorted(gaps, key=lambda gap: -abs(gap.auc - 0.5))),
    )


def area_under_curve(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Probability that a positive one scores higher than a negative one."""
    return float(mannwhitneyu(scores[positive], scores[~positive]).statistic / (positive.sum() * (~positive).sum()))


def _four_commands(real: Table) -> Table:
    """The real table with spindle speed and three feeds as its only commands, as the fleet has them."""
    wanted = fleet_schema().command_names
    missing = [name for name in wanted if name not in real.schema.command_names]
    if missing:
        raise ConfigError(f"The table has no command {', '.join(missing)}.", expected=", ".join(wanted))
    columns = [real.schema.command_names.index(name) for name in wanted]
    commands = tuple(real.schema.commands[column] for column in columns)
    schema = real.schema.model_copy(update={"commands": commands})
    return replace(real, schema=schema, commands=real.commands[:, columns])


def _fleet_windows(folder: Path | str, period: float, channels: tuple[str, ...]) -> list[WindowFeatures]:
    """Windows of the fleet's machines with the real log's period."""
    windows = [
        window
        for table in fleet_tables(folder, period)
        for window in window_features(table, channels, _MOST_FLEET_WINDOWS)
    ]
    if not windows:
        raise ConfigError(f"The fleet has no machine with a row every {period:g} s.", remedy="Generate more machines.")
    return windows


def _parts(genuine: Sequence[WindowFeatures]) -> Sequence[str]:
    """What of a real log is held out together: its runs, or fifths of a log with fewer."""
    runs, rows = [window.run for window in genuine], [window.row for window in genuine]
    return runs if len(set(runs)) >= _FOLDS else [str(row * _FOLDS // (max(rows) + 1)) for row in rows]


def _folds(groups: Sequence[str]) -> NDArray[np.int64]:
    """A fold for each window; those of a group share it, and every fold has groups of both sides."""
    names = list(dict.fromkeys(groups))
    order = np.random.default_rng(0).permutation(len(names)) % _FOLDS
    return np.array([order[names.index(group)] for group in groups])


def _out_of_fold(inputs: Floats, label: Floats, fold: NDArray[np.int64]) -> Floats:
    """Scores from trees that never saw the run or machine they score; both sides weigh the same."""
    classifier = need("lightgbm", "Comparing", "trees").LGBMClassifier
    weight = np.where(label > 0, 0.5 / label.mean(), 0.5 / (1 - label.mean()))
    scores = np.zeros(len(label))
    for number in range(_FOLDS):
        held = fold == number
        if not held.any():
            continue
        trees = classifier(n_estimators=150, num_leaves=15, min_child_samples=20, n_jobs=1, verbose=-1, random_state=0)
        trees.fit(inputs[~held], label[~held], sample_weight=weight[~held], categorical_feature=[inputs.shape[1] - 1])
        scores[held] = np.asarray(trees.predict_proba(inputs[held]))[:, 1]
    return scores


def _gap(name: str, values: Floats, real_count: int, machines: Sequence[str]) -> FeatureGap:
    """One feature: how telling it is alone, and where the real median lies among the machines of the fleet.

    The first `real_count` values are the real log's.
    """
    fleet, machine = values[real_count:], np.array(machines)
    medians = [float(np.median(fleet[machine == each])) for each in dict.fromkeys(machines)]
    low, middle, high = np.percentile(medians, [5, 50, 95]).tolist()
    auc = area_under_curve(values, np.arange(len(values)) < real_count)
    return FeatureGap(name, auc, float(np.median(values[:real_count])), low, middle, high)
