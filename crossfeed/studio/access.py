"""Who may ask: a token for programs, a cookie for the browser that opened the link, and nobody from another page."""

import hmac
import logging
import secrets
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from crossfeed.errors import ConfigError, StorageError

log = logging.getLogger("crossfeed.studio")
_SHORTEST = 24
_LINKS = 16  # unused links that are remembered


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
        known = next((one for one in self.links if same(one, code)), None)
        if known is None:
            return None
        self.links.remove(known)
        cookie = secrets.token_urlsafe(32)
        self.cookies.add(cookie)
        return cookie

    def knows_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and same(token.strip(), self.token)

    def knows_cookie(self, cookie: str) -> bool:
        return any(same(cookie, known) for known in self.cookies)


def same(first: str, second: str) -> bool:
    """Equality that takes as long for a near miss as for a far one."""
    return hmac.compare_digest(first.encode("utf-8", "replace"), second.encode("utf-8", "replace"))


def cookie_name(port: int) -> str:
    """Browsers keep cookies by host, not by port: two services on one machine need two names."""
    return f"crossfeed-{port}"
