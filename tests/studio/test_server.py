"""How the server takes its port, answers, and tells what it refused."""

import logging
import os
import socket
from collections.abc import Callable

import pytest

from crossfeed.errors import ConfigError
from crossfeed.studio.service import Service
from crossfeed.studio.settings import ServeSettings
from tests.studio.conftest import PATIENCE, Running
from tests.studio.real_server import httpx, server

__all__ = ["server"]

pytest.importorskip("fastapi", reason="needs the extra 'serve'")


def test_small_answers_waited_forty_milliseconds_for_an_acknowledgement() -> None:
    """asyncio switches Nagle's algorithm off only on sockets that say that they are TCP."""
    from crossfeed.studio.server import listen

    with listen(ServeSettings(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_taken_port_is_said_in_words(server: Running, make_service: Callable[..., Service]) -> None:
    from crossfeed.studio.server import serve

    with pytest.raises(ConfigError, match=f"Port {server.port} of 127.0.0.1 cannot be used"):
        serve(make_service(port=server.port), lambda *_: None)


def test_refusals_are_logged_without_secrets(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "crossfeed.studio"):
        httpx.get(f"{server.address}/api/model", headers={"authorization": "Bearer guessed"}, timeout=PATIENCE)
    assert "refused 401" in caplog.text
    assert "guessed" not in caplog.text
    assert os.environ.get("HOME", "/root") not in caplog.text
