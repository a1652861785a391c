"""Where the service may listen, and which names it answers to."""

from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.studio.settings import Keys, ServeSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_this_machine_needs_no_certificate(host: str) -> None:
    assert ServeSettings(host=host).local


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "machine.example", "::"])
def test_another_address_without_tls_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="could read the token"):
        ServeSettings(host=host)
    assert ServeSettings(host=host, proxy_does_tls=True).secure
    assert ServeSettings(host=host, certificate=Path("c.pem"), key=Path("k.pem")).secure


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="belong together"):
        ServeSettings(certificate=Path("c.pem"))


def test_only_own_names_with_the_own_port_are_answered() -> None:
    hosts = ServeSettings(names=("studio.example",)).hosts(8400)
    assert {"127.0.0.1:8400", "localhost:8400", "[::1]:8400", "studio.example:8400"} <= hosts
    assert not {"studio.example", "127.0.0.1", "127.0.0.1:80", "evil.example:8400"} & hosts
    assert "studio.example" in ServeSettings(names=("studio.example",), proxy_does_tls=True).hosts(8400)


def test_a_token_file_is_made_once_and_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "token"
    first = Keys.kept_in(path)
    assert Keys.kept_in(path).token == first.token
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("short")
    with pytest.raises(ConfigError, match="5 characters"):
        Keys.kept_in(path)


def test_a_link_lets_one_browser_in_once() -> None:
    keys = Keys.fresh()
    code = keys.link()
    cookie = keys.enter(code)
    assert cookie is not None
    assert keys.knows_cookie(cookie)
    assert keys.enter(code) is None
    assert keys.enter("") is None
    assert not keys.knows_cookie("")
