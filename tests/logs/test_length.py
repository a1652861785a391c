"""The length of a table follows from the rows that were logged, whatever a clock says."""

import polars as pl
import pytest
import yaml

from crossfeed.errors import LogError
from crossfeed.logs.mapped_logs import mapped_format
from crossfeed.logs.pipeline import ingest

MAPPING = {
    "machine": "lathe",
    "schema": {
        "name": "lathe",
        "sensors": [{"name": "power", "quantity": "power", "unit": "kW"}],
        "commands": [{"name": "speed", "quantity": "rotational speed", "unit": "rpm"}],
    },
    "time": {"column": "t", "unit": "s"},
    "columns": [
        {"native": "P", "channel": "power", "unit": "kW"},
        {"native": "n", "channel": "speed", "unit": "rpm"},
    ],
}


@pytest.fixture
def table_of(tmp_path):
    """Ingest a log with these time stamps by a mapping with these changes."""

    def make(seconds, **changes):
        (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(MAPPING | changes))
        frame = pl.DataFrame(
            {"t": [float(second) for second in seconds], "P": [1.0] * len(seconds), "n": [900.0] * len(seconds)}
        )
        frame.write_csv(tmp_path / "log.csv")
        return ingest(mapped_format(tmp_path / "mapping.yaml"), tmp_path / "log.csv")

    return make


def test_a_pause_of_ten_hours_in_a_mapping_without_segmentation_became_36_000_invented_rows(table_of) -> None:
    table = table_of([*range(100), *range(36_100, 36_200)])
    assert [len(group) for group in table.groups] == [100, 100]
    assert table.manifest["findings"] == ["no gap_s is stated, so a session ends at a pause of more than 10 s"]


def test_a_log_that_is_slower_than_the_table_is_not_torn_apart(table_of) -> None:
    table = table_of([15 * step for step in range(20)])
    assert [len(group) for group in table.groups] == [286]
    assert table.manifest["findings"] == []


def test_a_clock_that_jumps_by_a_billion_seconds_asked_for_a_billion_rows(table_of) -> None:
    with pytest.raises(LogError, match=r"has 200 logged rows, .* 1,000,000,\d+ rows of 1 s; .* from 99 s to 2001-09"):
        table_of([*range(100), *(1e9 + second for second in range(100))], segmentation={"gap_s": 1e12})


def test_a_period_far_below_the_step_of_the_log_is_refused_before_the_rows_are_made(table_of) -> None:
    with pytest.raises(LogError, match="choose a longer period"):
        table_of(list(range(1000)), period=0.001)


def test_stamps_beyond_all_calendars_are_no_times(table_of) -> None:
    table = table_of([*range(100), 9e300, -9e300])
    assert table.manifest["counts"]["dropped_rows"] == {"no readable time": 2}
