"""A source by its address: a growing file, `opc.tcp://`, `http://` (MTConnect), `mqtt://`."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from crossfeed.errors import ConfigError
from crossfeed.live.security import Credentials, Security
from crossfeed.live.source import LiveSource

SCHEMES = ("LOG.csv", "opc.tcp://HOST:4840", "http://HOST:5000", "mqtt://HOST:1883/TOPIC")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What an address does not say."""

    mapping: Path | None = None
    security: Security | None = None
    credentials: Credentials | None = None


def open_source(address: str, options: SourceOptions | None = None) -> LiveSource:
    """The source behind an address; it connects when it is opened."""
    options = options or SourceOptions()
    scheme, rest = _divided(address)
    if scheme == "file":
        from crossfeed.live.growing_file import GrowingFile

        return GrowingFile(Path(rest.removeprefix("//")), options.mapping)
    check_address(address)
    if scheme == "opc.tcp":
        from crossfeed.live.opcua import OpcUaSource

        return OpcUaSource(address, options.mapping, options.security, options.credentials)
    if scheme == "http":
        from crossfeed.live.mtconnect import MtconnectSource

        return MtconnectSource(address, options.mapping)
    if scheme == "mqtt":
        from crossfeed.live.mqtt import MqttSource

        return MqttSource(address, options.mapping, options.credentials)
    raise ConfigError(f"'{address}' is no address of a live source.", expected=f"one of {', '.join(SCHEMES)}")


def check_address(address: str) -> None:
    """Refuse secrets in an address, where every user of the computer sees them."""
    if urlsplit(address).password is not None:
        raise ConfigError(
            "The address holds a password.",
            expected="an address without one",
            remedy="Give it with --credentials FILE.",
        )


def _divided(address: str) -> tuple[str, str]:
    """The scheme of an address and the rest; the path of a file that is there needs none."""
    scheme, _, rest = address.partition(":")
    return ("file", address) if Path(address).is_file() else (scheme, rest)


async def discover_mapping(address: str, options: SourceOptions | None = None) -> str:
    """A proposed mapping for a source, as the text of a YAML file."""
    options = options or SourceOptions()
    scheme, rest = _divided(address)
    if scheme == "file":
        from crossfeed.machines.template import template_from

        return template_from(Path(rest.removeprefix("//")))
    source = open_source(address, options)
    if scheme == "http":
        from crossfeed.live.mtconnect import MtconnectSource
        from crossfeed.machines.template import template_from

        return await MtconnectSource(address).read_model(template_from)
    from crossfeed.live.mqtt import MqttSource
    from crossfeed.live.opcua import OpcUaSource

    assert isinstance(source, OpcUaSource | MqttSource)
    return f"# Proposed for {address}; check every line.\n{(await source.propose()).to_yaml()}"
