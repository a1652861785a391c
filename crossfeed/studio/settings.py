"""Where the service listens, how much it does at once, and who may ask.

A token lets programs in, a cookie the browser that opened the link, and nobody from another page.
"""

import hmac
import ipaddress
import logging
import secrets
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm
from crossfeed.errors import ConfigError, StorageError

log = logging.getLogger("crossfeed.studio")
_SHORTEST = 24
_LINKS = 16  # unused links that are remembered
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Limits(CheckedForm):
    """Bounds on what one client, or all of them together, can cost."""

    body_bytes: int = Field(default=2 * 2**20, ge=1024)
    body_seconds: float = Field(default=20.0, gt=0.0)
    answer_seconds: float = Field(default=60.0, gt=0.0)
    plans: int = Field(default=4, ge=1)
    rows: int = Field(default=3600, ge=16)
    samples: int = Field(default=256, ge=20)
    batch: int = Field(default=64, ge=1)
    waiting: int = Field(default=256, ge=1)
    what_ifs: int = Field(default=2, ge=1)
    waiting_what_ifs: int = Field(default=16, ge=1)
    uploads: int = Field(default=16, ge=1)
    streams: int = Field(default=32, ge=1)
    connections: int = Field(default=160, ge=8)
    idle_seconds: float = Field(default=10.0, gt=0.0)


class ServeSettings(CheckedForm):
    """The address: this machine alone, unless a certificate or a proxy keeps what travels secret."""

    host: str = "127.0.0.1"
    port: int = Field(default=8400, ge=0, le=65535)
    certificate: Path | None = None
    key: Path | None = None
    proxy_does_tls: bool = False
    names: tuple[str, ...] = ()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _secret_on_the_way(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("A certificate and its key belong together.", expected="--certificate and --key, or none")
        if not self.local and self.certificate is None and not self.proxy_does_tls:
            raise ConfigError(
                f"On {self.host} others could read the token on its way.",
                expected="--certificate and --key, or --proxy-does-tls when a proxy in front speaks TLS",
                remedy="Leave --host away to serve this machine alone, or give a certificate.",
            )
        return self

    @property
    def local(self) -> bool:
        """Whether only programs on this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def secure(self) -> bool:
        """Whether browsers see https."""
        return self.certificate is not None or self.proxy_does_tls

    @property
    def shown_host(self) -> str:
        """The name that stands in the link."""
        if self.names:
            return self.names[0]
        if self.host in ("0.0.0.0", "::"):
            import socket

            return socket.gethostname()
        return f"[{self.host}]" if ":" in self.host else self.host

    def hosts(self, port: int) -> frozenset[str]:
        """What may stand in the Host header; a proxy passes names on with or without its own port."""
        names = {*LOOPBACK, *self.names, self.shown_host}
        names_with_port = {f"{name}:{port}" for name in names}
        standard = 443 if self.secure else 80
        if self.proxy_does_tls or port == standard:
            names_with_port |= names
        return frozenset(name.lower() for name in names_with_port)

    def address(self, port: int) -> str:
        """Where a browser finds the page."""
        scheme = "https" if self.secure else "http"
        port_suffix = "" if self.proxy_does_tls else f":{port}"
        return f"{scheme}://{self.shown_host}{port_suffix}"


@dataclass
class Keys:
    """The secrets of one running service."""

    token: str
    cookies: set[str] = field(default_factory=set)
    links: deque[str] = field(default_factory=lambda: deque(maxlen=_LINKS))

    @classmethod
    def fresh(cls) -> "Keys":
        return cls(secrets.token_urlsafe(32))

    @classmethod
    def kept_in(cls, path: Path) -> "Keys":
        """The token in a file that only its owner can read; made there when the file does not exist."""
        try:
            if not path.exists():
                path.touch(mode=0o600)
                path.write_text(secrets.token_urlsafe(32) + "\n", encoding="utf-8")
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"The token file {path} cannot be used: {error}.") from error
        if len(token) < _SHORTEST or any(not (33 <= ord(letter) < 127) for letter in token):
            raise ConfigError(
                f"The token in {path} has {len(token)} characters.",
                expected=f"at least {_SHORTEST} printable ASCII characters without spaces",
                remedy="Remove the file; a good token is made in its place.",
            )
        return cls(token)

    def link(self) -> str:
        """A code that lets one browser in, once."""
        code = secrets.token_urlsafe(24)
        self.links.append(code)
        return code

    def enter(self, code: str) -> str | None:
        """The cookie for a link that was not used yet."""
        link = next((each for each in self.links if same(each, code)), None)
        if link is None:
            return None
        self.links.remove(link)
        cookie = secrets.token_urlsafe(32)
        self.cookies.add(cookie)
        return cookie

    def knows_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and same(token.strip(), self.token)

    def knows_cookie(self, cookie: str) -> bool:
        return any(same(cookie, given) for given in self.cookies)


def same(first: str, second: str) -> bool:
    """Equality that takes as long for a near miss as for a far one."""
    return hmac.compare_digest(first.encode("utf-8", "replace"), second.encode("utf-8", "replace"))


def cookie_name(port: int) -> str:
    """Browsers keep cookies by host, not by port: two services on one machine need two names."""
    return f"crossfeed-{port}"
