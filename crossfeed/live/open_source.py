"""A source by its address (a file, `http://`, `opc.tcp://`, `mqtt://`), who we are and whom we trust.

Secrets come from a file or the environment, never from the command line, which everybody may read. For OPC UA
certificates are really checked.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import yaml

from crossfeed.errors import ConfigError, need
from crossfeed.live.source import LiveSource

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
