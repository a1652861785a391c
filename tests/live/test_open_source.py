"""Addresses: each scheme finds its source, and what is no address is refused with one that is."""

from pathlib import Path

import pytest
import yaml

from crossfeed.errors import ConfigError
from crossfeed.live.mtconnect import MtconnectSource
from crossfeed.live.open_source import GrowingFile, SourceOptions, discover_mapping, open_source
from tests.live.conftest import LIMIT_S, Shop, within


def test_each_scheme_finds_its_source(shop: Shop) -> None:
    found = open_source("file:log.csv", SourceOptions(mapping=shop.mapping))
    assert isinstance(found, GrowingFile)
    assert found.path == Path("log.csv")
    assert isinstance(open_source("http://127.0.0.1:5000"), MtconnectSource)


def test_the_plain_path_of_a_growing_log_was_refused(shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "Fräse: heute.csv"
    log.write_text(shop.header(), encoding="utf-8")
    found = open_source(str(log), SourceOptions(mapping=shop.mapping))
    assert isinstance(found, GrowingFile)
    assert found.path == log
    assert "columns:" in within(LIMIT_S, lambda: discover_mapping(str(shop_log(shop, tmp_path))))


def shop_log(shop: Shop, folder: Path) -> Path:
    """A log with some rows."""
    log = folder / "log.csv"
    log.write_text(shop.header() + shop.lines(0, 20), encoding="utf-8")
    return log


@pytest.mark.parametrize("address", ["ftp://host", "nonsense", "opc:4840"])
def test_an_unknown_scheme_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="no address of a live source"):
        open_source(address)


def test_a_file_without_a_mapping_says_how_to_get_one() -> None:
    with pytest.raises(ConfigError) as caught:
        open_source("file:log.csv")
    assert "crossfeed live discover file:log.csv" in caught.value.remedy


def test_a_growing_file_without_a_clock_is_refused(shop: Shop, tmp_path: Path) -> None:
    content = yaml.safe_load(shop.mapping.read_text(encoding="utf-8")) | {"time": {"every": "0.1 s"}}
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a row comes every 0.1 s"):
        open_source("file:log.csv", SourceOptions(mapping=tmp_path / "mapping.yaml"))


def test_a_mapping_is_proposed_for_a_file(shop: Shop, tmp_path: Path) -> None:
    assert "columns:" in within(LIMIT_S, lambda: discover_mapping(f"file:{shop_log(shop, tmp_path)}"))
