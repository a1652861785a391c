"""Who is let in, and how: tokens, cookies, hosts, origins."""

import logging
from collections.abc import Callable

import pytest

from crossfeed.studio.service import Service
from tests.studio.conftest import Client, talk

PATHS = ("/", "/docs", "/api/model", "/api/openapi.json", "/metrics", "/page/main.js", "/api/live", "/nothing")


@pytest.mark.parametrize(
    "authorization", ["", "Bearer wrong", "Bearer ", "Basic {token}", "{token}", "Bearer {token}x"]
)
def test_without_the_token_nothing_is_shown(
    make_service: Callable[..., Service], authorization: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = make_service()

    async def ask(client: Client) -> None:
        for path in PATHS:
            answer = await client.get(path)
            assert answer.status_code == 401, path
            assert service.opened.sha256 not in answer.text
        assert (await client.post("/api/link")).status_code == 401
        assert (await client.get("/healthz")).json() == {"status": "ok"}

    with caplog.at_level(logging.WARNING, "crossfeed.studio"):
        talk(service, ask, authorization=authorization.format(token=service.keys.token))
    assert sum("refused 401" in message for message in caplog.messages) == len(PATHS) + 1
    assert service.keys.token not in caplog.text
    assert 'crossfeed_refused_total{status="401"} 9' in service.metrics.text()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9", "127.0.0.1:8400.evil.example", "localhost", ""])
def test_another_host_is_refused_even_with_the_token(make_service: Callable[..., Service], host: str) -> None:
    async def ask(client: Client) -> None:
        assert (await client.get("/api/model", headers={"host": host})).status_code == 421
        assert (await client.get("/healthz", headers={"host": host})).status_code == 421

    talk(make_service(), ask)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8400", "http://127.0.0.1", ""])
def test_another_page_is_refused_even_with_the_token(make_service: Callable[..., Service], origin: str) -> None:
    async def ask(client: Client) -> None:
        assert (await client.post("/api/link", headers={"origin": origin})).status_code == 403
        assert (await client.post("/api/link", headers={"origin": "http://127.0.0.1:8400"})).status_code == 201

    talk(make_service(), ask)


def test_the_link_sets_a_cookie_once(make_service: Callable[..., Service]) -> None:
    service = make_service()
    code = service.keys.link()

    async def ask(client: Client) -> None:
        assert (await client.get("/enter/wrong")).status_code == 401
        entered = await client.get(f"/enter/{code}")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "url=/" in entered.text
        assert (await client.get("/api/model")).status_code == 200
        client.cookies.clear()
        assert (await client.get("/api/model")).status_code == 401
        again = await client.get(f"/enter/{code}")
        assert again.status_code == 401
        assert "used before" in again.json()["error"]["found"]

    talk(service, ask, authorization="")


def test_a_cookie_is_secure_under_tls(make_service: Callable[..., Service]) -> None:
    service = make_service(host="0.0.0.0", proxy_does_tls=True, names=("studio.example",))
    code = service.keys.link()

    async def ask(client: Client) -> None:
        answer = await client.get(f"/enter/{code}", headers={"host": "studio.example"})
        assert "Secure" in answer.headers["set-cookie"]
        own = {"host": "studio.example", "origin": "https://studio.example"}
        assert (await client.get("/api/model", headers=own)).status_code == 200

    talk(service, ask)


def test_every_answer_carries_the_policy(make_service: Callable[..., Service]) -> None:
    async def ask(client: Client) -> None:
        for path in ("/", "/api/model", "/nothing", "/healthz"):
            headers = (await client.get(path)).headers
            assert "default-src 'none'" in headers["content-security-policy"], path
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
        assert (await client.get("/api/model")).headers["cache-control"] == "no-store"

    talk(make_service(), ask)


@pytest.mark.parametrize(
    "path",
    [
        "/page/../start.py",
        "/page/%2e%2e/start.py",
        "/page//etc/passwd",
        "/../../etc/passwd",
        "/page/main.js/..",
        "/page/",
    ],
)
def test_paths_lead_nowhere_but_to_the_page(make_service: Callable[..., Service], path: str) -> None:
    async def ask(client: Client) -> None:
        answer = await client.get(path)
        assert answer.status_code == 404, answer.text
        assert "root:" not in answer.text

    talk(make_service(), ask)
