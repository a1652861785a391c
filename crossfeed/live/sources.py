"""A source by its address: `file:`, `opc.tcp://`, `http://` (MTConnect), `mqtt://`."""

from dataclasses import dataclass
from pathlib import Path

from crossfeed.errors import ConfigError
from crossfeed.live.source import Source

SCHEMES = ("file:LOG.csv", "opc.tcp://HOST:4840", "http://HOST:5000", "mqtt://HOST:1883/TOPIC")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What an address does not say."""

    mapping: Path | None = None


def open_source(address: str, options: SourceOptions | None = None) -> Source:
    """The source behind an address; it connects when it is opened."""
    options = options or SourceOptions()
    scheme, _, rest = address.partition(":")
    if scheme == "file":
        from crossfeed.live.growing_file import GrowingFile

        return GrowingFile(Path(rest.removeprefix("//")), options.mapping)
    if not rest and Path(address).exists():
        raise ConfigError(f"'{address}' is no address.", expected=f"file:{address}")
    raise ConfigError(f"'{address}' is no address of a live source.", expected=f"one of {', '.join(SCHEMES)}")
