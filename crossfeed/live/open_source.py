"""A source by its address (a file, `http://`, `opc.tcp://`, `mqtt://`), who we are and whom we trust.

Secrets come from a file or the environment, never from the command line, which everybody may read. For OPC UA
certificates are really checked. A CSV file that a logger is still writing is read through its rotations, every whole
line once, with ingest's own reader.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import yaml

from crossfeed.errors import ConfigError, LogError, need
from crossfeed.files import temporary_file
from crossfeed.live.source import RUN, Arrival, LiveSource, Mark, Notice, Sample
from crossfeed.logs.declaration import CLOCK, LogFormat
from crossfeed.logs.delimited import sniff
from crossfeed.logs.mapped_logs import log_format_of
from crossfeed.logs.mapping import Mapping as LogMapping
from crossfeed.show.tables import plural

USER, PASSWORD = "CROSSFEED_LIVE_USER", "CROSSFEED_LIVE_PASSWORD"
Policy = Literal["Basic256Sha256", "Aes256Sha256RsaPss"]
APPLICATION_URI = "urn:crossfeed:live"
SCHEMES = ("LOG.csv", "opc.tcp://HOST:4840", "http://HOST:5000", "mqtt://HOST:1883/TOPIC")


@dataclass(frozen=True)
class Credentials:
    """A user and a password that no message ever shows."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


def read_credentials(path: Path | None) -> Credentials | None:
    """From a YAML file with `user` and `password` that only its owner may read, or from the environment, or none."""
    if path is None:
        user, password = os.environ.get(USER), os.environ.get(PASSWORD)
        if (user is None) != (password is None):
            raise ConfigError(f"Only one of {USER} and {PASSWORD} is set.", expected="both, or none")
        return Credentials(user, password) if user is not None and password is not None else None
    try:
        open_to_others = path.stat().st_mode & 0o077
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:  # what YAML says quotes the file, so perhaps the password
        raise ConfigError(f"The credentials {path} cannot be read.", expected="a YAML file") from error
    if open_to_others:
        raise ConfigError(f"Others may read the credentials {path}.", remedy=f"chmod 600 {path}")
    if not isinstance(content, dict) or set(content) != {"user", "password"}:
        raise ConfigError(f"{path} does not hold credentials.", expected="'user' and 'password', nothing else")
    return Credentials(str(content["user"]), str(content["password"]))


@dataclass(frozen=True, slots=True)
class Security:
    """Which policy, who we are, and whom we trust: certificates of servers, or of authorities that signed them."""

    policy: Policy
    certificate: Path
    key: Path
    trust: Path


def read_security(
    policy: str | None, certificate: Path | None, key: Path | None, trust: Path | None
) -> Security | None:
    """All four, or none of them."""
    given = [part for part in (policy, certificate, key, trust) if part is not None]
    if not given:
        return None
    if policy not in get_args(Policy):
        raise ConfigError(f"There is no security policy '{policy}'.", expected=f"one of {', '.join(get_args(Policy))}")
    if certificate is None or key is None or trust is None:
        raise ConfigError(
            "A secured connection needs to know who we are and whom we trust.",
            expected="--certificate, --key and --trust together with --security",
            remedy="`crossfeed live certificate FOLDER` makes a certificate; the server's goes into the trust folder.",
        )
    for path in (certificate, key):
        if not path.is_file():
            raise ConfigError(f"There is no file {path}.", expected="a certificate and its private key")
    if not trust.is_dir() or not any(trust.iterdir()):
        raise ConfigError(
            f"The trust list {trust} is empty.", expected="a folder with the server's certificate (.der or .pem)"
        )
    return Security(policy, certificate, key, trust)  # type: ignore[arg-type]


async def secure(client: Any, security: Security) -> None:
    """Sign and encrypt, and refuse a server whose certificate is expired, for another purpose, or not trusted."""
    policies = need("asyncua.crypto.security_policies", "OPC UA", "live")
    validation = need("asyncua.crypto.validator", "OPC UA", "live")
    stores = need("asyncua.crypto.truststore", "OPC UA", "live")
    ua = need("asyncua", "OPC UA", "live").ua
    store = stores.TrustStore([security.trust], [])
    await store.load()
    options = validation.CertificateValidatorOptions
    wanted = options.TIME_RANGE | options.EXT_KEY_USAGE | options.TRUSTED | options.REVOKED | options.PEER_SERVER
    client.certificate_validator = validation.CertificateValidator(wanted, store).validate
    client.application_uri = APPLICATION_URI
    await client.set_security(
        getattr(policies, f"SecurityPolicy{security.policy}"),
        str(security.certificate),
        str(security.key),
        mode=ua.MessageSecurityMode.SignAndEncrypt,
    )


async def make_certificate(folder: Path, uri: str = APPLICATION_URI, server: bool = False) -> tuple[Path, Path]:
    """A self-signed certificate and its key, for a start; a shop with an authority of its own has that sign one."""
    generation = need("asyncua.crypto.cert_gen", "OPC UA", "live")
    oids = need("cryptography.x509.oid", "OPC UA", "live")
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = folder / "key.pem", folder / "certificate.der"
    usage = oids.ExtendedKeyUsageOID
    await generation.setup_self_signed_certificate(
        key, certificate, uri, "localhost", [usage.SERVER_AUTH if server else usage.CLIENT_AUTH],
        {"commonName": "crossfeed", "organizationName": "crossfeed"},
    )  # fmt: skip
    key.chmod(0o600)
    return certificate, key


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
        from crossfeed.logs.template import template_from

        return template_from(Path(rest.removeprefix("//")))
    source = open_source(address, options)
    if scheme == "http":
        from crossfeed.live.mtconnect import MtconnectSource
        from crossfeed.logs.template import template_from

        return await MtconnectSource(address).read_model(template_from)
    from crossfeed.live.mqtt import MqttSource
    from crossfeed.live.opcua import OpcUaSource

    assert isinstance(source, OpcUaSource | MqttSource)
    return f"# Proposed for {address}; check every line.\n{(await source.propose()).to_yaml()}"


_CHUNK, _POLL_S = 1 << 20, 0.2


class GrowingFile(LiveSource):
    """Follows one path; a renamed file is read to its end before the new one under the old name."""

    def __init__(self, path: Path | str, mapping: Path | None) -> None:
        self.path = Path(path)
        self.title = f"the file {self.path}"
        if mapping is None:
            raise ConfigError(
                f"Nothing says what the columns of {self.path} mean.",
                expected="--mapping FILE.yaml",
                remedy=f"Write one with `crossfeed live discover file:{self.path} > mapping.yaml` and check it.",
            )
        self._mapping = LogMapping.from_yaml(mapping)
        if self._mapping.time.every is not None:
            raise ConfigError(
                f"{mapping} says that a row comes every {self._mapping.time.every}, so {self.path} has no clock.",
                expected="a column with the time: beside a running machine it says how old a row is",
                remedy="Let the logger write one, and name it in the mapping (time: {column: ...}).",
            )
        self._log_format = log_format_of(self._mapping)
        self._position: Mapping[str, Any] = {}

    async def open(self) -> LogFormat:
        """The kind that the mapping describes; the file may appear later."""
        return self._log_format

    def resume(self, position: Mapping[str, Any]) -> None:
        self._position = position

    async def arrivals(self) -> AsyncIterator[Arrival]:
        for part in self._earlier_parts():
            for arrival in part.arrivals():
                yield arrival
        part = _FilePart(self.path, self._log_format, self._mapping)
        if self.path.is_file() and _identity(status := self.path.stat()) == self._position.get("file"):
            part.offset = min(int(self._position["offset"]), status.st_size)
        while True:
            grown = False
            for arrival in part.arrivals():
                grown = True
                yield arrival
            if part.replaced():
                # The last lines may have been written between our look and the rotation.
                for arrival in part.arrivals():
                    yield arrival
                part.close()
                part = _FilePart(self.path, self._log_format, self._mapping)
                yield Notice("restart", f"{self.path.name} was rotated: a new file took its place")
            else:
                await asyncio.sleep(0.0 if grown else _POLL_S)

    def _earlier_parts(self) -> Iterator["_FilePart"]:
        """The file in which an earlier process stopped, if it has been renamed since: its rest comes first."""
        wanted = self._position.get("file")
        if wanted is None:
            return
        for path in sorted(self.path.parent.glob(f"{self.path.stem}*")):
            if path != self.path and path.is_file() and _identity(path.stat()) == wanted:
                part = _FilePart(path, self._log_format, self._mapping)
                part.offset = int(self._position["offset"])
                yield part
                part.close()


class _FilePart:
    """One file on disk, opened once and read as it grows."""

    def __init__(self, path: Path, log_format: LogFormat, mapping: LogMapping) -> None:
        self.path, self.log_format, self.offset = path, log_format, 0
        self._mapping = mapping
        self._file: Any = None
        self._head: bytes | None = None

    def replaced(self) -> bool:
        """Whether another file stands under the name, or this one was cut to less than was read."""
        if self._file is None or not self.path.exists():
            return False
        mine, there = os.fstat(self._file.fileno()), self.path.stat()
        return _identity(mine) != _identity(there) or there.st_size < self.offset

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def arrivals(self) -> Iterator[Arrival]:
        """Whole lines that were not read yet, as samples, and a mark behind them."""
        if self._file is None:
            if not self.path.is_file():
                return
            self._file = self.path.open("rb")
        if self._head is None and not self._find_head():
            return
        while lines := self._lines():
            yield from self._samples(lines)
            identity = _identity(os.fstat(self._file.fileno()))
            yield Mark({"file": identity, "offset": self.offset})

    def _find_head(self) -> bool:
        """Learn how the file is written, as soon as its header and a first row are there."""
        self._file.seek(0)
        beginning = self._file.read(_CHUNK)
        whole = beginning[: beginning.rfind(b"\n") + 1]
        if whole.count(b"\n") < 2:
            return False
        with temporary_file(whole, "part.csv") as file:
            dialect = sniff(file, self._mapping.separator, self._mapping.decimal)
        lines = whole.splitlines(keepends=True)
        if len(lines) < dialect.skip + 2:
            return False
        self._head = b"".join(lines[: dialect.skip + 1])
        written = {"separator": dialect.separator, "decimal": "," if dialect.decimal_comma else "."}
        self.log_format = log_format_of(self._mapping.model_copy(update=written))
        self.offset = max(self.offset, len(self._head))
        return True

    def _lines(self) -> bytes:
        self._file.seek(self.offset)
        chunk = self._file.read(_CHUNK)
        whole: bytes = chunk[: chunk.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole

    def _samples(self, lines: bytes) -> Iterator[Arrival]:
        assert self._head is not None
        with temporary_file(self._head + lines, f"{self.path.stem}.csv") as file:
            try:
                runs = list(self.log_format.read(self.log_format, file))
            except LogError as error:
                count = len(lines.splitlines())
                yield Notice("degraded", f"{plural(count, 'line')} of {self.path.name} left out: {error.found}")
                return
        constant = {column.channel for column in self.log_format.columns if column.constant is not None}
        for run in runs:
            frame = run.frame.filter(run.frame[CLOCK].is_not_null()).drop(*constant)
            for row in frame.iter_rows(named=True):
                time = row.pop(CLOCK)
                yield Sample(RUN, run.name, time)
                for name, value in row.items():
                    yield Sample(name, value, time)


def _identity(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"
