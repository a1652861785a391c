"""Changing configurations by dotted names."""

from pathlib import Path

import pytest

from crossfeed.configuration import differences, leaves, override, parse_assignments, read_yaml
from crossfeed.errors import ConfigError
from crossfeed.training.config import TrainingConfig, mended_training
from crossfeed.training.run_config import preset


def test_nested_value_is_changed_and_the_rest_kept() -> None:
    changed = override(TrainingConfig(), parse_assignments(["health.rank_floor=0.2", "learning_rate=1e-3"]))
    assert changed.health.rank_floor == 0.2
    assert changed.learning_rate == 1e-3
    assert changed.batch_size == TrainingConfig().batch_size


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean batch_size"):
        override(TrainingConfig(), {"batchsize": 3})
    with pytest.raises(ConfigError, match=r"Did you mean health\.rank_floor"):
        override(TrainingConfig(), {"rank_flor": 3})


def test_hopeless_name_lists_where_names_begin() -> None:
    with pytest.raises(ConfigError, match="Known names begin with pretrain_epochs"):
        override(TrainingConfig(), {"zzz": 3})


def test_impossible_value_names_the_key() -> None:
    with pytest.raises(ConfigError, match="batch_size"):
        override(TrainingConfig(), {"batch_size": 1})


def test_contradiction_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="give at least one stage an epoch"):
        override(TrainingConfig(), {"pretrain_epochs": 0, "finetune_epochs": 0})
    with pytest.raises(ConfigError, match="body_fresh_head"):
        override(mended_training(), {"initialisation": "scratch", "finetune_epochs": 0})


@pytest.mark.parametrize("text", ["batch_size", "=3", " =3"])
def test_assignment_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="name=value"):
        parse_assignments([text])


def test_values_are_read_as_yaml() -> None:
    values = parse_assignments(["a=null", "b=[1, 2]", "c=true", "d=text=more"])
    assert values == {"a": None, "b": [1, 2], "c": True, "d": "text=more"}


def test_yaml_file_of_overrides(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("health:\n  windows: 64\npatience: 3\n")
    changed = override(TrainingConfig(), read_yaml(path), origin=str(path))
    assert (changed.health.windows, changed.patience) == (64, 3)


@pytest.mark.parametrize("content", ["- 1\n- 2\n", "a: [1\n", ""])
def test_unusable_yaml_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        read_yaml(path)


def test_missing_yaml_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        read_yaml(tmp_path / "missing.yaml")


def test_differences_name_both_values() -> None:
    other = TrainingConfig(seed=4, health={"windows": 99})
    assert differences(TrainingConfig(), other) == {"health.windows": (1024, 99), "seed": (0, 4)}


def test_leaves_are_dotted() -> None:
    assert leaves({"a": {"b": 1, "c": {"d": 2}}, "e": {}}) == {"a.b": 1, "a.c.d": 2, "e": {}}


def test_acceleration_can_be_switched_off_although_yaml_reads_off_as_false() -> None:
    config = override(preset("crossfeed", "tiny"), parse_assignments(["training.acceleration=off"]))
    assert config.training.acceleration == "off"


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_a_rate_that_is_no_finite_number_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="learning_rate"):
        override(TrainingConfig(), parse_assignments([f"learning_rate={value}"]))
